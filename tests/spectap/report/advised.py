"""Advice made up for the tests of how it is shown: two drafts, three windows, by a simple model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from spectap.analysis.advice.advice import (
    Acceptance,
    Advice,
    Choice,
    Line,
    Position,
    Prospect,
    Recommendation,
    StepCost,
)
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint

BASE: Final = 0.045
MEASURED: Final = (3, 7, 15)
WINDOWS: Final = range(2, 16)
ALONE: Final = LoadPoint(concurrency=1, requests=4)
FOUR: Final = LoadPoint(concurrency=4, requests=8)

ACCEPTED: Final = {
    ("Qwen3-0.6B", "structured"): 0.78,
    ("Qwen3-0.6B", "open-ended"): 0.31,
    ("Qwen3-1.7B", "structured"): 0.9,
    ("Qwen3-1.7B", "open-ended"): 0.46,
}
PER_DRAFT: Final = {"Qwen3-0.6B": 0.0021, "Qwen3-1.7B": 0.0034}


def advice(loads: Sequence[LoadPoint | None] = (FOUR,), *, rehearsal: bool = False) -> Advice:
    """Of both drafts on both classes at these loads."""
    prospects = [*_prospects(loads)]
    return Advice(
        lines=tuple(
            Line(
                name=name,
                mode="fused",
                draft=f"Qwen/{name}",
                batch=4,
                baseline="Base",
                variants=tuple((window, f"{name[6:]}-k{window}") for window in MEASURED),
                offset=1,
            )
            for name in PER_DRAFT
        ),
        mix=(("structured", 0.52), ("open-ended", 0.48)),
        acceptances=tuple(_acceptances()),
        costs=tuple(_cost(name, load) for name in PER_DRAFT for load in loads),
        prospects=tuple(prospects),
        recommendations=tuple(_recommendations(prospects, loads, rehearsal=rehearsal)),
        cautions=(),
        measure_next=(),
        rehearsal=rehearsal,
        notes=("Position 14 was reached 38 times: beyond it the last rate is taken.",),
    )


def one_window(load: LoadPoint | None = FOUR) -> Advice:
    """The same where a single window of a single draft was measured."""
    whole = advice([load])
    (line, *_) = (one for one in whole.lines if one.name == "Qwen3-1.7B")
    variant = (7, "SD")
    own = [
        replace(one, predicted=None)
        for one in whole.prospects
        if one.line == line.name and one.window == variant[0]
    ]
    return replace(
        whole,
        lines=(replace(line, variants=(variant,)),),
        acceptances=tuple(one for one in whole.acceptances if one.line == line.name),
        costs=tuple(
            replace(
                one,
                measured=one.measured[1:2],
                fixed=0.0,
            )
            for one in whole.costs
            if one.line == line.name
        ),
        prospects=tuple(own),
        recommendations=(),
        measure_next=("Measure Qwen3-1.7B with another window than 7.",),
    )


def _step(line: str, window: int, load: LoadPoint | None) -> float:
    loaded = 1 + 0.04 * ((load.amount if load else 1) - 1)
    return (BASE + 0.0015 + (window - 1) * PER_DRAFT[line]) * loaded


def _base(load: LoadPoint | None) -> float:
    return BASE * (1 + 0.02 * ((load.amount if load else 1) - 1))


def _around(point: float, part: float) -> Interval:
    return Interval(point, point / (1 + part), point * (1 + part))


def _prospects(loads: Sequence[LoadPoint | None]) -> Iterator[Prospect]:
    for load in loads:
        for (line, name), accepted in ACCEPTED.items():
            for window in WINDOWS:
                tokens = sum(accepted**number for number in range(window))
                seconds = _step(line, window, load)
                speedup = _base(load) * tokens / seconds
                known = window in MEASURED
                off = 1.03 if window == MEASURED[-1] else 0.98
                yield Prospect(
                    line=line,
                    window=window,
                    prompt_class=name,
                    load=load,
                    tokens_per_step=tokens,
                    step_seconds=seconds,
                    predicted=_around(speedup * (off if known else 1), 0.06),
                    measured=_around(speedup, 0.03) if known else None,
                    tokens_per_second=(load.amount if load else 1) * tokens / seconds,
                    usd_per_million_output_tokens=4.97e3 * seconds / tokens / 4,
                )


def _acceptances() -> Iterator[Acceptance]:
    for (line, name), accepted in ACCEPTED.items():
        reached = 4000.0
        positions = []
        for number in range(1, MEASURED[-1]):
            error = 1.96 * (accepted * (1 - accepted) / reached) ** 0.5
            bounds = (max(0.0, accepted - error), min(1.0, accepted + error))
            positions.append(Position(number, int(reached), accepted, bounds))
            reached *= accepted
            if reached < 5:
                break
        last = positions[-1]
        positions[-1] = replace(last, interval=None)
        yield Acceptance(line, name, tuple(positions))


def _cost(line: str, load: LoadPoint | None) -> StepCost:
    per_draft = _step(line, 3, load) - _step(line, 2, load)
    return StepCost(
        line=line,
        load=load,
        baseline=_base(load),
        measured=tuple((window, _around(_step(line, window, load), 0.01)) for window in MEASURED),
        fixed=_step(line, 1, load) - _base(load),
        per_draft=per_draft,
    )


def _sentence(of: str, best: Prospect, *, rehearsal: bool) -> str:
    what = f"{best.line} and a window of {best.window}"
    at = f" at {best.load}" if best.load else ""
    if rehearsal:
        return f"For {of}{at}, {what} is the fastest."
    return f"Serve {of}{at} with {what}: {best.speedup.point:.1f}x the baseline's speed."


def _recommendations(
    prospects: Sequence[Prospect], loads: Sequence[LoadPoint | None], *, rehearsal: bool = False
) -> Iterator[Recommendation]:
    for load in loads:
        for name in ("structured", "open-ended", None):
            own = [p for p in prospects if p.load == load and p.prompt_class == name]
            own = own or [p for p in prospects if p.load == load]
            first, *others = sorted(own, key=lambda one: one.speedup.point, reverse=True)
            yield Recommendation(
                prompt_class=name,
                load=load,
                choice=Choice(first.line, first.window),
                measured=first.measured is not None,
                speedup=first.speedup,
                usd_per_million_output_tokens=first.usd_per_million_output_tokens,
                probability=0.71,
                rivals=tuple((Choice(one.line, one.window), 0.1) for one in others[:2]),
                sentence=_sentence(name or "the mix", first, rehearsal=rehearsal),
                measure_next=f"Measure {first.line} and a window of {first.window}."
                if first.measured is None and not rehearsal
                else "",
            )
