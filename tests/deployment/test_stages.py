"""Which stages there are, and what they show."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployment.console import Console
from deployment.errors import DeploymentError
from deployment.place import Place
from deployment.stages.benchmark import bar, progress
from deployment.stages.order import stages
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed, Way
from experiment import Experiment, load

Vary = Callable[[dict[str, Any]], Experiment]
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
CPU = ["preflight", "deploy", "objects", "download", "compile", "start", "serve", "benchmark"]
ENDS = ["stop", "results"]


def names(experiment: Experiment) -> list[str]:
    return [stage.name for stage in stages(Way(Place(experiment, "any.yaml", "123456789012")))]


def test_no_trainium_node_stands_before_the_graphs_are_there(article: Experiment) -> None:
    assert names(article) == [*CPU, *ENDS]


def test_compiling_on_trainium_nodes_starts_them_first(variation: Vary) -> None:
    found = names(variation({"compiling": {"node": "trainium"}}))
    assert found.index("start") == found.index("compile") - 1
    assert sorted(found) == sorted([*CPU, *ENDS])


@pytest.mark.parametrize(
    ("file", "lacks"),
    [
        ("dflash.yaml", {"compile"}),  # its services compile when they start
        ("article-sweep.yaml", {"serve"}),
        ("vanilla.yaml", {"serve"}),
    ],
)
def test_an_experiment_has_no_stage_that_it_does_not_need(file: str, lacks: set[str]) -> None:
    found = names(load(EXPERIMENTS / file))
    assert found == [name for name in [*CPU, *ENDS] if name not in lacks]


def test_what_is_free_goes_on_once_a_run_is_complete(article: Experiment) -> None:
    every = stages(Way(Place(article, "any.yaml", "123456789012")))
    assert [stage.name for stage in every if not stage.costs] == ["preflight", *ENDS]


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("", ""),
        ("waiting for http://qwen-vllm:8000/health\n", ""),
        ("[12/24] round 2 of 4: counting\nreport: x\n", "[##########----------]"),
        ("[0/24] warm-up\n[6/24] round 1 of 4: one\n[24/24] done\n", "[####################]"),
    ],
)
def test_the_benchmarks_log_becomes_a_bar(log: str, shown: str) -> None:
    drawn = progress(log).replace("█", "#").replace("░", "-")
    assert drawn.partition(" ")[0] == shown.strip("[]")


def test_a_bar_of_nothing() -> None:
    assert bar(0, 0, "turns").endswith(" 0/0 turns")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_in(stream: io.StringIO, waits: list[str]) -> str:
    console = Console(1, stream)
    with console.stage("serve") as line:
        shown = Shown(console, line)
        for text in waits:
            shown.waits(text)
    return stream.getvalue()


def test_a_log_says_once_what_is_waited_for() -> None:
    log = shown_in(io.StringIO(), ["0 of 2 are ready"] * 5)
    assert log.count("0 of 2 are ready") == 1


def test_what_is_waited_for_is_one_line_in_a_log() -> None:
    assert "first second" in shown_in(io.StringIO(), ["first\n  second"])


def test_a_wait_outlives_an_api_that_is_out_of_reach() -> None:
    answers: list[object] = [DeploymentError("AWS: no route"), None, "there"]

    def look() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    stream = io.StringIO()
    console = Console(1, stream)
    with console.stage("serve") as line:
        assert Shown(console, line, poll_seconds=0).until(look) == "there"
    assert "AWS: no route; asking again" in stream.getvalue()


def test_a_wait_ends_with_what_cannot_get_better() -> None:
    def look() -> None:
        raise StageFailed("it never serves")

    console = Console(1, Terminal())
    with console.stage("serve") as line, pytest.raises(StageFailed, match="it never serves"):
        Shown(console, line, poll_seconds=0).until(look)
