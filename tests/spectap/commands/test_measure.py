"""``measure``: endpoints that are there already, and no AWS at all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from experiment import load
from spectap.config import Config, Objectives, read
from spectap.ledger import read_attempts, read_ledger
from spectap.load.cases import HEADLINES
from spectap.load_points import LoadPoint, Rounds
from tests.spectap.commands.processes import (
    EMPTY,
    MODEL,
    Benchmark,
    eventually,
    golden,
    serving,
    started,
)
from tests.spectap.tapped import server
from tests.synthesis import ROOT

PASSWORD = "a URL must hold no user or password: set OPENAI_API_KEY instead"
SMALL = ("--requests", "3", "--rounds", "1", "--concurrency", "3", "--output-tokens", "40")


@pytest.fixture
def measure(tmp_path: Path, benchmark: Benchmark) -> Benchmark:
    """``measure`` with its results in ``tmp_path``."""
    return partial(benchmark, "measure", RESULTS_DIR=str(tmp_path), RUN_ID="run-1")


def config_of(folder: Path) -> Config:
    return read(folder / "run-1" / "config.json")


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


def test_three_endpoints_an_empty_environment_no_aws_and_no_other_machine(
    tmp_path: Path, cases: str
) -> None:
    windows = {"Base": 1, "k3": 3, "k7": 7}
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
    assert "k3, k7 against Base" in ended.stdout
    assert "USD" not in ended.stdout
    assert "k7" in (folder / "report.html").read_text(encoding="utf-8")

    measured = [record for record in read_ledger(folder / "ledger.jsonl") if record.round > 0]
    assert all(record.succeeded and record.per_chunk for record in measured)
    assert {(r.variant, r.case) for r in measured} == {(name, "json") for name in windows}
    config = config_of(tmp_path)
    assert [variant.baseline for variant in config.variants] == [None, "Base", "Base"]
    assert (config.bucket, config.region, config.cost) == (None, None, None)
    assert config.model == "Qwen/Qwen3-32B"


def test_the_default_cases_are_the_article_s_headlines() -> None:
    article = load(ROOT / "experiments" / "article.yaml").benchmark.test_cases
    assert [(case.name, case.line, str(case.structure)) for case in HEADLINES] == [
        (case.name, case.line, str(case.structure)) for case in article if case.headline
    ]


@pytest.fixture
def cases(tmp_path: Path) -> str:
    """A file with one test case."""
    path = tmp_path / "cases.jsonl"
    path.write_text('{"name": "json", "line": "{}", "structure": "structured"}\n', "utf-8")
    return str(path)


def test_one_endpoint_alone_with_the_cases_of_a_file(
    tmp_path: Path, measure: Benchmark, cases: str
) -> None:
    with serving(golden()) as (base,):
        ended = measure(f"Base={base.url}", "--cases", cases, *SMALL)
        prompts = [sent.prompt for sent in base.sent]
    assert ended.status == 0, ended.err
    assert "speed-up" not in ended.out
    assert all("{}\n{}" in prompt for prompt in prompts)
    (case,) = config_of(tmp_path).test_cases
    assert (case.name, case.headline) == ("json", True)


def test_prompts_of_a_file_are_sent_as_they_are(tmp_path: Path, measure: Benchmark) -> None:
    path = tmp_path / "my prompts.txt"
    path.write_text("Why?\nHow so?\n", encoding="utf-8")
    with serving(golden()) as (base,):
        ended = measure(
            *(f"Base={base.url}", "--prompts", str(path), "--rounds", "1", "--concurrency", "1"),
            LLMPERF_HOME="/nowhere",
            LLMPERF_PYTHON="python3",
        )
        prompts = [sent.prompt for sent in base.sent]
    assert ended.status == 0, ended.err
    # The warm-up, and a round with each prompt once.
    assert prompts[0] in ("Why?", "How so?")
    assert sorted(prompts[1:]) == ["How so?", "Why?"]
    (case,) = config_of(tmp_path).test_cases
    assert case.name == "my-prompts"


def test_prompts_are_dealt_over_the_rounds(tmp_path: Path, measure: Benchmark) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"prompt {number}\n" for number in range(5)), encoding="utf-8")
    options = ("--prompts", str(path), "--rounds", "3", "--concurrency", "1")
    with serving(golden()) as (base,):
        ended = measure(f"Base={base.url}", *options, "--output-tokens", "20")
        sent = [int(sent.prompt.removeprefix("prompt ")) for sent in base.sent]
    assert ended.status == 0, ended.err
    # The warm-up, and three rounds of two requests.
    assert sorted(sent[1:6]) == [*range(5)]
    assert sent[6] == sent[1] == sent[0]


def test_a_range_of_rounds_and_the_default_load(
    tmp_path: Path, measure: Benchmark, cases: str
) -> None:
    options = ("--rounds", "3-4", "--half-width", "0.5", "--output-tokens", "4")
    with serving(golden()) as (base,):
        ended = measure(f"Base={base.url}", "--cases", cases, "--concurrency", "6", *options)
    assert ended.status == 0, ended.err
    load = config_of(tmp_path).load
    assert load.rounds == Rounds(at_least=3, at_most=4, half_width=0.5)
    assert load.points == (LoadPoint(concurrency=6, requests=6),)


def test_a_ladder_with_objectives_and_a_set_of_prompts(tmp_path: Path, measure: Benchmark) -> None:
    options = ("--concurrency", "1,3", "--rate", "20", "--seconds", "0.5", "--rounds", "1")
    promised = ("--ttft-p90-ms", "500", "--tpot-p90-ms", "50", "--keep-answers", "--no-thinking")
    prompts = ("--set", "mt-bench", "--classes", "coding,math", "--limit", "4")
    with serving(golden()) as (base,):
        short = ("--output-tokens", "4", *prompts)
        ended = measure(f"Base={base.url}", *options, *promised, *short)
    assert ended.status == 0, ended.err
    config = config_of(tmp_path)
    assert config.load.points == (
        LoadPoint(concurrency=1, requests=4),
        LoadPoint(concurrency=3, requests=4),
        LoadPoint(rate=20, requests=10),
    )
    assert config.objectives == Objectives(ttft_p90_ms=500, tpot_p90_ms=50)
    assert config.load.sampling["chat_template_kwargs"] == {"enable_thinking": False}
    records = [r for r in read_ledger(tmp_path / "run-1" / "ledger.jsonl") if r.round > 0]
    assert len(records) == 4 + 4 + 10
    assert {r.prompt_class for r in records} == {"coding", "math"}
    assert all(r.due is not None and r.sent >= r.due for r in records if r.load == "rate-20")
    lines = (tmp_path / "run-1" / "answers.jsonl").read_text("utf-8").splitlines()
    answers = [json.loads(line) for line in lines]
    assert len(answers) == len(records)
    assert all(answer["answer"]["content"] and answer["digest"] for answer in answers)


def test_a_server_without_health_and_with_a_key(measure: Benchmark, cases: str) -> None:
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path.startswith("/v1/"):
            seen.append(request.headers.get("Authorization"))
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "m"}]})
        status = 405 if request.path == "/health" else 500
        message = "out of memory\x1b[2J\nbenchmark: all is well"
        return web.json_response({"error": {"message": message}}, status=status)

    with serving(server(answer)) as (url,):
        ended = measure(f"Base={url}", "--cases", cases, *SMALL, OPENAI_API_KEY="sesame")
    assert ended.status == 1
    (failed,) = [line for line in ended.err.splitlines() if ": failed: " in line]
    assert failed.startswith("spectap: failed: json, round 1: ")
    shown = "out of memory\ufffd[2J benchmark: all is well"
    assert f"Base: 0 of 3 requests succeeded: HTTP 500: {shown}" in failed
    assert set(seen) == {"Bearer sesame"}  # whatever is under /v1


def test_a_server_without_usage_is_told_before_a_run_is_spent_on_it(
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


def test_a_server_that_answers_nothing_ends_the_turn_and_then_the_run(
    tmp_path: Path, measure: Benchmark, cases: str
) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    event = {"choices": [{"index": 0, "delta": {"content": "x"}}], "usage": usage}
    served = []

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"data": [{"id": MODEL}]})
        served.append(request)
        if len(served) > 1:
            await asyncio.Event().wait()
        stream = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n"
        return web.Response(text=stream, content_type="text/event-stream")

    few = ("--rounds", "5", "--requests", "6", "--concurrency", "1", "--output-tokens", "8")
    with serving(golden()) as (base,), serving(server(answer)) as (url,):
        endpoints = f"Base={base.url}", f"SD={url}"
        ended = measure(*endpoints, "--cases", cases, *few, "--timeout", "1")
    assert ended.status == 1
    failed = [line for line in ended.err.splitlines() if ": failed: " in line]
    cause = "SD: 0 of 6 requests succeeded: stalled: nothing came for 1 s"
    assert failed == [
        f"spectap: failed: json, round 1: {cause}",
        f"spectap: failed: json, round 2: {cause}",
        "spectap: failed: SD answered nothing in two turns on end; 3 of 5 turns were not run",
    ]
    assert (
        "to send: 60 requests in 5 turns, with about 3,840 tokens in and at most 480 out"
        in ended.err
    )
    assert "going by the warm-up, this takes about " in ended.err
    records = [r for r in read_ledger(tmp_path / "run-1" / "ledger.jsonl") if r.round > 0]
    # The turn may end before the load has begun its next request, or just after.
    sd_errors = [(r.round, r.error) for r in records if r.variant == "SD"]
    assert [each for each in sd_errors if each[1] != "cancelled by the client"] == [
        (1, "stalled: nothing came for 1 s"),
        (2, "stalled: nothing came for 1 s"),
    ]
    assert [r.succeeded for r in records if r.variant == "Base"] == [True] * 12


def test_ctrl_c_tells_what_was_measured_and_how_to_go_on(
    tmp_path: Path, measure: Benchmark, cases: str
) -> None:
    folder = tmp_path / "run-1"
    few = ("--rounds", "5", "--requests", "2", "--concurrency", "2", "--output-tokens", "40")

    def cells() -> tuple[list[tuple[int, int]], list[str]]:
        """Requests and errors of each cell, and what is found of those that are compared."""
        (case,) = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["cases"]
        amounts = [(cell["requests"], cell["errors"]) for cell in case["cells"]]
        compared = [cell["comparison"] for cell in case["cells"] if cell["comparison"]]
        return amounts, [comparison["verdict"]["finding"] for comparison in compared]

    with serving(golden(speed=5), golden(7, speed=10)) as (base, fast):
        endpoints = f"Base={base.url}", f"SD={fast.url}"
        arguments = ["measure", *endpoints, "--cases", cases, *few]
        environment = EMPTY | {"RESULTS_DIR": str(tmp_path), "RUN_ID": "run-1"}
        with started(*arguments, environment=environment) as process:
            # In the fourth round: one of its two variants has begun to answer.
            eventually(lambda: len(read_attempts(folder)) == 3)
            before = len(base.sent)
            eventually(lambda: len(base.sent) > before)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert process.returncode == 128 + signal.SIGINT
        assert "Traceback" not in err
        assert cells() == ([(6, 0), (6, 0)], ["faster"])
        assert out.startswith(f"spectap: ended by SIGINT; what was measured is kept in {folder}")
        assert "* The run ended early: its last 2 turns were not measured" in out
        assert out.splitlines()[-2:] == [
            f"report: {folder}/report.html",
            "spectap: the same command with RUN_ID=run-1 continues this run",
        ]
        assert len([r for r in read_ledger(folder / "ledger.jsonl") if r.round == 4]) > 0
        again = measure(*arguments[1:])
    assert again.status == 0, again.err
    assert cells() == ([(10, 0), (10, 0)], ["faster"])
    whole = [r for r in read_ledger(folder / "ledger.jsonl") if 0 < r.round < 4]
    assert len(whole) == 12  # not measured again


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path, cases: str) -> None:
    few = ("--rounds", "9", "--requests", "2", "--concurrency", "2", "--output-tokens", "40")
    environment = EMPTY | {"RESULTS_DIR": str(tmp_path), "RUN_ID": "run-1"}
    with serving(golden(speed=5)) as (base,):
        arguments = ["measure", f"Base={base.url}", "--cases", cases, *few]
        with started(*arguments, environment=environment) as process:
            eventually(lambda: len(read_attempts(tmp_path / "run-1")) == 2)
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            assert process.stdout.readline().startswith("spectap: ended by SIGINT; what was ")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in err
    assert out == "spectap: the same command with RUN_ID=run-1 continues this run\n"
    assert len([r for r in read_ledger(tmp_path / "run-1" / "ledger.jsonl") if r.round == 2]) == 2


def test_ctrl_c_while_it_waits(tmp_path: Path, measure: Benchmark) -> None:
    environment = EMPTY | {"RESULTS_DIR": str(tmp_path)}
    with started("measure", "Base=http://127.0.0.1:9", environment=environment) as process:
        assert process.stderr is not None
        waiting = process.stderr.readline()
        assert waiting.startswith("waiting for Base (http://127.0.0.1:9/v1): not reachable, for ")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT
    assert err == "spectap: ended by SIGINT; nothing was measured\n"
    assert not os.listdir(tmp_path)


def test_endpoints_that_serve_different_models_need_a_name(
    tmp_path: Path, measure: Benchmark
) -> None:
    with serving(golden(), golden(model="another")) as (base, other):
        arguments = (f"Base={base.url}", f"SD={other.url}")
        ended = measure(*arguments, *SMALL)
        assert ended.status == 2
        assert ended.err == (
            "spectap: there is no one model that all endpoints serve: name one by --model, or "
            "one each by NAME=URL#MODEL: Base: Qwen/Qwen3-32B; SD: another\n"
        )


def test_models_of_their_own_by_turns_that_never_overlap(
    tmp_path: Path, measure: Benchmark, cases: str
) -> None:
    with serving(golden(), golden(7, model="another")) as (base, other):
        arguments = (f"Base={base.url}", f"SD={other.url}#another", "--cases", cases)
        ended = measure(*arguments, "--rounds", "2", "--output-tokens", "20", "--alternate")
        refused = measure(f"Base={base.url}#nope", "--cases", cases)
    assert ended.status == 0, ended.err
    assert "variants by turns" in " ".join(ended.out.split())
    assert "different names (Base: Qwen/Qwen3-32B, SD: another)" in " ".join(ended.out.split())
    records = read_ledger(tmp_path / "run-1" / "ledger.jsonl")
    assert all(record.succeeded for record in records)
    spans = {
        name: [(r.sent, r.sent + r.end) for r in records if r.variant == name]
        for name in ("Base", "SD")
    }
    assert len(spans["Base"]) >= 12
    assert len(spans["SD"]) >= 12
    overlapping = [
        (base, sd)
        for base in spans["Base"]
        for sd in spans["SD"]
        if base[0] < sd[1] and sd[0] < base[1]
    ]
    assert overlapping == []
    assert config_of(tmp_path).models == {"Base": MODEL, "SD": "another"}
    assert refused.status == 2
    assert "'nope': Base (http://" in refused.err


def test_without_being_asked_to_it_measures_them_beside_each_other(
    measure: Benchmark, cases: str
) -> None:
    with serving(golden(), golden(7)) as (base, other):
        ended = measure(f"Base={base.url}", f"SD={other.url}", "--cases", cases, *SMALL)
    assert "variants beside each other" in " ".join(ended.out.split())


def test_a_model_that_an_endpoint_does_not_serve_is_refused(measure: Benchmark) -> None:
    with serving(golden()) as (base,):
        url = base.url
        ended = measure(f"Base={url}", "--model", "nope", *SMALL)
    assert ended.status == 2
    assert ended.err == f"spectap: --model = 'nope': Base ({url}) serves Qwen/Qwen3-32B\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: NAME=URL"),
        (["http://h"], "NAME=URL[#MODEL]: 'http://h': must be NAME=URL"),
        (["Base=h:80"], "'h:80': must be a base URL such as http://127.0.0.1:8000/v1"),
        (["a=http://h#"], "'a=http://h#': must be NAME=URL or NAME=URL#MODEL"),
        (["a b=http://h"], "'a b': a name must match"),
        (["a=http://me:hidden@h/v1"], PASSWORD),
        (["a=http://me:hidden#@h"], PASSWORD),
        (["me:hidden@h"], PASSWORD),
        (["http://me:hidden=1@h"], PASSWORD),
        (["me:hidden=1@h"], PASSWORD),
        (["a=http://h", "a=http://g"], "NAME=URL: each endpoint needs a name of its own"),
        (["a=http://h", "--concurrency", "1,0"], "'0': must be a whole number of at least 1"),
        (["a=http://h", "--concurrency", "2,2"], "'2,2': must name each only once"),
        (["a=http://h", "--rate", "0"], "--rate: '0': must be a number of more than 0 and at "),
        (["a=http://h", "--seconds", "5"], "--seconds = 5: needs --rate"),
        (
            ["a=http://h", "--rate", "1e9"],
            "'1e9': must be a number of more than 0 and at most 1000",
        ),
        (
            ["a=http://h", "--rate", "0.01", "--seconds", "9"],
            "--seconds = 9: must be at least 100: at --rate 0.01 requests are so far apart",
        ),
        (["a=http://h", "--keep-answers"], "--keep-answers: needs --prompts or --set"),
        (["a=http://h", "--limit", "5"], "--limit: needs --prompts or --set"),
        (["a=http://h", "--set", "gsm8k"], "--set: invalid choice: 'gsm8k'"),
        (
            ["a=http://h", "--ttft-p90-ms", "500", "--e2e-p90-ms", "400", "--wait", "0"],
            "e2e_p90_ms must be more than ttft_p90_ms, 500",
        ),
        (["a=http://h", "--rounds", "0"], "--rounds: '0': must be at least 1"),
        (
            ["a=http://h", "--rounds", "4-"],
            "'4-': must be a whole number, or a range such as 4-30",
        ),
        (["a=http://h", "--rounds", "2-9"], "--rounds: '2-9': at_least: must be at least 3, the"),
        (["a=http://h", "--rounds", "9-4"], "'9-4': at_least: must be at most 4, which is at_most"),
        (
            ["a=http://h", "--half-width", "0.1"],
            "--half-width = 0.1: needs a range of rounds, such as --rounds 4-30",
        ),
        (["a=http://h", "--half-width", "5"], "'5': must be a number between 0 and 1"),
        (["a=http://h", "--input-tokens", "40"], "must be a whole number of at least 41"),
        (["a=http://h", "--temperature", "nan"], "'nan': must be a number from 0 to 2"),
        (["a=http://h", "--temperature", "9"], "'9': must be a number from 0 to 2"),
        (
            ["a=http://h", "--cases", "f", "--prompts", "g"],
            "--cases and --prompts: only one of them",
        ),
        (
            ["a=http://127.0.0.1:9", "--wait", "0"],
            "not serving after 0 s: a (http://127.0.0.1:9/v1), at the last try: not reachable",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(
    tmp_path: Path, measure: Benchmark, arguments: list[str], message: str
) -> None:
    ended = measure(*arguments)
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert message in line
    assert "hidden" not in line


def test_help_lists_the_options(measure: Benchmark) -> None:
    ended = measure("--help")
    assert (ended.status, ended.err) == (0, "")
    assert "90 % of requests: time to first token" in ended.out


def test_a_run_id_becomes_a_folder_name(tmp_path: Path, measure: Benchmark) -> None:
    ended = measure("a=http://h", RUN_ID="../x")
    assert ended.status == 2
    assert ended.err.startswith("spectap: RUN_ID = '../x': must match ")
