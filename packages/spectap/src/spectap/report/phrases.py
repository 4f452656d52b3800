"""Words for load points, objectives and estimates, and the sentences of a verdict.

A sentence says why there is no verdict, or what a cell shows and what to do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spectap import wording
from spectap.analysis.cells import limits_of
from spectap.analysis.estimate import Interval
from spectap.analysis.summary import Case, Cell, Crossover, Ladder, Summary
from spectap.analysis.verdicts import Action, Answer, Claim, Finding
from spectap.inputs import load_points
from spectap.inputs.config import Config, Objectives
from spectap.inputs.load_points import FEWEST_ROUNDS, LoadPoint

_FINEST: Final = 3  # decimals of a ratio
_ACTIONS: Final = {
    Action.KEEP: "Keep it on",
    Action.KEEP_FOR_SPEED: "Keep it on only where speed counts more",
    Action.KEEP_FOR_MONEY: "Keep it on only where money counts more",
    Action.TURN_OFF: "Turn it off",
    Action.LEAVE_OFF: "Leave it off",
    Action.KEEP_WITH_WAITS: "Keep it on only where such waits are acceptable",
    Action.CHECK_ANSWERS: "Look into its answers first",
    Action.CHECK_ERRORS: "Look into the errors first",
    Action.CHECK_QUEUE: "Look into its queue first",
}
_SIDES: Final = (Answer.BETTER, Answer.WORSE)


@dataclass(frozen=True)
class Estimate:
    """A figure and the bounds of its interval; the bounds are empty where there are none."""

    figure: str = wording.MISSING
    bounds: str = ""

    def __str__(self) -> str:
        return f"{self.figure} ({self.bounds})" if self.bounds else self.figure


def speed(interval: Interval | None) -> Estimate:
    """A speed-up: ``2.9x``, ``2.7-3.1``; without bounds if they have no width."""
    if interval is None:
        return Estimate()
    if interval.low == interval.high:
        return Estimate(f"{interval.point:.2f}x")
    # One decimal is what a reader remembers; more where it would not tell the bounds apart.
    for digits in range(1 if interval.point >= 2 else 2, _FINEST + 1):
        low, high = f"{interval.low:.{digits}f}", f"{interval.high:.{digits}f}"
        if low != high:
            break
    return Estimate(f"{interval.point:.{digits}f}x", f"{low}-{high}")


def cost(interval: Interval | None, *, priced: bool) -> Estimate:
    """The change in the cost of a token or an answer: ``-66 %``, ``-68 to -64 %``.

    ``interval`` is the ratio of tokens, or answers, a second of all requests together. Without a
    known price, that ratio is written.
    """
    if interval is not None and interval.vague:
        return Estimate("not known")
    if interval is None or not priced:
        return speed(interval)
    return change(interval.inverse)


def change(ratio: Interval) -> Estimate:
    """The difference of a ratio from 1: ``+9.8 %``, ``+4.1 to +16 %``."""
    ends = (ratio.point, ratio.low, ratio.high)
    for digits in range(0 if abs(ratio.point - 1) >= 0.1 else 1, _FINEST):
        point, low, high = (f"{100 * (end - 1):+.{digits}f}" for end in ends)
        if low != high:
            break
    point, low, high = (
        f"{wording.MINUS if float(text) < 0 else '+'}{text[1:]}" for text in (point, low, high)
    )
    return Estimate(f"{point} %", f"{low} to {high} %")


def figure(
    point: float | None, interval: Interval | None, write: Callable[[float | None], str]
) -> str:
    """A figure with the bounds of its interval, if it has one: ``855.4 (851.3-856.9)``."""
    bounds = f"{write(interval.low)}-{write(interval.high)}" if interval else ""
    return str(Estimate(write(point), bounds))


def priced(summary: Summary) -> bool:
    return summary.cost_denominator is not None


def short_load(load: LoadPoint | None) -> str:
    """A short name of a load point: ``4`` at once, ``0.5/s``."""
    if load is None:
        return wording.MISSING
    return f"{load.amount:g}{'/s' if load.open else ''}"


def load_unit(loads: Sequence[LoadPoint]) -> str:
    """The unit of the load points of one kind: ``at once`` or ``a second``."""
    return "a second" if loads[0].open else "at once"


def heading(config: Config, summary: Summary) -> str:
    """``article: SD against Base, on Qwen/Qwen3-32B at concurrency 4``."""
    loads = load_points.listed(config.load.points)
    return f"{config.experiment}: {summary.subject}, on {config.model} at {loads}"


def load_mark(cell: Cell) -> str:
    """A mark on a cell's load: ``queue``, ``lagged``, or nothing."""
    marks = {"queue": cell.queued, "lagged": cell.lagging}
    return ", ".join(mark for mark, present in marks.items() if present)


def objectives(objectives: Objectives) -> str:
    """Promises in words: ``p90 of TTFT within 800 ms, p90 of TPOT within 40 ms``."""
    return ", ".join(
        f"p90 of {metric.short} within {limit:g} ms" for metric, limit in limits_of(objectives)
    )


def action(action: Action, where: str = "") -> str:
    """The action in words. ``where`` limits it; it is empty for everywhere."""
    return f"{_ACTIONS[action]}{where}."


