"""Variants that were measured apart become one run; what does not fit together is refused."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from spectap.errors import RunError
from spectap.inputs.prompt import LeftOut, UsedSet
from spectap.names import CONTROL
from spectap.records import journal
from spectap.records.answer import CheckedAnswer
from spectap.records.ledger import read_ledger
from spectap.report import results
from spectap.run.sweep import merge, read_merged
from tests import generated_runs
from tests.generated_runs import CONCURRENCY, TWO_BASELINES, Line
from tests.samples import contents

NAMES = tuple(str(variant["name"]) for variant in TWO_BASELINES)


def sweep_configuration() -> Line:
    """The configuration of all variants: two batches, each with a baseline and a window."""
    generated = generated_runs.config(variants=TWO_BASELINES, rounds=3, output_tokens=20)
    endpoint = "http://127.0.0.1:8000/v1"
    variants = [{**variant, "endpoint": endpoint} for variant in generated["variants"]]
    return {**generated, "isolated": True, "variants": variants}


def write(folder: Path, complete: Collection[str] = NAMES) -> Path:
    """A sweep in which these variants are complete, and the others are under way."""
    configuration = sweep_configuration()
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps(configuration), encoding="utf-8")
    for seed, variant in enumerate(configuration["variants"]):
        name = variant["name"]
        results = folder / "variants" / name
        of_one = {**configuration, "variants": [{**variant, "baseline": None}]}
        lines = [*generated_runs.ledger(of_one, seed)]
        lines = [*controls(lines, 1), *lines, *controls(lines, 2)]
        generated_runs.write(results, of_one, [{**line, "run": name} for line in lines])
        generated_runs.write_llmperf(results, [line for line in lines if line["round"] > 0])
        if name in complete:
            (results / "_COMPLETE").touch()
    return folder


def controls(lines: Iterable[Line], attempt: int, requests: int = CONCURRENCY) -> Iterator[Line]:
    """A control of so many requests, like the warm-up among ``lines``."""
    first = [line for line in lines if line["round"] == 0][:requests]
    for line in first:
        request = f"{line['request']}-control-{attempt}"
        yield {**line, "round": -1, "attempt": attempt, "request": request}


def append(path: Path, lines: Iterable[Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "sweep-1")


def test_complete_variants_become_a_run(folder: Path) -> None:
    turn: Line = {"case": "counting", "load": "concurrency-4", "round": 1, "attempt": 1}
    checked = {"prompt": "p", "digest": "d", "finish": "stop", "form": "JSON", "valid": True}
    for name in NAMES:
        line = {"variant": name, **turn, **checked, "problem": "", "answer": None}
        append(folder / "variants" / name / "answers.jsonl", [line])
    merged = merge(folder)
    assert (merged.complete, merged.missing) == (NAMES, {})
    answers = journal.read(folder / "answers.jsonl", CheckedAnswer)
    assert [answer.variant for answer in answers] == [*NAMES]
    run = results.read(folder)
    assert {v.name: v.baseline for v in run.config.variants} == {
        "Base": None,
        "k7": "Base",
        "Base-b8": None,
        "k7-b8": "Base-b8",
    }
    records = read_ledger(folder / "ledger.jsonl")
    assert {record.run for record in records} == {"sweep-1"}
    assert list(dict.fromkeys(record.variant for record in records)) == [*NAMES]
    assert len({record.request for record in records}) == len(records)
    for case in run.summary.cases:
        assert {cell.variant: cell.missing for cell in case.cells} == dict.fromkeys(NAMES, 0)
        assert [cell.comparison is not None for cell in case.cells] == [False, True] * 2
    assert run.driver == "llmperf"


def test_a_later_merge_makes_the_same_bytes(tmp_path: Path, folder: Path) -> None:
    merge(folder)
    late = write(tmp_path / "later" / "sweep-1", complete=["Base"])
    merge(late)
    for name in NAMES:
        (late / "variants" / name / "_COMPLETE").touch()
    merge(late)
    assert contents(late) == contents(folder)


def test_a_variant_without_its_baseline_is_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "sweep-1", complete=["Base", "k7-b8"])
    merged = merge(folder)
    assert merged == read_merged(folder)
    assert merged.complete == ("Base",)
    assert [*merged.sentences] == [
        "k7 is not in this run, because its results are not complete.",
        "Base-b8 is not in this run, because its results are not complete.",
        "k7-b8 is not in this run, because the results of Base-b8, which it is compared with, are "
        "not complete.",
    ]
    run = results.read(folder)
    assert {record.variant for record in run.records} == {"Base"}
    assert {*merged.sentences} <= {*run.notes}
    alone = write(tmp_path / "sweep-2", complete=["k7"])
    assert merge(alone).complete == ()
    assert {path.name for path in alone.iterdir()} == {"merged.json", "sweep.json", "variants"}


def test_a_turn_that_one_variant_repeated_counts_of_the_others(folder: Path) -> None:
    """Each has attempts of its own: a second one of k7 does not take the place of Base's first."""
    path = folder / "variants" / "k7" / "ledger.jsonl"
    turn = [line for line in map(json.loads, path.read_text().splitlines()) if line["round"] == 1]
    counting = [line for line in turn if line["case"] == "counting"]
    append(path, [{**line, "attempt": 2, "request": line["request"] + "-2"} for line in counting])
    merge(folder)
    run = results.read(folder)
    of_turn = [r for r in run.records if (r.round, r.case) == (1, "counting")]
    assert Counter(record.variant for record in of_turn) == dict.fromkeys(NAMES, 4)
    assert {r.attempt for r in of_turn if r.variant == "k7"} == {2}
    assert run.summary.complete


