"""What may surprise the user of a valid experiment."""

from __future__ import annotations

from typing import Any

import pytest

from experiment import Experiment, load
from experiment.loader import parse
from experiment.notes import notes
from tests.experiment.files import EXPERIMENTS, LLAMA, edited, swept

BLOCK = {"capacity.purchase": "capacity-block", "capacity.reservation_id": "cr-0123456789abcdef0"}
ARCHITECTURE = LLAMA["architecture"] | {"family": "qwen3", "vocabulary": 151936}
INDIA = {
    "aws.region": "ap-south-2",
    "aws.availability_zones": ["ap-south-2a", "ap-south-2b"],
    "capacity.availability_zone": "ap-south-2b",
}


def experiment(changes: dict[str, Any]) -> Experiment:
    return parse(edited(changes), "mine.yaml")


def test_of_a_block_at_its_own_price_there_is_nothing_to_say() -> None:
    assert experiment(BLOCK).price_of == "capacity-block in us-east-2"
    assert list(notes(experiment(BLOCK))) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "capacity-block in us-east-2; no price of on-demand in us-east-2 is given"),
        (
            BLOCK | INDIA,
            "capacity-block in us-east-2; no price of capacity-block in ap-south-2 is given",
        ),
        (
            {"capacity.purchase": "spot", "capacity.price.purchase": "on-demand"},
            "on-demand in us-east-2; no price of spot in us-east-2 is given",
        ),
    ],
)
def test_a_price_of_something_else_is_named_as_what_it_is(
    changes: dict[str, Any], words: str
) -> None:
    assert experiment(changes).price_of == words
    assert f"capacity.price: costs use the price of {words}" in list(notes(experiment(changes)))


@pytest.mark.parametrize("rounds", [1, 2])
def test_too_few_rounds_for_a_verdict_are_named(rounds: int) -> None:
    assert list(notes(experiment(BLOCK | {"benchmark.rounds": rounds}))) == [
        f"benchmark.rounds = {rounds}: there will be no verdict, which needs at least 3 rounds"
    ]


def test_a_known_model_at_another_revision_is_named() -> None:
    changes = BLOCK | {"models.draft.revision": "7" * 40}
    (note,) = notes(experiment(changes))
    assert note.startswith(
        f"models.draft.revision = {'7' * 40}: the known figures of Qwen/Qwen3-1.7B are those of "
        "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e, read in "
    )


def said(name: str, word: str) -> list[str]:
    """The notes on an experiment that is here which have ``word``."""
    return [note for note in notes(load(EXPERIMENTS / f"{name}.yaml")) if word in note]


@pytest.mark.parametrize("name", ["eagle", "eagle3", "eagle3-nxdi", "dflash"])
def test_gated_models_need_a_token(name: str) -> None:
    target = load(EXPERIMENTS / f"{name}.yaml").models.target.id
    (note,) = said(name, "gated")
    assert note.startswith(f"{target} is gated: ")
    assert said("vanilla", "gated") == said("medusa", "gated") == []


@pytest.mark.parametrize("name", ["eagle3", "dflash"])
def test_a_first_start_compiles_on_a_billed_node(name: str) -> None:
    (note,) = said(name, "first starts")
    assert note.startswith("runtime = vllm-neuron-1.x: each service compiles when it first starts")
    assert "billed meanwhile, for up to 4 hours" in note
    assert said("eagle3-nxdi", "first starts") == said("vanilla", "first starts") == []


def test_a_head_of_which_nobody_saw_the_norm_is_named_on_nxdi() -> None:
    head = {"id": "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3", "revision": "4" * 40}
    target = {"id": "meta-llama/Llama-3.3-70B-Instruct", "revision": "6" * 40}
    changes = {
        "runtime": "vllm-0.16-nxdi",
        "models": {"target": target, "draft": head},
        "speculation.mode": "eagle3",
    }
    word = "norm_before_residual"
    (note,) = (note for note in notes(experiment(changes)) if word in note)
    assert note.startswith(f"models.draft = {head['id']}: if its config.json has {word} = true")
    served = changes | {"runtime": "vllm-neuron-1.x"}
    assert [note for note in notes(experiment(served)) if word in note] == []
    assert said("eagle3-nxdi", word) == []


def test_what_of_a_file_a_job_does_not_use_is_said() -> None:
    (note,) = said("medusa", "random token ids")
    assert "no test case, round or load" in note
    assert said("vanilla", "are sent at") == []


@pytest.mark.parametrize(
    ("name", "told"), [("article", False), ("article-sweep", True), ("vanilla", True)]
)
def test_an_alarm_that_there_is_not_has_no_effect(name: str, told: bool) -> None:
    said = [note for note in notes(load(EXPERIMENTS / f"{name}.yaml")) if "has no effect" in note]
    assert [note.partition(" =")[0] for note in said] == ["alerts.minimum_speedup"] * told


def test_a_draft_that_a_sweep_does_not_use_is_named() -> None:
    other = {"id": "Qwen/Qwen3-0.6B", "revision": "c1899de289a04d12100db370d81485cdf75e47ca"}
    said = "models.draft = Qwen/Qwen3-1.7B: is not used, since sweep.drafts lists the drafts"
    assert said in notes(experiment(swept(drafts=[other])))
    assert said not in notes(experiment(swept()))
