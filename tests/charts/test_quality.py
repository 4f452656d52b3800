from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from experiment import Experiment
from experiment.variants import variants
from tests.synthesis import Synthesised


def test_is_not_started_by_default(synthesised: Synthesised) -> None:
    assert synthesised.object("Job", "qwen-lmeval")["spec"]["suspend"] is True


def test_evaluates_every_service(side_by_side: Synthesised) -> None:
    pod = side_by_side.object("Job", "qwen-lmeval")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    labels = [argument.partition("=")[0] for argument in container["args"][5:]]
    deciding = [each.name for each in variants(side_by_side.experiment) if not each.matched]
    assert labels == deciding


@pytest.mark.parametrize(
    ("load", "in_flight"),
    [
        ([{"concurrency": 1}, {"concurrency": 2}, {"concurrency": 64}], 2),
        ([{"rate": 1, "seconds": 30}], 4),
    ],
)
def test_does_not_queue(
    variation: Callable[[dict[str, Any]], Experiment], load: list[Any], in_flight: int
) -> None:
    """The largest concurrency within the batch of 4; where only rates are measured, the batch."""
    experiment = variation({"benchmark.concurrency": None, "benchmark.load": load})
    assert experiment.concurrency_without_a_queue == in_flight


def test_asks_the_samples_questions_and_keeps_the_results(synthesised: Synthesised) -> None:
    pod = synthesised.object("Job", "qwen-lmeval")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:5] == ["Qwen/Qwen3-32B", "50", "4", "512", "results/quality/"]
    assert pod["serviceAccountName"] == "quality"
