"""Which stages there are, and what they show."""

from __future__ import annotations

import io
import re

import pytest

from deployment.account import Deployment, DeploymentError
from deployment.console import Console
from deployment.stages.command import stages
from deployment.stages.measure import last_progress
from deployment.stages.stage import Context, Progress, StageFailed
from experiment import load
from tests.deployment.conftest import at
from tests.made import ROOT

ALL = [
    *("preflight", "deploy", "guard", "objects", "download", "compile", "start"),
    *("serve", "benchmark", "stop", "results"),
]


@pytest.mark.parametrize(
    ("deployment", "names"),
    [
        (at({"compiling": {"node": "trainium"}}), [*ALL[:5], "start", "compile", *ALL[7:]]),
        # Its services compile when they start.
        (
            Deployment(load(ROOT / "experiments/dflash.yaml"), "any", "any"),
            [name for name in ALL if name != "compile"],
        ),
    ],
    ids=["compiles on Trainium", "dflash"],
)
def test_an_experiment_has_the_stages_that_it_needs(
    deployment: Deployment, names: list[str]
) -> None:
    every = stages(Context(deployment))
    assert [stage.name for stage in every] == names
    # What goes on once a run is complete.
    assert [s.name for s in every if not s.costs] == ["preflight", "stop", "results"]


def test_the_benchmarks_newest_progress_is_shown() -> None:
    log = "[0/24] warm-up\n[12/24] round 2 of 4: counting\nreport: x\n"
    assert last_progress(log) == "[12/24] round 2 of 4: counting"
    assert last_progress("waiting for http://qwen-vllm:8000/health\n") == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def console_output(stream: io.StringIO) -> list[str]:
    console = Console(1, stream)
    with console.stage("first") as stage:
        stage.progress = "1 of 2"
        console.say("a line that is longer than a terminal " * 5)
        stage.result = "something"
    return re.sub(r"\d\.\d s", "0.0 s", stream.getvalue()).splitlines()


def test_plain_lines_in_a_log_and_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    title, _, result = console_output(io.StringIO())
    assert (title, result) == ("[1/1] first", "      something, 0.0 s")
    lines = console_output(Terminal())
    assert "1 of 2" in "".join(lines)
    assert lines[-1].endswith("[1/1] first: something, 0.0 s")


def test_a_wait_outlives_an_api_that_is_out_of_reach_and_nothing_else() -> None:
    answers: list[object] = [DeploymentError("AWS:\n no route"), None, None, "there"]
    answers += [StageFailed("it never serves")]
    stream = io.StringIO()
    console = Console(1, stream)

    def look() -> object:
        progress.wait("0 of 2\n  are ready")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with console.stage("serve") as line:
        progress = Progress(console, line, poll_seconds=0)
        assert progress.until(look) == "there"
        assert line.progress == "0 of 2 are ready"
        with pytest.raises(StageFailed, match="it never serves"):
            progress.until(look)
    # A log has once, and in one line, what is waited for.
    assert stream.getvalue().count("0 of 2 are ready\n") == 1
