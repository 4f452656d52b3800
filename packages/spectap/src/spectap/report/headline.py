"""The headline: one answer a line, each with its number, then what changes what to do.

An answer is about a class of test cases. It is about a single test case where that has no class, or
where those of the class differ. Neighbouring loads with the same answer share a line.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from spectap import metrics, wording
from spectap.analysis import claims
from spectap.analysis.estimate import MARGIN, Interval
from spectap.analysis.summary import Case, Cell, Overall, Summary
from spectap.analysis.verdicts import Action, Answer, Claim, Comparison
from spectap.inputs import load_points
from spectap.inputs.config import Config
from spectap.inputs.load_points import LoadPoint
from spectap.report import caveats, phrases

_FEW_CASES: Final = 3
_SPREAD_SECONDS: Final = 600.0
"""The time between rounds from which intervals also cover a neighbour that slows one side by 10 %
for 1 to 10 minutes. In simulations (benchmarks.servers), intervals of one test case then hold in 90
to 96 %, and with half a minute between rounds in 30 to 89 %. With more test cases, each one's
rounds are further apart by themselves."""
_CHECKS: Final = {Action.CHECK_ANSWERS, Action.CHECK_ERRORS, Action.CHECK_QUEUE, None}
_SPEED: Final = {Answer.BETTER: "faster", Answer.WORSE: "slower"}
_COST: Final = {Answer.BETTER: "lower", Answer.WORSE: "higher"}
_NEITHER: Final = {Answer.NEGLIGIBLE: "no difference that matters", Answer.UNDECIDED: "undecided"}


@dataclass(frozen=True)
class _Row:
    """A variant on a class or a test case, at one load."""

    cells: Sequence[Cell]
    """The cells of its test cases that have a verdict."""
    speed: Interval
    cost: Interval | None
    faster: str
    """A variant that is surely faster on the same prompts at the same load; empty without one."""

    @property
    def comparisons(self) -> list[Comparison]:
        return [cell.comparison for cell in self.cells if cell.comparison]

    @property
    def findings(self) -> tuple[object, ...]:
        """The findings that loads must share to share a line: words on speed and cost, which are
        empty where the number says it, the action, and further particulars."""
        waits = {(wait.metric, wait.percentile) for each in self.comparisons for wait in each.waits}
        return (
            self._words([each.speed for each in self.comparisons], _SPEED),
            self._words([each.cost for each in self.comparisons], _COST),
            self._actions(),
            waits,
            [(each.longer, each.classes, each.idle) for each in self.comparisons],
        )

    def _words(self, judged: Sequence[Claim | None], words: dict[Answer, str]) -> str:
        counts = Counter(claim.answer for claim in judged if claim)
        if len(counts) == 1:
            return _NEITHER.get(next(iter(counts)), "")
        order = [answer for answer in Answer if counts[answer]]
        return ", ".join(f"{(words | _NEITHER)[each]} in {counts[each]}" for each in order)

    def _actions(self) -> str:
        actions = Counter(each.verdict.action for each in self.comparisons)
        if self.faster and not actions.keys() & _CHECKS:
            return f"Take {self.faster} instead."
        if actions.keys() == {Action.KEEP} and any(each.idle for each in self.comparisons):
            return phrases.action(Action.KEEP, " for the others")
        if actions[Action.KEEP_WITH_WAITS]:  # seldom ones come in some test cases by chance
            actions[Action.KEEP_WITH_WAITS] += actions.pop(Action.KEEP, 0)
        total = wording.count(len(self.cells), "test case")
        return " ".join(
            phrases.action(action, "" if count == len(self.cells) else f" in {count} of {total}")
            for action, count in actions.items()
            if action
        )


def answers(summary: Summary, config: Config | None = None) -> tuple[str, ...]:
    """The answers, a line each: what is found, for whom, at what load, how surely, what to do."""
    texts = [*_answers(summary), *_without_verdict(summary)] or [*_alone(summary)]
    if summary.rehearsal and config:
        texts[:1] = [f"Rehearsal, with the times of {config.stand_in}: {texts[0]}"]
    return tuple(texts)


def _answers(summary: Summary) -> Iterator[str]:
    for place, cases in _places(summary):
        rows = [_row(summary, cells) for cells in _judged(cases)]
        if len(summary.loads) < 2:
            rows.sort(key=lambda row: row.speed.point, reverse=True)

        def shared(row: _Row) -> tuple[object, ...]:
            load = row.cells[0].load
            return row.cells[0].variant, load and load.open, *row.findings

        for _, neighbours in groupby(rows, key=shared):
            yield _answer([*neighbours], place, summary)


def _places(summary: Summary) -> Iterator[tuple[str, Sequence[Case]]]:
    """Groups of test cases that share lines, with the name of each group."""
    classes: dict[str, list[Case]] = {}
    for case in summary.cases:
        classes.setdefault(case.structure or f"case {case.name}", []).append(case)
    for structure, cases in classes.items():
        if any(_differ(summary, cells) for cells in _judged(cases)) or not cases[0].structure:
            yield from ((case.name, [case]) for case in cases)
        else:
            yield f"{structure} prompts", cases


def _judged(cases: Sequence[Case]) -> list[list[Cell]]:
    """The cells that have a verdict, grouped by variant and load."""
    cells = defaultdict[tuple[str, LoadPoint | None], list[Cell]](list)
    for case in cases:
        for cell, comparison in case.compared:
            if comparison.speed:
                cells[cell.variant, cell.load].append(cell)
    names = [*dict.fromkeys(name for name, _ in cells)]

    def place(key: tuple[str, LoadPoint | None]) -> tuple[int, bool, float]:
        name, load = key
        return names.index(name), bool(load and load.open), load.amount if load else 0.0

    return [cells[key] for key in sorted(cells, key=place)]


def _differ(summary: Summary, cells: Sequence[Cell]) -> bool:
    """Whether test cases of a class differ too much for one number."""
    speeds = [cell.comparison.speed for cell in cells if cell.comparison and cell.comparison.speed]
    mean = _mean(summary, cells)
    return len(cells) > 1 and (
        mean is None
        or mean.cases != len(cells)
        or mean.speed is None
        or {Answer.BETTER, Answer.WORSE} <= {claim.answer for claim in speeds}
        or max(claim.interval.low for claim in speeds)
        > (1 + MARGIN) * min(claim.interval.high for claim in speeds)
    )


def _mean(summary: Summary, cells: Sequence[Cell]) -> Overall | None:
    first = cells[0]
    structures = {case.name: case.structure for case in summary.cases}
    key = structures[first.test_case], first.load, first.variant
    return next((m for m in summary.overall if (m.structure, m.load, m.variant) == key), None)


def _row(summary: Summary, cells: Sequence[Cell]) -> _Row:
    comparison, mean = cells[0].comparison, _mean(summary, cells)
    faster = _faster(summary, cells)
    if cells[1:] and mean and mean.speed:
        return _Row(cells, mean.speed, mean.cost, faster)
    assert comparison is not None
    assert comparison.speed is not None
    cost = comparison.cost.interval if comparison.cost else None
    return _Row(cells, comparison.speed.interval, cost, faster)


def _faster(summary: Summary, cells: Sequence[Cell]) -> str:
    first, names = cells[0], {cell.test_case for cell in cells}
    for windows in summary.windows:
        alike = {c.name for c in summary.cases if windows.prompts in (c.structure, c.name)}
        best, *others = windows.measured
        slower = {each.variant for each in others if not each.near}
        if windows.load == first.load and alike == names and first.variant in slower:
            return best.variant if best.window else ""  # for a baseline, it is turned off
    return ""


def _answer(rows: Sequence[_Row], place: str, summary: Summary) -> str:
    first, priced = rows[0], phrases.priced(summary)
    cell, comparison = first.cells[0], first.comparisons[0]
    speed, cost, action, *_ = first.findings
    figure, bounds = _figure([phrases.speed(row.speed) for row in rows])
    text = f"{cell.variant} answers {figure} as fast as {comparison.baseline}{bounds} on {place}"
    if loads := [row.cells[0].load for row in rows if row.cells[0].load]:
        text += f" at {load_points.listed(loads)}"
    cases = {case.name: case for case in summary.cases}
    cells = [each for row in rows for each in row.cells]
    baselines = [cases[each.test_case].baseline_of(each) for each in cells]
    if any(map(claims.fails_often, cells + baselines)):
        text += ", of requests that succeeded"
    text += f": {speed}" if speed else ""
    if costs := [phrases.cost(row.cost, priced=priced) for row in rows if row.cost]:
        figure, bounds = _figure(costs)
        name = "cost" if priced else "throughput of all together"
        name += " of answers" if comparison.by_tokens else ""
        text += f"; {name} {figure}{bounds}{': ' if cost else ''}{cost}"
    more = "".join(f"; {clause}" for clause in _particulars(rows))
    return f"{text}{more}. {action}".rstrip()


def _particulars(rows: Sequence[_Row]) -> Iterator[str]:
    """What a line's figures hide: other lengths, prompts that differ, longer waits."""
    comparisons = [each for row in rows for each in row.comparisons]
    first = comparisons[0]
    if first.longer and first.lengths:
        yield f"its answers are {phrases.speed(first.lengths)} as long, and are timed as a whole"
    yield from (f"{name} {phrases.speed(speed)}" for name, speed in first.classes)
    if (sent := max(cell.sent_again for row in rows for cell in row.cells)) > 1:
        yield f"each prompt was sent {sent:.2g} times, and a cache may have answered"
    if first.idle:
        yield f"{wording.percent(first.idle)} % of the prompts gain nothing"
    waits = sorted((w for each in comparisons for w in each.waits), key=lambda w: w.seconds)
    for wait in {(wait.metric, wait.percentile): wait for wait in waits}.values():
        seconds, before = map(wording.significant, (wait.seconds, wait.baseline_seconds))
        yield f"{wait.percentile} of {wait.metric} {seconds} s instead of {before} s"


