"""``measure``: endpoints that are there already, and no AWS at all."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectap.commands import execution, recorded
from spectap.commands.arguments import Exit
from spectap.inputs.config import Config, Objectives
from spectap.inputs.load_points import Load, LoadPoint, Rounds
from spectap.load.cases import HEADLINES
from spectap.load.driver import Driver
from spectap.names import SUMMARY
from spectap.protocol import access
from spectap.records.ledger import read_attempts, read_ledger
from spectap.run.taps import Patience
from tests.commands.processes import (
    EMPTY,
    MODEL,
    ROOT,
    Benchmark,
    eventually,
    golden,
    serving,
    started,
)
from tests.standins import InProcess
from tests.tapped import server

PASSWORD = "a URL must hold no user or password: set OPENAI_API_KEY instead"
SMALL = ("--requests", "3", "--rounds", "1", "--concurrency", "3", "--output-tokens", "40")


@pytest.fixture
def measure(
    tmp_path: Path,
    benchmark: Benchmark,
    monkeypatch: pytest.MonkeyPatch,
) -> Benchmark:
    """``measure`` with its results in ``tmp_path``.

    Requests are sent from this process, and nothing is drawn: both take longer than the rest.
    """
    monkeypatch.setattr(execution, "Driver", InProcess)
    monkeypatch.setattr(recorded, "draw", lambda *_, **__: None)
    return partial(benchmark, "measure", RESULTS_DIR=str(tmp_path), RUN_ID="run-1")


@pytest.fixture
def cases(tmp_path: Path) -> str:
    """A file with one test case."""
    path = tmp_path / "cases.jsonl"
    path.write_text('{"name": "json", "line": "{}", "structure": "structured"}\n', "utf-8")
    return str(path)


GUARD = """
import socket, sys
sys.modules["boto3"] = sys.modules["botocore"] = None
connect = socket.socket.connect
def refuse(self, address):
    if self.family != socket.AF_UNIX and address[0] != "127.0.0.1":
        raise AssertionError(f"connects to {address}")
    return connect(self, address)
