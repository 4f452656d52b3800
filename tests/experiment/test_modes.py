"""The tables of modes say what the catalogue of runtimes and the rules on models say."""

from __future__ import annotations

import pytest

from experiment import ExperimentError
from experiment.known_models import KNOWN_MODELS
from experiment.loader import parse
from experiment.modes import modes
from experiment.runtimes import RUNTIMES, Mode
from tests.experiment.files import edited, of_file


def test_the_tables_name_every_mode_on_every_runtime() -> None:
    meanings, how, _ = modes().split("\n\n")
    assert [line.split("`")[1] for line in meanings.splitlines()[2:]] == [*Mode]
    named = {tuple(line.split("`")[1:4:2]) for line in how.splitlines()[2:]}
    assert named == {(mode, name) for name, runtime in RUNTIMES.items() for mode in runtime.modes}
    assert all(line.endswith(") |") for line in how.splitlines()[2:]), "a mode without a source"


FILES = {
    "eagle": "eagle",
    "eagle3": "eagle3-nxdi",
    "medusa": "medusa",
    "dflash": "dflash",
    "fused": "article",
}


def listed(target: str, mode: str, runtime: str) -> set[str]:
    """The drafts that the third table has."""
    _, _, pairs = modes().split("\n\n")
    rows = [line.split(" | ") for line in pairs.splitlines()[2:]]
    return {
        draft
        for name, modes, runtimes, drafts in rows
        if target in name and f"`{mode}`" in modes and f"`{runtime}`" in runtimes
        for draft in drafts.split("`")[1::2]
    }


@pytest.mark.parametrize(
    ("target", "mode", "runtime", "some"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "fused", "vllm-0.9.1-nxdi", True),
        ("meta-llama/Llama-3.3-70B-Instruct", "eagle", "vllm-0.16-nxdi", False),
        ("meta-llama/Llama-3.1-8B-Instruct", "eagle3", "vllm-0.16-nxdi", True),
        ("Qwen/Qwen3-8B", "dflash", "vllm-neuron-1.x", True),
    ],
)
def test_the_pairs_are_those_that_no_file_is_refused_for(
    target: str, mode: str, runtime: str, some: bool
) -> None:
    able = {
        draft.partition("/")[2]
        for draft in KNOWN_MODELS
        if draft != target and not refused(target, draft, mode, runtime)
    }
    assert able == listed(target, mode, runtime)
    assert bool(able) is some


def refused(target: str, draft: str, mode: str, runtime: str) -> bool:
    """Whether a file with these is refused for its models."""
    file = of_file(FILES[mode]) | {
        "runtime": runtime,
        "models.target": {"id": target, "revision": "1" * 40},
        "models.draft": {"id": draft, "revision": "2" * 40},
    }
    try:
        parse(edited(file), "mine.yaml")
    except ExperimentError as error:
        return " models." in str(error)
    return False