def _figure(estimates: Sequence[phrases.Estimate]) -> tuple[str, str]:
    """The figure of one row with its bounds; of several rows, the first and the last figure."""
    first, *_, last = (*estimates, estimates[-1])
    if first == last:
        return first.figure, f" ({first.bounds})" if first.bounds else ""
    return f"{first.figure} to {last.figure}", ""


def _without_verdict(summary: Summary) -> Iterator[str]:
    places = defaultdict[str, list[str]](list)
    for case in summary.cases:
        for cell, comparison in case.compared:
            if not comparison.speed:
                at = f" at {cell.load}" if cell.load and summary.loads[1:] else ""
                places[phrases.verdict(case, cell, summary)].append(f"{case.name}{at}")
    for obstacle, lacking in places.items():
        if len(lacking) >= _FEW_CASES:
            lacking = [f"{len(lacking)} measurements"]
        yield obstacle.replace("No verdict", f"No verdict on {wording.listed(lacking)}", 1)


def _alone(summary: Summary) -> Iterator[str]:
    """The time of a request, where nothing is compared."""
    measures = [c.measure(metrics.END_TO_END_LATENCY) for case in summary.cases for c in case.cells]
    times = sorted(measure.p50 for measure in measures if measure) or [math.nan]
    spans = [*dict.fromkeys(wording.significant(times[end]) for end in (0, -1))]
    yield f"{summary.subject}: a request takes {' to '.join(spans)} s, by its medians"


