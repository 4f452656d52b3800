"""What a job is to generate: all of it, and what is left after an interruption."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest

from tests.spectap import samples
from tests.spectap.commands.processes import Benchmark
from tests.spectap.offline.jobs import Jobs


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    """Results stay on this machine."""
    jobs = Jobs(tmp_path)
    jobs.write(bucket=None, region=None)
    return jobs


def order(lines: list[dict[str, object]]) -> list[tuple[object, object, int]]:
    """Round, test case and how many, in the order of the file."""
    turns = groupby(lines, key=lambda line: (line["round"], line["case"]))
    return [(*turn, len([*own])) for turn, own in turns]


def test_a_warm_up_and_controls_stand_around_all_rounds(benchmark: Benchmark, jobs: Jobs) -> None:
    ended = benchmark("prompts", **jobs.pod("vanilla"))
    assert (ended.status, ended.out) == (0, "vanilla: 15 prompts to generate\n")
    lines = jobs.asked("vanilla")
    assert order(lines) == [
        *((0, "counting", 1), (-1, "counting", 1)),
        *((1, "counting", 2), (1, "sonnets", 2)),
        *((2, "sonnets", 2), (2, "counting", 2)),
        *((3, "sonnets", 2), (3, "counting", 2)),
        (-1, "counting", 1),
    ]
    assert [line["attempt"] for line in lines if line["round"] == -1] == [1, 2]
    assert {line["attempt"] for line in lines if line["round"] != -1} == {1}
    assert {line["load"] for line in lines} == {"concurrency-1"}


def test_each_variant_is_asked_the_same_and_what_the_driver_would_send(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    asked = []
    for variant in ("Base", "vanilla"):
        assert benchmark("prompts", **jobs.pod(variant)).status == 0
        asked.append(jobs.asked(variant))
    assert asked[0] == asked[1]
    system, user = asked[0][2]["messages"]
    assert system == {"role": "system", "content": ""}  # llmperf's
    assert user["content"].count("counting") > 5
    assert asked[0][2]["max_tokens"] == 40
    assert (asked[0][2]["prompt"], asked[0][2]["prompt_class"]) == ("", "")


def test_what_the_chat_template_is_told_goes_with_each_prompt(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    told = {"enable_thinking": False}
    sampling = {"temperature": 0.0, "chat_template_kwargs": told}
    jobs.write(bucket=None, region=None, load=samples.load(concurrency=1, sampling=sampling))
    assert benchmark("prompts", **jobs.pod("Base")).status == 0
    assert {json.dumps(line["chat_template_kwargs"]) for line in jobs.asked("Base")} == {
        json.dumps(told)
    }


def test_prompts_of_a_file_come_in_turn_and_the_shortest_is_the_control(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    texts = ["the first prompt of all", "short", "and another one", "the last one of the file"]
    (jobs.folder / "own.txt").write_text("\n".join(texts), encoding="utf-8")
    jobs.write(
        bucket=None,
        region=None,
        test_cases=[{"name": "own", "prompts": {"file": "own.txt"}, "headline": True}],
    )
    assert benchmark("prompts", **jobs.pod("Base")).status == 0
    lines = jobs.asked("Base")
    assert {line["prompt"] for line in lines if line["round"] < 1} == {"line-2"}
    of_rounds = [line["prompt"] for line in lines if line["round"] >= 1]
    assert sorted(of_rounds[:4]) == ["line-1", "line-2", "line-3", "line-4"]
    assert of_rounds[4:] == of_rounds[:2]
    (used,) = json.loads((jobs.own("Base") / "prompts.json").read_text(encoding="utf-8"))
    assert (used["used"], used["left_out"], used["counted"]) == (4, [], False)


def test_a_turn_that_was_interrupted_goes_on_where_it_ended(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    pod = jobs.pod("vanilla")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("vanilla", until=5)
    with (jobs.own("vanilla") / "generations.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"case": "sonn')  # torn by a kill
    assert benchmark("prompts", **pod).status == 0
    lines = jobs.asked("vanilla")
    assert order(lines)[:4] == [
        *((0, "counting", 1), (-1, "counting", 1)),
        *((1, "sonnets", 1), (2, "sonnets", 2)),
    ]
    assert [(line["attempt"]) for line in lines if line["round"] == -1] == [2, 3]
    assert not (jobs.own("vanilla") / "generate.ended").exists()
    assert not (jobs.own("vanilla") / "generations.jsonl").exists()


def test_a_turn_in_which_something_failed_is_generated_again_as_a_whole(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    pod = jobs.pod("vanilla")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("vanilla", until=4, fails="RuntimeError: the device went away")
    assert benchmark("prompts", **pod).status == 0
    first = [line for line in jobs.asked("vanilla") if line["round"] == 1][:2]
    assert [(line["case"], line["attempt"]) for line in first] == [("counting", 2)] * 2


def test_a_prompt_that_does_not_fit_is_asked_once(benchmark: Benchmark, jobs: Jobs) -> None:
    pod = jobs.pod("vanilla")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("vanilla", until=4, fails="refused: the prompt has 412 tokens, 256 fit")
    assert benchmark("prompts", **pod).status == 0
    assert order(jobs.asked("vanilla"))[2] == (1, "sonnets", 2)


def test_without_a_last_control_only_a_control_is_left(benchmark: Benchmark, jobs: Jobs) -> None:
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("Base", until=14)
    ended = benchmark("prompts", **pod)
    assert ended.out == "Base: 2 prompts to generate\n"
    assert order(jobs.asked("Base")) == [(0, "counting", 1), (-1, "counting", 1)]
    jobs.generate("Base")
    assert benchmark("prompts", **pod).out == "Base: 0 prompts to generate\n"
    assert jobs.asked("Base") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"apart": False},
            "apart = false: must be true, since a variant is measured alone",
        ),
        (
            {"variants": samples.variants(Base="http://127.0.0.1:1/v1")},
            "variants: endpoint: must have none, since they run as jobs",
        ),
        (
            {"test_cases": [{"name": "calls", "prompts": {"known": "bfcl", "limit": 3}}]},
            "offers tools, which a job does not read",
        ),
    ],
)
def test_what_is_no_job_is_refused_in_one_line(
    benchmark: Benchmark, jobs: Jobs, changes: dict[str, object], message: str
) -> None:
    jobs.write(bucket=None, region=None, **changes)
    ended = benchmark("prompts", **jobs.pod("Base"))
    assert ended.status == 2
    assert ended.err.startswith("spectap: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err


def test_an_index_measures_no_job(benchmark: Benchmark, jobs: Jobs) -> None:
    ended = benchmark("index", **jobs.pod("Base"))
    assert ended.err.endswith("config.json: variants: endpoint: must have one each\n")
    assert ended.status == 2
