"""What the figures rest on: right answers, the servers' own counts, and where prompts come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from spectap import palette, wording
from spectap.analysis.crosscheck import TOLERANCE, Check
from spectap.analysis.summary import Correctness, Summary
from spectap.names import WARM_UP
from spectap.prompt import LeftOut, UsedSet
from spectap.record import Record
from spectap.report import phrases
from spectap.report.results import Results
from spectap.report.view import Columns, Entry, Row, Table

_FEW: Final = 5  # prompts that a terminal names
_UNCOUNTED: Final = "some could not be counted, and may be too long"
_DIGITS: Final = 12  # of a digest: enough to tell two sets apart


def worse_answers(summary: Summary) -> tuple[str, ...]:
    """A sentence for each check that a variant passes less often than its baseline."""
    return tuple(sentence(check) for check in summary.correctness if check.worse)


def sentence(check: Correctness) -> str:
    """What a check says, after its test case if it has one."""
    return f"{check.test_case}: {check.sentence}" if check.test_case else check.sentence


def correctness(summary: Summary) -> Table:
    """Every check that could be made, in percent and percentage points with 95 % intervals."""
    colours = palette.of(summary.variants)
    rows = (
        Row(
            (check.test_case or wording.MISSING, _named(check), check.variant),
            (
                (f"{check.prompts:,}",),
                (
                    phrases.rate(check.baseline_rate, check.baseline_interval),
                    phrases.rate(check.rate, check.rate_interval),
                ),
                (_difference(check),),
            ),
            colours[check.variant].role,
            alarming=check.worse,
        )
        for check in summary.correctness
        if check.prompts  # otherwise the sentence says so
    )
    return Table(
        "",
        ("test case", "checked", "variant"),
        (
            Columns("", ("prompts",)),
            Columns("right, 95 % interval", ("baseline", "variant")),
            Columns("difference", ("percentage points",)),
        ),
        (tuple(rows),),
    )


def _named(check: Correctness) -> str:
    return f"{check.check} ({check.evaluation})" if check.evaluation else check.check


def _difference(check: Correctness) -> str:
    low, high = map(phrases.points, check.difference_interval)
    return f"{phrases.points(check.difference)} ({low} to {high})"


def crosscheck(run: Results) -> Table:
    """What ledger and server both counted. Positions and times need not agree."""
    order = [(case.name, cell.variant) for case in run.summary.cases for cell in case.cells]
    checks = sorted(run.checks, key=lambda check: order.index((check.case, check.variant)))
    colours = palette.of(run.summary.variants)
    groups = (
        tuple(row for check in of_case for row in _counts(check, colours[check.variant].role))
        for _, of_case in groupby(checks, lambda check: check.case)
    )
    return Table(
        "",
        ("test case", "variant", "counted"),
        (Columns("", ("ledger", "server", "apart")),),
        tuple(groups),
        coloured=1,
    )


def _counts(check: Check, colour: str) -> Iterator[Row]:
    def row(name: str, *values: str, agrees: bool = True) -> Row:
        labels = (check.case, check.variant, name)
        return Row(labels, (values,), colour, alarming=not agrees)

    for figure in check.figures:
        cut = f" to {figure.ledger + figure.cut:,.0f}" if figure.cut else ""
        yield row(
            figure.name,
            f"{figure.ledger:,.0f}{cut}",
            f"{figure.server:,.0f}",
            f"{figure.disagreement:.2%}",
            agrees=figure.agrees,
        )
    if check.positions:
        ledger, server = (
            " ".join(f"{100 * part:.0f}" for part in side)
            for side in zip(*check.positions, strict=True)
        )
        yield row("accepted by position, %", ledger, server, wording.MISSING)
    if check.token_seconds:
        ledger, server = map(wording.milliseconds, check.token_seconds)
        yield row("mean TPOT, ms", ledger, server, wording.MISSING)


def checks_in_short(run: Results) -> Iterator[str]:
    """A sentence on the cross-check, and one on greedy answers, where they were made."""
    if run.checks:
        figures = [figure for check in run.checks for figure in check.figures]
        agreeing = sum(figure.agrees for figure in figures)
        yield (
            f"Cross-check with the servers' own counters: {agreeing} of {len(figures)} figures "
            f"agree within {100 * TOLERANCE:g} %."
        )
    if run.divergences:
        differing = [each for each in run.divergences if each.first is not None]
        where = "; ".join(
            f"{each.case}, {each.variant}: at {each.unit} {each.first}" for each in differing
        )
        amount = f"{len(differing)} of {wording.count(len(run.divergences), 'comparison')}"
        yield f"Greedy answers differ in {amount}" + (f" ({where})." if where else ".")


def divergences(run: Results) -> list[Entry]:
    """Where each variant's greedy answer begins to differ from its baseline's."""
    colours = palette.of(run.summary.variants)
    return [
        Entry(
            each.case,
            f"{each.unit} {each.first} of {each.compared}"
            if each.first
            else f"all {each.compared} {each.unit}s are the same",
            each.variant,
            colours[each.variant].role,
        )
        for each in run.divergences
    ]


def prompt_sets(run: Results) -> list[Entry]:
    """Where the prompts of each test case that has a set come from, and which were not sent."""
    return [
        Entry(
            used.case,
            f"{_source(used)}: {'; '.join(_amounts(used, run))}.{_classes(used)} "
            f"SHA-256 {used.digest[:_DIGITS]}…",
            items=tuple(f"{prompt.name} ({_because(prompt)})" for prompt in used.left_out),
        )
        for used in run.summary.sets
    ]


def _amounts(used: UsedSet, run: Results) -> Iterator[str]:
    yield f"{wording.count(used.used, 'prompt')}{_sent(used, run.records)}"
    if used.left_out:
        yield f"{len(used.left_out)} left out: {_reasons(used.left_out)}"
    else:
        yield "none left out"
    if not used.counted:
        yield _UNCOUNTED


def _classes(used: UsedSet) -> str:
    names = [f"{size} {name}" for name, size in used.classes if name]
    return f" {wording.listed(names)}." if names else ""


def prompt_set_in_short(used: UsedSet, run: Results) -> str:
    """One sentence: the source, its licence, and what was left out, by name if that is little."""
    text = f"{used.case}: {wording.count(used.used, 'prompt')} of {_source(used)}"
    text += _sent(used, run.records)
    if used.left_out:
        names = [
            f"{prompt.name} ({prompt.reason})" if prompt.reason else prompt.name
            for prompt in used.left_out[:_FEW]
        ]
        if more := len(used.left_out) - len(names):
            names.append(f"{more} more")
        text += f"; {len(used.left_out)} left out, {_reasons(used.left_out)}: "
        text += wording.listed(names)
    return f"{text}." if used.counted else f"{text}; {_UNCOUNTED}."


def _source(used: UsedSet) -> str:
    return f"{used.source}, {used.licence}" if used.licence else used.source


def _sent(used: UsedSet, records: Iterable[Record]) -> str:
    """How many of the prompts were sent, where it is not all; empty where nobody knows.

    Rounds with few requests do not come to the end of a large set.
    """
    sent = {
        record.prompt
        for record in records
        if record.case == used.case and record.round > WARM_UP and record.prompt
    }
    return f"; {len(sent):,} of {used.used:,} sent" if 0 < len(sent) < used.used else ""


def _because(prompt: LeftOut) -> str:
    if prompt.reason:
        return f"refused: {prompt.reason}"
    return f"{prompt.tokens:,} tokens with its answer, {prompt.most:,} fit"


def _reasons(left_out: Sequence[LeftOut]) -> str:
    """Of all of them together."""
    reasons: Mapping[bool, None] = {bool(prompt.reason): None for prompt in left_out}
    return " or ".join("refused by a service" if refused else "too long" for refused in reasons)
