"""A run's folder, read: who made the load, what counts, what is missing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from spectap.analysis.summary import to_json
from spectap.endpoint import greedy
from spectap.endpoint.counters import COUNTERS, Count, Counters
from spectap.endpoint.greedy import Divergence
from spectap.errors import JournalError
from spectap.inputs.prompt import LeftOut, UsedSet
from spectap.records.journal import Journal, write_json
from spectap.records.record import CANCELLED
from spectap.report import results
from tests import generated_runs as generated
from tests.report import runs
from tests.report.runs import CONFIG, LINES

EARLIER = Path(__file__).parents[1] / "earlier_run"
COUNTED = [line for line in LINES if line["round"] > 0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generated.write(tmp_path, CONFIG, LINES)


def test_of_a_repeated_turn_only_the_last_attempt_counts(folder: Path) -> None:
    """Not the requests of the attempt before it, nor its count."""
    before = results.read(folder)
    turn = [line for line in COUNTED if (line["case"], line["round"]) == ("repetition", 1)]
    cancelled = [
        generated.fail({**line, "request": f"{line['request']}-1"}, CANCELLED) for line in turn[:5]
    ]
    counted = [{**line, "attempt": 2} if line in turn else line for line in LINES]
    generated.write(folder, CONFIG, [*cancelled, *counted])
    nothing = Counters(0, 0, 0, 0, ())
    count = Count("repetition", 1, "SD", tuple(line["request"] for line in cancelled), nothing)
    with Journal(folder / COUNTERS) as counters:
        counters.append(count)
    run = results.read(folder)
    assert run.summary.cases == before.summary.cases
    # What answers tell of themselves is checked; the counters of the first attempt are not.
    names = {figure.name for check in run.checks for figure in check.figures}
    assert names == {"accepted drafts, by answers"}
    (note,) = set(run.notes) - set(before.notes)
    assert "measured again in the same round: 5 requests, 0 of which failed." in note


def test_a_torn_line_is_noted_and_so_is_a_missing_ledger(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG, LINES, torn=True))
    assert len(run.records) == len(LINES) - 1
    assert any("is torn" in note for note in run.notes)
    (tmp_path / "ledger.jsonl").unlink()
    assert "There is no ledger.jsonl in this folder." in results.read(tmp_path).notes


def test_what_the_configuration_does_not_name_is_left_out(folder: Path, tmp_path: Path) -> None:
    strangers = [line | {"load": "else"} for line in LINES]
    run = results.read(generated.write(tmp_path / "run", CONFIG, [*LINES, *strangers]))
    assert {check.load for check in run.checks} == {"concurrency-4"}
    named = Divergence("SD", "counting", "token", 100, 17)
    unnamed = (Divergence(*names, "token", 100, 17) for names in (("k3", "counting"), ("SD", "x")))
    write_json(folder / greedy.DIVERGENCE, [named, *unnamed])
    assert results.read(folder).divergences == (named,)


def test_the_sets_of_prompts_are_those_that_were_used(folder: Path) -> None:
    left_out = (LeftOut("HumanEval/9", 5000, 4096),)
    used = UsedSet("repetition", "HumanEval", "MIT", "ab" * 32, (("python", 2),), 2, left_out, True)
    (folder / "prompts.json").write_bytes(TypeAdapter(tuple[UsedSet, ...]).dump_json((used,)))
    assert results.read(folder).summary.sets == (used,)
    (folder / "prompts.json").write_text('[{"case": "repetition"}]', encoding="utf-8")
    with pytest.raises(JournalError, match=r"prompts\.json: 0\.source: Field required$"):
        results.read(folder)


def test_checked_answers_are_read(folder: Path) -> None:
    answer = {
        **{"case": "repetition", "load": "concurrency-4", "round": 1, "attempt": 1},
        **{"prompt": "one", "digest": "ab" * 32, "finish": "stop", "form": "code"},
        **{"problem": "", "answer": None},
    }
    with Journal(folder / "answers.jsonl") as journal:
        for variant, valid in {"Base": True, "SD": False}.items():
            journal.append(answer | {"variant": variant, "valid": valid})
    programs, _ = results.read(folder).summary.correctness
    assert (programs.check, programs.rate, programs.baseline_rate) == ("programs", 0, 1)


def test_the_load_was_made_by_whom_the_files_name(tmp_path: Path) -> None:
    """A file without a summary is of a llmperf that was killed; requests at times are not its."""
    builtin = "the built-in driver, not llmperf"
    run = runs.ladder(tmp_path, {1: 1.0, 8: 4.0}, {0.5: 1.0})
    assert run.driver == builtin
    generated.write_llmperf(tmp_path, COUNTED)
    both = results.read(tmp_path)
    (note,) = (note for note in both.notes if note.startswith("llmperf begins"))
    assert "than they make at concurrency 8: a queue" in note
    assert both.driver.startswith("llmperf, and the built-in driver where ")
    closed = tuple(record for record in both.records if record.due is None)
    assert replace(both, records=closed).driver == "llmperf"
    for path in tmp_path.glob("llmperf/**/*_individual_responses.json"):
        summary = path.with_name(path.name.replace("individual_responses", "summary"))
        summary.write_text('{"driver": "closed-loop"}', encoding="utf-8")
    unnamed = results.read(tmp_path)
    assert unnamed.driver == builtin
    assert not [note for note in unnamed.notes if note.startswith("llmperf begins")]


def part(document: Any, like: Any) -> Any:
    """As much of a JSON document as another has."""
    if isinstance(like, dict):
        return {name: part(document[name], value) for name, value in like.items()}
    if isinstance(like, list):
        return [part(*pair) for pair in zip(document, like, strict=True)]
    return document


def test_figures_of_an_earlier_run_come_out_the_same_to_the_last_digit() -> None:
    """A run from before variants had fields of their own, with the figures that it had then."""
    run = results.read(EARLIER)
    known = json.loads((EARLIER / "figures.json").read_text(encoding="utf-8"))
    today = json.loads(to_json(run.summary))
    assert part([cell for case in today["cases"] for cell in case["cells"]], known) == known
    assert run.driver == "llmperf"
    assert {check.variant for check in run.checks} == {"Base", "SD"}
    assert [(each.variant, each.case, each.first) for each in run.divergences] == [
        ("SD", "repetition", None),
        ("SD", "open-ended", 7),
    ]