def test_an_unfinished_control_is_none(folder: Path) -> None:
    """It was a lighter load than the others, so that its steps say nothing of the node."""
    path = folder / "variants" / "k7" / "ledger.jsonl"
    warm_up = [json.loads(line) for line in path.read_text().splitlines()]
    append(path, controls(warm_up, 3, requests=2))
    cut = [{**line, "error": "cancelled by the client"} for line in controls(warm_up, 4)]
    append(path, cut)
    append(path, controls(warm_up, 5))
    merge(folder)
    counted = Counter(
        record.attempt
        for record in read_ledger(folder / "ledger.jsonl")
        if (record.round, record.variant) == (CONTROL, "k7")
    )
    assert counted == {1: 4, 2: 4, 5: 4}


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("load", lambda config: config["load"] | {"rounds": 8}),
        ("variants", lambda config: [config["variants"][0] | {"window": 5}]),
    ],
)
def test_a_variant_that_was_measured_otherwise_is_refused_in_one_line(
    folder: Path, field: str, change: Callable[[Line], object]
) -> None:
    path = folder / "variants" / "k7" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {field: change(config)}))
    with pytest.raises(RunError, match=f"^{path}: {field}: differs from .*/sweep.json"):
        merge(folder)


def test_what_decides_nothing_may_differ(folder: Path) -> None:
    """The second of two Capacity Blocks had another price."""
    settings, cost = {"Price": "40.25 USD"}, sweep_configuration()["cost"]
    path = folder / "sweep.json"
    sweep = json.loads(path.read_text())
    sweep["cost"] = {**cost, "usd_per_hour": 40.25}
    path.write_text(json.dumps(sweep | {"settings": settings, "objectives": {"ttft_p90_ms": 900}}))
    assert merge(folder).notes == ()
    run = results.read(folder)
    assert run.config.cost is not None
    assert run.config.cost.usd_per_hour == 40.25
    assert run.config.settings == settings


def used(folder: Path, name: str, digest: str = "d", left_out: tuple[str, ...] = ()) -> None:
    """Notes which prompts a variant was sent."""
    number = 3 - len(left_out)
    refused = tuple(LeftOut(prompt, 90, 80) for prompt in left_out)
    noted = UsedSet("counting", "mine", "", digest, (("short", number),), number, refused, True)
    path = folder / "variants" / name / "prompts.json"
    path.write_text(json.dumps([asdict(noted)]))


def test_prompts_of_a_set_are_those_of_all_variants(folder: Path) -> None:
    for name in NAMES:
        used(folder, name)
    assert merge(folder).notes == ()
    (used_set,) = results.read(folder).summary.sets
    assert (used_set.case, used_set.used) == ("counting", 3)
    used(folder, "k7-b8", left_out=("p2",))
    note = "k7-b8 was sent 2 prompts of counting, Base 3: the services took different ones."
    assert merge(folder).notes == (note,)
    assert note in results.read(folder).notes
    used(folder, "k7", digest="another")
    with pytest.raises(RunError, match=r"/k7/prompts.json: other prompts than Base was sent"):
        merge(folder)
