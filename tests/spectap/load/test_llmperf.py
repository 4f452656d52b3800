"""llmperf's side: command line, private copies, result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectap.errors import LoadError
from spectap.load import llmperf
from spectap.load_points import Load, LoadPoint
from tests.spectap import samples


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout as far as the code looks at it."""
    package = tmp_path / "llmperf" / "src" / "llmperf"
    package.mkdir(parents=True)
    (package / "sonnet.txt").write_text("Shall I compare thee\n", encoding="utf-8")
    (package / "utils.py").write_text("", encoding="utf-8")
    (tmp_path / "llmperf" / llmperf.SCRIPT).write_text("", encoding="utf-8")
    return tmp_path / "llmperf"


@pytest.mark.parametrize("missing", [None, "LLMPERF_HOME", "LLMPERF_PYTHON", llmperf.SCRIPT])
def test_is_the_installation_that_the_environment_names(home: Path, missing: str | None) -> None:
    environment = {"LLMPERF_HOME": str(home), "LLMPERF_PYTHON": "python3.10"}
    if missing is not None:
        environment.pop(missing, None)
        (home / missing).unlink(missing_ok=True)
    expected = None if missing else llmperf.Installation("python3.10", home)
    assert llmperf.find(environment) == expected


def test_each_case_has_its_own_text_and_the_installed_one_stays(home: Path, tmp_path: Path) -> None:
    installation = llmperf.Installation("python3.10", home)
    first, second = tmp_path / "one", tmp_path / "two"
    for _ in range(2):
        command = installation.private_copy(first, "counting ")
    installation.private_copy(second, None)
    assert command == ["python3.10", str(first / llmperf.SCRIPT)]
    assert (first / llmperf.SCRIPT).is_file()
    assert (first / "llmperf" / "utils.py").is_file()
    assert (first / "llmperf" / "sonnet.txt").read_text(encoding="utf-8") == "counting \n" * 500
    for untouched in (home / "src", second):
        text = (untouched / "llmperf" / "sonnet.txt").read_text(encoding="utf-8")
        assert text == "Shall I compare thee\n"
    environment = installation.environment(first, concurrency=4)
    assert environment["PYTHONPATH"] == str(first)
    assert environment["RAY_OVERRIDE_RESOURCES"] == '{"CPU": 4}'
    assert environment["RAY_AUTH_MODE"] == "token"
    # Two at once do not share a token.
    second_environment = installation.environment(first, concurrency=4)
    assert environment["RAY_AUTH_TOKEN"] != second_environment["RAY_AUTH_TOKEN"]


def test_the_command_line() -> None:
    load = Load.model_validate(samples.load())
    named: dict[str, Any] = {"model": "Qwen/Qwen3-32B", "results": Path("/r"), "driver": "llmperf"}
    arguments = llmperf.arguments(load, load.points[0], **named)
    assert " ".join(arguments) == (
        "--model Qwen/Qwen3-32B --mean-input-tokens 64 --stddev-input-tokens 0 "
        "--mean-output-tokens 20 --stddev-output-tokens 0 --num-concurrent-requests 2 "
        "--max-num-completed-requests 2 --timeout 20 "
        '--additional-sampling-params {"temperature": 0.0} '
        "--results-dir /r --llm-api openai --metadata driver=llmperf"
    )
    # A rate is the built-in driver's own.
    at_rate = llmperf.arguments(load, LoadPoint(rate=0.5, requests=2), **named)
    assert {*arguments} - {*at_rate} == {"--num-concurrent-requests"}
    assert llmperf.file_stem("Qwen/Qwen3-32B", 64, 600) == "Qwen-Qwen3-32B_64_600"


def test_reads_its_results(tmp_path: Path) -> None:
    responses = [
        {"error_code": code, "inter_token_latency_s": latency, "ttft_s": 0.07}
        for code, latency in ((None, 0.03), (429, 0.02), (None, 0), (None, 0.01))
    ]
    path = tmp_path / "m_64_128_individual_responses.json"
    path.write_text(json.dumps(responses), encoding="utf-8")
    assert llmperf.latencies(tmp_path) == [0.03, 0.01]
    summary = tmp_path / "m_64_128_summary.json"
    for content, driver in (('{"driver": "x"}', "x"), ("{}", "llmperf")):
        summary.write_text(content, encoding="utf-8")
        assert llmperf.driver(tmp_path) == driver
    summary.write_text("[]", encoding="utf-8")
    with pytest.raises(LoadError, match="the summary is not an object"):
        llmperf.driver(tmp_path)


@pytest.mark.parametrize("content", [None, "[{", "[1]", '[{"ttft_s": 1}]', '{"a": 1}'])
def test_results_that_are_missing_or_not_whole(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "m_individual_responses.json").write_text(content, encoding="utf-8")
    with pytest.raises(LoadError) as refusal:
        llmperf.latencies(tmp_path)
    assert "\n" not in str(refusal.value)