socket.socket.connect = refuse
from spectap.__main__ import main
sys.exit(main())
"""
"""The command, which fails where it imports boto3 or connects to another machine."""


def test_two_endpoints_an_empty_environment_no_aws_and_no_other_machine(
    tmp_path: Path, cases: str
) -> None:
    windows = {"Base": 1, "k7": 7}
    with serving(*map(golden, windows.values())) as servers:
        endpoints = [f"{name}={s.url}" for name, s in zip(windows, servers, strict=True)]
        ended = subprocess.run(
            [sys.executable, "-c", GUARD, "measure", *endpoints, "--cases", cases, *SMALL],
            env=EMPTY | {"RESULTS_DIR": str(tmp_path), "RUN_ID": "run-1"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "run-1"
    assert ended.stdout.splitlines()[-3:] == [
        f"report: {folder}/report.html",
        f"results: {folder}",
        f"ledger: {folder}/ledger.jsonl",
    ]
    assert "k7 against Base" in ended.stdout
    assert "USD" not in ended.stdout
    assert "to send: 12 requests in 1 turn, and more" in ended.stderr
    measured = [record for record in read_ledger(folder / "ledger.jsonl") if record.round > 0]
    assert all(record.succeeded and record.per_chunk for record in measured)
    assert {(r.variant, r.case) for r in measured} == {(name, "json") for name in windows}
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in folder.iterdir():
        name = "*.png" if path.suffix == ".png" else path.name + "/" * path.is_dir()
        assert f"`{name}`" in page, "it says what a run leaves"


Configured = Callable[..., tuple[Config, Patience, Path]]


@pytest.fixture
def configured(measure: Benchmark, monkeypatch: pytest.MonkeyPatch) -> Configured:
    """What options come to, without the run."""
    calls: list[tuple[Config, Patience, Path]] = []

    def execute(config: Config, folder: Path, patience: Patience, *, files: Path, **_: Any) -> int:
        calls.append((config, patience, files))
        return 0

    def call(*arguments: str) -> tuple[Config, Patience, Path]:
        ended = measure(*arguments)
        assert ended.status == 0, ended.err
        return calls[-1]

    monkeypatch.setattr(execution, "execute", execute)
    return call


def test_options_come_to_a_configuration(configured: Configured, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("a\nb\nc\nd\ne\n", "utf-8")
    with serving(golden(), golden(model="another")) as (base, speculative):
        baseline = f"Base={base.url}"
        config, patience, _ = configured(f"{baseline}/chat/completions")  # as it may be pasted
        assert config.endpoints == {"Base": base.url}
        assert config.load == Load(
            mean_input_tokens=64,
            mean_output_tokens=200,
            points=(LoadPoint(concurrency=4, requests=4),),
            rounds=Rounds.model_validate(6),
            timeout_seconds=1200,
            sampling={"temperature": 0.0},
        )
        assert (config.test_cases, config.objectives) == (HEADLINES, None)
        assert patience == Patience(start=60, recovery=60)

        waits = ("--wait", "9", "--timeout", "500", "--rounds", "3-4")
        config, patience, _ = configured(baseline, *waits, "--spread", "30")
        assert config.load.rounds == Rounds(at_least=3, at_most=4)
        assert config.load.timeout_seconds == 1200
        assert config.load.spread_minutes == 30
        assert patience == Patience(start=9, recovery=9, stall=500)

        ladder = ("--concurrency", "1,3", "--rate", "20,0.1", "--seconds", "0.5", "--rounds", "1")
        promised = ("--ttft-p90-ms", "500", "--tpot-p90-ms", "50", "--keep-answers")
        chosen = ("--set", "mt-bench", "--classes", "coding,math", "--limit", "4")
        config, _, _ = configured(baseline, *ladder, *promised, *chosen)
        closed = [LoadPoint(concurrency=concurrency, requests=4) for concurrency in (1, 3)]
        rates = [LoadPoint(rate=20, requests=10), LoadPoint(rate=0.1, requests=1)]
        assert config.load.points == (*closed, *rates)
        assert config.load.timeout_seconds == 2400
        assert config.objectives == Objectives(ttft_p90_ms=500, tpot_p90_ms=50)
        assert config.load.sampling == {"temperature": 0.0}
        assert config.keep_answers
        (case,) = config.test_cases
        assert case.prompts is not None
        assert (case.prompts.classes, case.prompts.limit) == (("coding", "math"), 4)

        prompts = ("--prompts", str(tmp_path / "prompts.txt"), "--rounds", "3")
        config, _, files = configured(baseline, *prompts)
        assert (config.load.points, files) == ((LoadPoint(concurrency=2, requests=2),), tmp_path)

        sd = f"SD={speculative.url}#another"
        config, _, _ = configured(
            baseline, sd, "--alternate", "--requests", "2", "--extra", '{"temperature": 1}'
        )
        assert config.load.sampling == {"temperature": 1}
        assert [(v.model, v.baseline) for v in config.variants] == [
            (None, None),
            ("another", "Base"),
        ]
        assert (config.model, config.alternate) == (MODEL, True)


@pytest.mark.parametrize(
    ("status", "hint"),
    [(500, ""), (404, "; does it serve that API? --endpoint-type names another")],
)
def test_a_server_without_health_that_repeats_the_key_and_a_header(
    tmp_path: Path,
    measure: Benchmark,
    cases: str,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    hint: str,
) -> None:
    monkeypatch.setattr(execution, "Driver", Driver)  # which has to send the key
    monkeypatch.setattr(access, "HEADERS", {})
    keys: list[tuple[str | None, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path.startswith("/v1/"):
            keys.append((request.headers.get("Authorization"), request.headers.get("X-Team")))
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "m"}]})
        if request.path == "/health":
            return web.json_response({}, status=405)
        repeated = " ".join(map(str, keys[-1]))
        text = f'out of\x1b[2J\nmemory: "{repeated}"'
        return web.json_response({"error": {"message": text}}, status=status)

    with serving(server(answer)) as (url,):
        options = ("--wait", "0", "--header", "X-Team: a team-01234", "--cases", cases, *SMALL)
        ended = measure(f"Base={url}", *options, OPENAI_API_KEY="sk-01234567")
    assert ended.status == 2
    assert ended.err.splitlines()[-1] == (
        f"spectap: Base: no request to {url}/chat/completions succeeded: HTTP {status}: out of"
        f'\ufffd[2J memory: "Bearer *** a ***"{hint}'
    )
    assert set(keys) == {("Bearer sk-01234567", "a team-01234")}  # whatever is under /v1
    files = [path for path in (tmp_path / "run-1").rglob("*") if path.is_file()]
    assert any("individual_responses" in path.name for path in files)
    kept = [path.read_text("utf-8") for path in files]
    assert not any("X-Team" in text or "01234" in text for text in kept)


def test_a_server_without_usage_is_named_before_a_run_is_spent_on_it(
    tmp_path: Path, measure: Benchmark, cases: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"data": [{"id": MODEL}]})
        event = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
        stream = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n"
        return web.Response(text=stream, content_type="text/event-stream")

    with serving(golden()) as (base,), serving(server(answer)) as (url,):
        ended = measure(f"Base={base.url}", f"SD={url}", "--cases", cases, *SMALL)
    assert ended.status == 2
    (line,) = [line for line in ended.err.splitlines() if line.startswith("spectap: ")]
    assert line.startswith(f"spectap: SD ({url}) streams answers without usage: ")
    assert "stream_options" in line
    assert {record.round for record in read_ledger(tmp_path / "run-1" / "ledger.jsonl")} == {0}


@contextmanager
def interrupted(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, which gets Ctrl-C after its first turn."""
    environment = EMPTY | {"RESULTS_DIR": str(folder.parent), "RUN_ID": folder.name}
    with started("measure", *arguments, environment=environment) as process:
        eventually(lambda: len(read_attempts(folder)) == 1)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == (
            f"spectap: ended by SIGINT; what was measured is kept in {folder}\n"
        )
        yield process


