"""The terminal's tables: of all test cases at one load point, and of one at several.

The columns stand in one table where they fit, otherwise in several, one below the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from spectap import metrics, wording
from spectap.analysis.summary import Answer, Case, Cell, Claim, Summary
from spectap.report import answers, layout, loads, tables
from spectap.report.answers import Written
from spectap.report.layout import NARROW, WIDTH, Column
from spectap.report.tables import Group

_GAP: Final = 2


def _good(cell: Cell) -> str:
    if cell.goodput is None:
        return wording.MISSING
    return f"{100 * cell.goodput.share:.0f} %" + ("" if cell.goodput.met else "!")


_TOGETHER: Final = Group(
    "tokens/s", ("together",), lambda cell: [wording.significant(cell.tokens_per_second)]
)
_STEPS: Final = Group(
    "tokens",
    ("a step",),
    lambda cell: [f"{cell.steps.mean:.2f}" if cell.steps else wording.MISSING],
)
_GOOD: Final = Group("", ("goodput",), lambda cell: [_good(cell)])
_LETTERS: Final = Group("", ("",), lambda cell: [loads.letters(cell)])
_ERRORS: Final = Group("", ("errors",), lambda cell: [f"{cell.errors}/{cell.requests}"])


def at_one_load(summary: Summary, width: int) -> Iterable[str]:
    """A line for each variant of each test case."""
    cells = [cell for case in summary.cases for cell in case.cells]
    columns = [_written(group, cells) for group in _groups(summary)]
    last = _answers(cells, answers.priced(summary))
    return layout.lines(_labels(summary), columns, last, _starts(summary), width)


def over_loads(case: Case, summary: Summary, width: int) -> Iterable[str]:
    """A line for each variant of one test case at each load point."""
    columns = [_written(group, case.cells) for group in _of_ladder(case, width)]
    # A narrow one has the TPOT of both.
    last = _answers(case.cells, answers.priced(summary), decoding=width >= WIDTH)
    return layout.lines(_rungs(case), columns, last, set(), width)


def _labels(summary: Summary) -> list[Column]:
    """The names of test cases, with the structure in a second line, and those of the variants."""
    names, variants = [], []
    for case in summary.cases:
        below = f"  {case.structure}" if case.structure else ""
        names += [wording.short(case.name), below, *[""] * len(case.cells)][: len(case.cells)]
        variants += [wording.short(cell.variant) for cell in case.cells]
    # Aligned to the left, so the gap is on the right.
    gap = " " * _GAP
    return [
        Column(("", f"test case{gap}"), tuple(name + gap for name in names)),
        Column(("", ""), tuple(variants)),
    ]


def _starts(summary: Summary) -> set[int]:
    """The numbers of the lines at which a test case starts."""
    ends = [len(case.cells) for case in summary.cases]
    return {sum(ends[:number]) for number in range(len(ends))}


def _groups(summary: Summary) -> Iterator[Group]:
    for metric in metrics.METRICS:
        if metric.percentiles:
            title = f"{metric.short} {metric.printed}".strip()
            # The page has those between; here the decoding speed-up needs their room.
            ends = dict.fromkeys((metric.percentiles[0], metric.percentiles[-1]))
            yield tables.of_metric(metric, tuple(ends), title)
    yield _TOGETHER
    yield _STEPS
    if summary.cost_denominator is not None:
        yield Group(
            "USD per",
            ("M tokens",),
            lambda cell: [wording.dollars(cell.usd_per_million_output_tokens)],
        )
    cells = [cell for case in summary.cases for cell in case.cells]
    if any(cell.goodput for cell in cells):
        yield _GOOD
    yield _ERRORS
    if any(map(loads.letters, cells)):
        yield _LETTERS


def _written(group: Group, cells: Sequence[Cell]) -> Column:
    lines = [group.texts(cell) for cell in cells]
    sizes = [max(map(len, texts)) + _GAP for texts in zip(group.columns, *lines, strict=True)]

    def joined(texts: Sequence[str]) -> str:
        return "".join(f"{text:>{size}}" for text, size in zip(texts, sizes, strict=True))

    width = max(sum(sizes), len(group.title) + _GAP)
    title = group.title.center(sum(sizes) - _GAP) if len(sizes) > 1 else group.title
    return Column(
        (f"{title:>{width}}", f"{joined(group.columns):>{width}}"),
        tuple(f"{joined(texts):>{width}}" for texts in lines),
    )


def _answers(cells: Sequence[Cell], priced: bool, *, decoding: bool = True) -> list[Column]:
    """What each compared cell is against its baseline; a column for each question with answers."""
    found = [cell.comparison for cell in cells]
    gap = " " * _GAP
    columns = []
    if any(found):
        texts = [_speed(one.speed) if one else "" for one in found]
        heads = (f"{gap}one request's", f"{gap}speed-up, 95 %")
        columns.append(Column(heads, tuple(gap + text for text in texts)))
    if any(found) and decoding:
        texts = [answers.speed(one.by_time_per_output_token).figure if one else "" for one in found]
        columns.append(Column(("", f"{gap}decoding"), tuple(f"{gap}{text:>8}" for text in texts)))
    if any(one.cost for one in found if one):
        heads = ("cost of", "a token") if priced else ("times the", "tokens/s")
        texts = [_cost(one.cost, priced) if one else "" for one in found]
        columns.append(Column((gap + heads[0], gap + heads[1]), tuple(gap + t for t in texts)))
    return columns


def _speed(claim: Claim | None) -> str:
    if claim is None:
        return "no verdict"
    written = answers.speed(claim.interval)
    return f"{_figure(claim, written):<6} {written.bounds}"


def _cost(claim: Claim | None, priced: bool) -> str:
    if claim is None:
        return f"{wording.MISSING:>5}"
    return _figure(claim, answers.cost(claim.interval, priced=priced))


def _figure(claim: Claim, written: Written) -> str:
    return f"{written.figure:>5}" + ("?" if claim.answer is Answer.UNDECIDED else "")


def _rungs(case: Case) -> list[Column]:
    """The load points, each at the first of its lines, and the variants."""
    points = [
        loads.short(cell.load) if number == 0 else ""
        for load in case.loads
        for number, cell in enumerate(case.at(load))
    ]
    gap = " " * _GAP
    return [
        Column(("", f"load{gap}"), tuple(point + gap for point in points)),
        Column(("", ""), tuple(wording.short(cell.variant) for cell in case.cells)),
    ]


def _of_ladder(case: Case, width: int) -> Iterator[Group]:
    """The columns of one test case: fewer of them where the terminal is narrow."""
    percentiles = ("p50", "p90") if width > NARROW else ("p50",)
    for metric in (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN):
        yield tables.of_metric(metric, percentiles, f"{metric.short} {metric.printed}")
    yield _TOGETHER
    if width > NARROW:
        yield _STEPS
    if any(cell.goodput for cell in case.cells):
        yield _GOOD
    if any(cell.errors for cell in case.cells):
        yield _ERRORS
    if any(map(loads.letters, case.cells)):
        yield _LETTERS