def verdict(case: Case, cell: Cell, summary: Summary) -> str:
    """What a compared cell's figures do not say, and what to do."""
    assert cell.comparison is not None
    advice = cell.comparison.verdict.action
    return f"{details(case, cell, summary)} {action(advice) if advice else ''}".strip()


def details(case: Case, cell: Cell, summary: Summary) -> str:
    """Why a compared cell has no verdict, or what its figures do not say; may be empty."""
    comparison = cell.comparison
    assert comparison is not None
    if comparison.speed is None:
        return f"No verdict: {_obstacle(cell, case.baseline_of(cell), summary)}"
    together = "cost" if priced(summary) else "throughput"
    for name, claim in (("speed", comparison.speed), (together, comparison.cost)):
        if claim and claim.answer is Answer.UNDECIDED and (power := _power(claim, summary)):
            return f"In {name}, {power}, four times in five."
    return ""


def crossovers(case: Case, ladder: Ladder, summary: Summary) -> str:
    """The load at which both variants are equal; empty unless they turn once."""
    parts = []
    together = "cost" if priced(summary) else "throughput"
    for name, field in (("speed", "speed"), (together, "cost")):
        crossover: Crossover = getattr(ladder, field)
        rows = [case.cell(ladder.variant, load).comparison for load in ladder.judged]
        claims = [getattr(row, field) for row in rows]
        sides = [claim.answer for claim in claims if claim and claim.answer in _SIDES]
        if crossover.bounded and sum(side is not after for side, after in pairwise(sides)) == 1:
            # To two digits: it is an estimate between two loads.
            at, bounds = crossover.point, (crossover.better_up_to, crossover.worse_from)
            parts.append(f"{name} at about {float(f'{at:.2g}'):g} ({bounds[0]:g} to {bounds[1]:g})")
    unit = load_unit(ladder.loads)
    equal = f"{ladder.variant} equals {ladder.baseline} in {' and in '.join(parts)} requests {unit}"
    return f"{equal}." if parts else ""


def of_case(case: Case, summary: Summary) -> tuple[str, ...]:
    """What the rows of one test case do not say. Variants with the same sentence share it.

    With several loads, each sentence names its load.
    """
    texts = [crossovers(case, ladder, summary) for ladder in case.ladders]
    for cell, comparison in case.compared:
        subject = f"At {cell.load or 'an unnamed load'}" if summary.loads[1:] else case.name
        # The headline says why there is no verdict.
        text = details(case, cell, summary) if comparison.speed else ""
        texts.append(text and f"{subject}: {text}")
    return tuple(dict.fromkeys(filter(None, texts)))


def _obstacle(cell: Cell, baseline: Cell, summary: Summary) -> str:
    assert cell.comparison is not None
    obstacle, sides = cell.comparison.verdict, (baseline, cell)
    match obstacle.finding:
        case Finding.NOT_MEASURED:
            of_sides = [
                f"no {side.variant} request was recorded" for side in sides if not side.requests
            ]
        case Finding.UNFINISHED:
            of_sides = [
                f"{(side.expected or 0) - side.missing} of {side.expected} {side.variant} requests "
                "were recorded"
                for side in sides
                if not side.complete
            ]
        case Finding.FAILED:
            of_sides = [
                f"{side.errors} of {side.requests} {side.variant} requests failed "
                f"({side.most_frequent_error})"
                for side in sides
                if side.unreliable
            ]
        case Finding.CLIENT:
            of_sides = [
                f"the client was too slow for {side.variant}: what was ready waited for the tap or "
                f"the driver {wording.percent(side.lag)} % of a request's time on average, so a "
                "difference may be the client's. Give it more CPU, or ask for less at once"
                for side in sides
                if side.slowed
            ]
        case Finding.UNCOUNTED:
            of_sides = [
                f"no answer of {side.variant} has a count of tokens, and speed is that of tokens"
                for side in sides
                if side.countless
            ]
        case Finding.UNCONTROLLED:
            of_sides = [
                "the variants were measured one after another, and no control load shows what "
                "changed meanwhile"
            ]
        case Finding.SEQUENTIAL:
            of_sides = [
                f"{baseline.variant} and {cell.variant} were recorded at different times "
                f"({100 * (obstacle.shared or 0):.0f} % of the shorter recording overlaps). What "
                "changed in between may be all that differs. Record both at the same time, or "
                "measure them with spectap measure, which loads both at once, or by turns with "
                "--alternate"
            ]
        case _:
            unit = _unit(summary)
            need = wording.count(FEWEST_ROUNDS, unit)
            if not summary.configured:
                need += ", or as many stretches of two waves of requests"
            of_sides = [
                f"of {wording.count(obstacle.rounds or 0, unit)}, fewer than {FEWEST_ROUNDS} could "
                f"be timed on both sides. An interval needs {need}"
            ]
    return f"{'; '.join(of_sides)}."


def _power(claim: Claim, summary: Summary) -> str:
    """The differences that this run and a longer one can find."""
    runs = []
    if claim.detectable < 1:
        runs.append(f"like this finds {wording.percent(claim.detectable)} %")
    if claim.rounds_needed is not None:
        length = wording.count(claim.rounds_needed, _unit(summary))
        runs.append(f"of {length} finds {wording.percent(claim.settles)} %")
    return f"a run {' and one '.join(runs)}" if runs else ""


def _unit(summary: Summary) -> str:
    return "launch" if summary.launches > 1 else "round"
