"""Which stages there are, and what they show."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from deployment.account import Deployment, DeploymentError
from deployment.console import Console
from deployment.stages.command import stages
from deployment.stages.measure import bar
from deployment.stages.stage import Context, Progress, StageFailed
from experiment import load

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
ALL = [
    *("preflight", "deploy", "guard", "objects", "download", "compile", "start"),
    *("serve", "benchmark", "stop", "results"),
]


@pytest.mark.parametrize(
    ("file", "lacks"),
    [
        ("article.yaml", set()),  # no Trainium node runs before the graphs are there
        ("dflash.yaml", {"compile"}),  # its services compile when they start
        ("article-sweep.yaml", {"serve"}),
    ],
)
def test_an_experiment_has_the_stages_that_it_needs(file: str, lacks: set[str]) -> None:
    deployment = Deployment(load(EXPERIMENTS / file), file, "123456789012")
    every = stages(Context(deployment))
    assert [stage.name for stage in every] == [name for name in ALL if name not in lacks]
    # What goes on once a run is complete.
    free = [stage.name for stage in every if not stage.costs]
    assert free == ["preflight", "stop", "results"]


def test_compiling_on_trainium_nodes_starts_them_first(tmp_path: Path) -> None:
    article = load(EXPERIMENTS / "article.yaml")
    compiling = article.compiling.model_copy(update={"node": "trainium"})
    changed = article.model_copy(update={"compiling": compiling})
    every = stages(Context(Deployment(changed, "any.yaml", "123456789012")))
    names = [stage.name for stage in every]
    assert names.index("start") == names.index("compile") - 1


@pytest.mark.parametrize(
    ("log", "drawn"),
    [
        ("waiting for http://qwen-vllm:8000/health\n", ""),
        ("[0/0] turns\n", "-------------------- 0/0 turns"),
        (
            "[0/24] warm-up\n[12/24] round 2 of 4: counting\nreport: x\n",
            "##########---------- 12/24 round 2 of 4: counting",
        ),
    ],
)
def test_the_benchmarks_log_becomes_a_bar(log: str, drawn: str) -> None:
    assert bar(log).replace("█", "#").replace("░", "-") == drawn


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def console_output(stream: io.StringIO) -> str:
    console = Console(2, stream)
    with console.stage("first") as stage:
        stage.progress = "1 of 2"
        console.say("a line that is longer than a terminal " * 5)
        stage.result = "something"
    with console.stage("second", shows_itself=True):
        pass
    return re.sub(r"\d\.\d s", "0.0 s", stream.getvalue())


def test_plain_lines_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    long = ("a line that is longer than a terminal " * 5).rstrip()
    assert [line.rstrip() for line in console_output(io.StringIO()).splitlines()] == [
        *("[1/2] first", f"      {long}", "      something, 0.0 s"),
        *("[2/2] second", "      0.0 s"),
    ]


def test_one_line_for_a_stage_on_a_terminal() -> None:
    text = console_output(Terminal())
    assert "1 of 2" in text
    assert "\x1b[2K" in text  # the live line goes
    assert text.splitlines()[-3:][0].endswith("[1/2] first: something, 0.0 s")


def test_a_stage_that_fails_stays_the_current_one() -> None:
    console = Console(1, Terminal())
    with pytest.raises(ValueError, match="wrong"), console.stage("first"):
        raise ValueError("wrong")
    assert console.current is not None
    assert (console.current.title, console.done) == ("first", [])


def test_a_log_says_once_and_in_one_line_what_is_waited_for() -> None:
    stream = io.StringIO()
    console = Console(1, stream)
    with console.stage("serve") as line:
        progress = Progress(console, line)
        for _ in range(5):
            progress.wait("0 of 2\n  are ready")
    assert stream.getvalue().count("0 of 2 are ready") == 1


def test_a_wait_outlives_an_api_that_is_out_of_reach_and_nothing_else() -> None:
    answers: list[object] = [DeploymentError("AWS: no route"), None, "there"]
    answers += [StageFailed("it never serves")]

    def look() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    stream = io.StringIO()
    console = Console(1, stream)
    with console.stage("serve") as line:
        progress = Progress(console, line, poll_seconds=0)
        assert progress.until(look) == "there"
        with pytest.raises(StageFailed, match="it never serves"):
            progress.until(look)
    assert "AWS: no route; asking again" in stream.getvalue()