def caveats_of(summary: Summary, config: Config | None = None) -> Iterator[str]:
    """The caveats that change what to do about the answers, a line each."""
    yield from caveats.of_ending(summary)
    if summary.compares:
        cells = [cell for case in summary.cases for cell in case.cells]
        yield from (f"{clause}." for clause in caveats.of_cells(cells))
        yield from _fewer_slots(summary)
    if _judged(summary.cases) and not summary.rehearsal:
        yield from _uncovered(summary, config)


def _fewer_slots(summary: Summary) -> Iterator[str]:
    """Variants that queue in a closed loop where their baseline does not."""
    pairs = {
        (cell.variant, comparison.baseline)
        for case in summary.cases
        for cell, comparison in case.compared
        if claims.has_fewer_slots(cell, case.baseline_of(cell))
    }
    for variant, baseline in sorted(pairs):
        yield (
            f"{variant} takes fewer requests at once than {baseline}. Give it as many slots "
            "(batch, --max-num-seqs), or compare both at a lower load."
        )


def _uncovered(summary: Summary, config: Config | None) -> Iterator[str]:
    """Names what the run's intervals are limited to, and the settings that cover more."""
    alone, remedies = [], []
    if summary.launches == 1:
        alone.append("this launch of the servers")
        if not (config and config.isolated):
            remedies.append("benchmark.launches: 3 (--launches 3), with a multiple of 3 rounds")
    gap = summary.round_gap_seconds
    if len(summary.cases) <= _FEW_CASES and gap is not None and gap < _SPREAD_SECONDS:
        minutes = 10 * (config.load.rounds.at_most - 1) if config else "MINUTES"
        alone.append("these minutes")
        remedies.append(f"benchmark.spread_minutes: {minutes} (--spread {minutes})")
    if alone:
        remedy = f" To cover others, set {' and '.join(remedies)}." if remedies else ""
        yield f"The intervals speak of {' and '.join(alone)} alone.{remedy}"