TWO_ROUNDS = ("--rounds", "2", "--requests", "2", "--concurrency", "2", "--output-tokens", "20")


def test_ctrl_c_tells_what_was_measured_and_how_to_go_on(
    tmp_path: Path, measure: Benchmark, cases: str
) -> None:
    folder = tmp_path / "run-1"
    with serving(golden(speed=5)) as (base,):
        arguments = [f"Base={base.url}", "--cases", cases, *TWO_ROUNDS]
        with interrupted(folder, *arguments) as process:
            out, err = process.communicate(timeout=30)
        assert process.returncode == 128 + signal.SIGINT
        assert "Traceback" not in err
        assert "ended early" in out
        assert out.splitlines()[-2:] == [
            f"report: {folder}/report.html",
            "spectap: the same command with RUN_ID=run-1 continues this run",
        ]
        again = measure(*arguments)
    assert again.status == 0, again.err
    complete = [r for r in read_ledger(folder / "ledger.jsonl") if r.round == 1]
    assert len(complete) == 2  # not measured again


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path, cases: str) -> None:
    with serving(golden(speed=5)) as (base,):
        arguments = (f"Base={base.url}", "--cases", cases, *TWO_ROUNDS)
        with interrupted(tmp_path / "run-1", *arguments) as process:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    # Where it interrupts an exec, CPython ends by the signal itself: 130 to a shell, too.
    assert process.returncode in (128 + signal.SIGINT, -signal.SIGINT)
    assert "Traceback" not in err
    assert out == "spectap: the same command with RUN_ID=run-1 continues this run\n"


def test_json_alone_goes_to_the_output(
    measure: Benchmark, cases: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "draw", lambda run, **_: (run / SUMMARY).write_text("{}\n"))
    with serving(golden()) as (base,):
        ended = measure(f"Base={base.url}", "--cases", cases, *SMALL, "--json")
    assert (ended.status, ended.out) == (Exit.DONE, "{}\n")
    assert ended.err.splitlines()[-1].startswith("ledger: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: NAME=URL"),
        ("Base=h:80", "'h:80': must be a base URL such as http://127.0.0.1:8000/v1"),
        ("a=http://me:hidden@h/v1", PASSWORD),
        ("me:hidden=1@h", PASSWORD),
        ("a=http://h a=http://g", "NAME=URL: each endpoint needs a name of its own"),
        ("a=http://h --concurrency 1,0", "'0': must be a whole number of at least 1"),
        ("a=http://h --keep-answers", "--keep-answers: needs --prompts or --set"),
        ("a=http://h --ttft-p90-ms 500 --e2e-p90-ms 400", "e2e_p90_ms must be more than ttft_p90"),
        ("a=http://h --rounds 2-9", "--rounds: '2-9': at_least: must be at least 3, the"),
        ("a=http://h --cases f --prompts g", "--cases and --prompts: only one of them"),
        ("a=http://h --relaunch x", "--relaunch: needs --launches"),
        ("a=http://h?key=1", "must be a base URL such as http://127.0.0.1:8000/v1, without ?query"),
        ("a=http://h --header hidden", "--header: a header must be 'NAME: VALUE'"),
        ("a=http://h --extra [1]", "--extra: '[1]': must be a JSON object"),
        ("a=http://h --launches 2", "launches: must be 1 or at least 3"),
        ("a=http://h --requests 9999999", "requests: Input should be less than or equal to 1"),
        ("a=http://h --ca /nowhere", "--ca /nowhere: no certificates: No such file or directory"),
        ("a=http://127.0.0.1:9 --wait 0", "not serving after 0 s: a (http://127.0.0.1:9/v1), at "),
    ],
)
def test_bad_input_is_refused_in_one_line(measure: Benchmark, arguments: str, message: str) -> None:
    line = measure(*arguments.split()).refusal()
    assert message in line
    assert "hidden" not in line
