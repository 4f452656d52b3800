"""A run from before variants had fields of their own: its figures must come out the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.report import results

EARLIER = Path(__file__).parents[1] / "earlier_run"

Place = tuple[str | int, ...]

POSITIONS = {"base": 0, "speculative": 1}
MEASURES = {
    "ttft": "TTFT",
    "time_per_output_token": "TimePerOutputToken",
    "inter_chunk": "InterChunkLatency",
    "end_to_end": "EndToEndLatency",
    "throughput": "RequestOutputThroughput",
    "output_tokens": "OutputTokens",
}
# Sentences may be worded anew; what they are made of may not change.
WORDED = {"sentence", "notes"}


def leaves(content: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value of a JSON document that holds no other, with the way to it."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from leaves(value, (*place, name))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from leaves(value, (*place, number))
    else:
        yield place, content


def today(place: Place) -> Place:
    """Where the value of an earlier summary stands in one of today."""
    match place:
        case ("concurrency",):
            return ("load", "concurrency")
        case ("cases", case, "base" | "speculative" as variant, *rest):
            return ("cases", case, "cells", POSITIONS[variant], *of_cell(*rest))
        case ("cases", case, str(name), *rest) if name == "verdict" or name.startswith("by_"):
            return ("cases", case, "cells", 1, "comparison", name, *rest)
    return place


def of_cell(first: str | int, *rest: str | int) -> Place:
    if first == "tally":
        return rest
    if first in MEASURES:
        return ("measures", MEASURES[str(first)], *rest)
    return (first, *rest)


def at(content: Any, place: Place) -> Any:
    for step in place:
        content = content[step]
    return content


def test_every_figure_is_equal_to_the_last_digit() -> None:
    earlier = json.loads((EARLIER / "summary.json").read_text(encoding="utf-8"))
    summary = json.loads(results.read(EARLIER).summary.to_json())
    kept = [(place, value) for place, value in leaves(earlier) if not WORDED & {*place}]
    assert sum(isinstance(value, (int, float)) for _, value in kept) > 250
    for place, value in kept:
        assert at(summary, today(place)) == value, place


def test_what_it_kept_beside_the_ledger_still_reads() -> None:
    run = results.read(EARLIER)
    assert [variant.name for variant in run.config.variants] == ["Base", "SD"]
    assert run.published.original
    assert {check.variant for check in run.checks} == {"Base", "SD"}
    assert [(found.variant, found.case, found.first) for found in run.divergences] == [
        ("SD", "repetition", None),
        ("SD", "open-ended", 7),
    ]
