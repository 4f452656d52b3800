"""Every mode on every runtime for every family: its command lines, or who runs it instead.

A mode, a runtime or a family that commands.txt does not know fails here.
"""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from experiment import ExperimentError
from experiment.known_models import Family
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Mode, Paths, Preparation, Workload
from experiment.variants import Variant, variants
from tests.experiment.files import edited, model

TEXT: Final = (Path(__file__).parent / "commands.txt").read_text(encoding="utf-8")
FAMILIES: Final = {
    (mode, runtime): tuple(families.split())
    for mode, runtime, families in re.findall(r"^(\w+) on (\S+): (.*)$", TEXT, re.M)
}

JOB: Final[dict[str, Any]] = {
    "serving.batch": 1,
    "benchmark.concurrency": 1,
    "benchmark.mean_output_tokens": 400,
}
DRAFTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "vanilla": ("causal-lm", JOB),
    "fused": ("causal-lm", {}),
    "eagle": ("eagle-head", {}),
    "eagle3": ("eagle3-head", {}),
    "medusa": ("medusa-heads", JOB | {"speculation.num_speculative_tokens": 4}),
    "dflash": (
        "dflash-draft",
        {
            "speculation.num_speculative_tokens": 15,
            "serving.devices": 1,
            "serving.tensor_parallel": 4,
        },
    ),
}
"""The kind of a mode's draft, and what makes an experiment of it of the article's."""


def experiment(mode: Mode, runtime: str, family: Family) -> str:
    """The article's experiment with a target of ``family``, in ``mode`` on ``runtime``."""
    kind, changes = DRAFTS[mode]
    fixed = {"drafts": 15} if mode == "dflash" else {}
    if (mode, runtime) == ("eagle3", "vllm-neuron"):
        changes = changes | {"speculation.num_speculative_tokens": 3}
    models = {
        "models.target": model(f"example/{family}", "1", 128, 8, 64, 8.0, family=family),
        "models.draft": model("me/draft", "2", 128, 8, 64, 1.0, family=family, kind=kind, **fixed),
    }
    chosen = {"runtime": runtime, "speculation.mode": mode}
    return edited(chosen | models | changes)


def commands(variant: Variant) -> Iterator[str]:
    runtime, config = variant.runtime, variant.engine_config
    paths = Paths(
        "/target", "/draft" if config.has_draft else None, "/artifact", "/scratch", "/scripts"
    )
    lines = {"draft": runtime.draft_command(config, paths)}
    if runtime.preparation is Preparation.COMPILE_JOB:
        lines["compile"] = runtime.compile_command(config, paths)
    if variant.experiment.workload is Workload.JOB:
        lines["run"] = runtime.generate_command(config, paths)
    else:
        lines["run"] = runtime.serve_command(config, paths, 8000)
    for name, words in lines.items():
        if words:
            yield f"  {variant.name} {name}: {' '.join(words)}"


@pytest.mark.parametrize(("mode", "runtime", "family"), [*product(Mode, RUNTIMES, Family)])
def test_a_combination_has_its_commands_or_says_what_works(
    mode: Mode, runtime: str, family: Family
) -> None:
    text = experiment(mode, runtime, family)
    if family in FAMILIES.get((mode, runtime), ()):
        head = f"{mode} on {runtime}: {' '.join(FAMILIES[mode, runtime])}\n"
        expected = TEXT.partition(head)[2].partition("\n\n")[0].rstrip()
        expected = expected.replace("FAMILY", family).replace("MODEL", f"example/{family}")
        compared = [v for v in variants(parse(text, "mine.yaml")) if not v.matched]
        assert [line for v in compared for line in commands(v)] == expected.splitlines()
        return
    with pytest.raises(ExperimentError) as refused:
        parse(text, "mine.yaml")
    job = ", as a job" if mode in ("vanilla", "medusa") else ""
    able = {name: FAMILIES[mode, name] for name in RUNTIMES if (mode, name) in FAMILIES}
    works = ", ".join(f"{name} ({', '.join(of)}{job})" for name, of in able.items())
    field = "models.target" if runtime in able else "speculation.mode"
    assert f"{field} = " in str(refused.value)
    assert f"{mode} is served by {works}" in str(refused.value)
