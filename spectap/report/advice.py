"""Which draft and window to serve: sentences and tables for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from spectap import palette, wording
from spectap.analysis.advice.advice import (
    Acceptance,
    Advice,
    Choice,
    Prospect,
    Recommendation,
    StepCost,
)
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint
from spectap.names import ADVICE
from spectap.palette import Colour
from spectap.report import phrases
from spectap.report.results import Results
from spectap.report.view import (
    Block,
    Bullets,
    Columns,
    Figure,
    Fold,
    Row,
    Section,
    Table,
    Text,
    View,
    figures,
    section,
)

BASELINE: Final = "baseline"
MIX: Final = "the mix"
BOTH_SPEEDS: Final = (
    "The speed-up of the advice is that of the mean time of whole requests by their tokens, which "
    "adds up over a mix; the one of a verdict is of medians. So the same measurement can show two "
    "numbers."
)

_RIVALS: Final = 2  # of a choice are named; the file has all
_ROWS: Final = 12  # of a table that a reader takes in at once
_NOISE: Final = 0.005  # of a step: a fixed part of less is none
_BELOW: Final = (
    "A fixed part below 0 is no gain: the first drafts of a step cost less than those that a wider "
    "window adds."
)
_HOW_SURE: Final = (
    "How sure: the probability that it is the best of every draft and window considered, by the "
    "bootstrap over rounds."
)
_COLUMNS: Final = (
    "Tokens are those of a step. A window that was measured is predicted, too: from the others of "
    "its draft alone. How sure: the probability that nothing considered is better."
)
_WHOLE_REQUESTS: Final = (
    "The speed-up is that of whole requests, their first token and their queue included."
)


def colours(advice: Advice) -> dict[str, Colour]:
    """That of the baseline, as in all figures the first, and of each line."""
    return palette.of([BASELINE, *(line.name for line in advice.lines)])


def in_short(advice: Advice, stand_in: str | None) -> tuple[str, ...]:
    """A line or two: what to serve at the first load, and at the last."""
    if advice.rehearsal:
        return (stood_in(stand_in),)
    sentences = recommended(advice)
    ends = sentences if len(sentences) < 2 else (sentences[0], sentences[-1])
    return *ends, *advice.measure_next


def stood_in(stand_in: str | None) -> str:
    """What a rehearsal says before what it shows."""
    return f"Not advice for Trainium: {stand_in or 'something'} stood in for the services."


def recommended(advice: Advice) -> tuple[str, ...]:
    """What is best at each load: for the mix, or for the class where there is only one."""
    return tuple(each.sentence for each in _last(advice))


def measure_next(advice: Advice) -> tuple[str, ...]:
    """What to measure next for the mix, then for classes whose best window is only predicted."""
    if advice.rehearsal:
        return ()
    last, shares = _last(advice), dict(advice.mix)
    mixed = {each.choice for each in last}
    others = (
        each
        for each in advice.recommendations
        if not each.measured and each.choice not in mixed and shares.get(each.prompt_class or "", 1)
    )
    sentences = (each.measure_next for each in (*last, *others) if each.measure_next)
    return tuple(dict.fromkeys((*advice.measure_next, *sentences)))


def mix(advice: Advice) -> str:
    """Each class with its share: ``structured 52 % and open-ended 48 %``; empty for one class."""
    if len(advice.mix) < 2:
        return ""
    return wording.listed([f"{name} {wording.percent(share)} %" for name, share in advice.mix])


def caveats(advice: Advice) -> tuple[str, ...]:
    """What to know before believing it: each said once."""
    below = [_BELOW] if any(cost.fixed < -_NOISE * cost.baseline for cost in advice.costs) else []
    return tuple(dict.fromkeys((*below, *advice.notes)))


def page_section(advice: Advice, stand_in: str | None, drawings: Sequence[Figure]) -> Section:
    """The page's section."""
    many = len(advice.recommendations) > _ROWS
    first = serve(advice, only_mix=many)
    hints = [_WHOLE_REQUESTS, *([_HOW_SURE] if first else [])]
    if named := mix(advice):
        hints.append(f"The mix is {named} of the output tokens; MIX=... takes another.")
    blocks: list[Block | None] = [
        Text(stood_in(stand_in), "strong") if advice.rehearsal else None,
        *(Text(sentence, "serve") for sentence in (*recommended(advice), *advice.cautions)),
        *(Text(sentence, "next") for sentence in measure_next(advice)),
        first,
        Text(" ".join(hints), "hint"),
        figures([drawing for drawing in drawings if drawing.advice]),
        Fold(
            "What this rests on: every window, acceptance by position, the cost of a step",
            (
                *([serve(advice)] if many else ()),
                *tables(advice),
                Text(
                    "What was measured stands where it was measured; a prediction beside it is "
                    "from the other windows of the same line alone. Acceptance is that of the "
                    "drafts that were reached: all before them were accepted. "
                    f"{wording.MISSING} marks what was not measured.",
                    "hint",
                ),
            ),
        ),
    ]
    sentences = (*caveats(advice), *([BOTH_SPEEDS] if advice.recommendations else []))
    return section(
        "advice", "Which draft and window", [*blocks, Bullets(sentences) if sentences else None]
    )


def terminal_view(advice: Advice, heading: str, stand_in: str | None) -> View:
    """All of it for the terminal: what to serve first, then what that rests on."""
    every = len(_loads(advice)) == 1  # where several loads have a table each, they are many
    rest = tables(advice, every=every)
    blocks: list[Table] = [serve(advice, rivals=False), *rest]
    remarks = [_COLUMNS, *caveats(advice)]
    if rest != tables(advice):
        remarks.insert(0, f"Other windows are in {ADVICE}.")
    if named := mix(advice):
        remarks.insert(0, f"The mix is {named} of the output tokens.")
    return View(
        title=heading,
        lead=(stood_in(stand_in),) if advice.rehearsal else (),
        findings=(
            *recommended(advice),
            *advice.cautions,
            *(f"Next: {sentence}" for sentence in measure_next(advice)),
        ),
        overview=tuple(section("", "", [table]) for table in blocks if table),
        remarks=tuple(remarks),
    )


def run_heading(run: Results) -> str:
    """What the advice on a run is on."""
    what = "a rehearsal of " if run.summary.rehearsal else ""
    return (
        f"Advice on {what}{run.config.experiment}: {run.summary.subject}, on {run.config.model} "
        f"at {phrases.load_points(run.config.load.points)}"
    )


def serve(advice: Advice, *, rivals: bool = True, only_mix: bool = False) -> Table:
    """What to serve each class with, and the mix, at each load.

    ``rivals``: with what may be better, for which a terminal has no room. ``only_mix``: without the
    classes, where there are several.
    """
    several = len(_loads(advice)) > 1
    priced = any(each.usd_per_million_output_tokens for each in advice.recommendations)
    shared = rivals and any(each.rivals for each in advice.recommendations)
    roles = colours(advice)

    def row(each: Recommendation) -> Row:
        line = each.choice.line
        ratio = phrases.prediction(each.speedup if line else None)
        values: list[tuple[str, ...]] = [
            (ratio.figure, ratio.bounds, _origin(each)),
            (phrases.probability(each.probability),),
        ]
        if priced:
            values.append((wording.dollars(each.usd_per_million_output_tokens),))
        if shared:
            values.append((_rivals(each),))
        load = (phrases.short_load(each.load),) if several else ()
        labels = (*load, each.prompt_class or MIX, _name(each.choice))
        return Row(labels, tuple(values), roles[line].role if line else "")

    columns = [Columns("speed-up, 95 %", ("", "", "")), Columns("how", ("sure",))]
    columns += [Columns("USD per", ("M tokens",))] if priced else []
    columns += [Columns("may be better", ("",), words=True)] if shared else []
    what = "fastest" if advice.rehearsal else "serve"
    rows = [
        each
        for each in advice.recommendations
        if not (only_mix and len(advice.mix) > 1 and each.prompt_class)
    ]
    return Table(
        "Fastest in this rehearsal" if advice.rehearsal else "What to serve",
        (*(("load",) if several else ()), "class", what),
        tuple(columns),
        tuple(
            tuple(row(each) for each in rows if each.load == load)
            for load in dict.fromkeys(each.load for each in rows)
        ),
    )


def tables(advice: Advice, *, every: bool = True) -> tuple[Table, ...]:
    """What the advice rests on. Not ``every``: only windows that were measured or may be best."""
    return tuple(
        table
        for table in (
            *(_prospects(advice, load, every=every) for load in _loads(advice)),
            _acceptance(advice),
            _costs(advice),
        )
        if table
    )


def _origin(recommendation: Recommendation) -> str:
    if recommendation.choice.line is None:
        return ""
    return "measured" if recommendation.measured else "predicted"


def _name(choice: Choice) -> str:
    if choice.line is None:
        return "no speculation"
    return f"{choice.line}, window {choice.window}"


def _rivals(recommendation: Recommendation) -> str:
    line = recommendation.choice.line
    return "\n".join(
        f"{f'window {rival.window}' if line and rival.line == line else _name(rival)} "
        f"({phrases.probability(part)})"
        for rival, part in recommendation.rivals[:_RIVALS]
    )


def _prospects(advice: Advice, load: LoadPoint | None, *, every: bool) -> Table:
    """Each window of each line at one load, class by class."""
    prospects = [each for each in advice.prospects if each.load == load]
    classes = [*dict.fromkeys(each.prompt_class for each in prospects)]
    compared = any(each.predicted and each.measured for each in prospects)
    names = ("tokens", "predicted", "measured", *(("error",) if compared else ()))
    windows_of_note = {(each.line, each.window) for each in prospects if every or each.measured}
    windows_of_note |= _chosen(advice)
    roles = colours(advice)

    def row(line: str, window: int) -> Row:
        cells = {
            each.prompt_class: each
            for each in prospects
            if (each.line, each.window) == (line, window)
        }
        values = tuple(_prospect(cells.get(name), compared=compared) for name in classes)
        return Row((line, str(window)), values, roles[line].role)

    windows = {
        line.name: sorted({each.window for each in prospects if each.line == line.name})
        for line in advice.lines
    }
    groups = (
        tuple(row(line, window) for window in windows[line] if (line, window) in windows_of_note)
        for line in windows
    )
    where = f" at {phrases.load_points([load])}" if load else ""
    return Table(
        f"Speed-up by window{where}",
        ("draft", "window"),
        tuple(Columns(name, names) for name in classes),
        tuple(filter(None, groups)),
        coloured=0,
    )


def _prospect(prospect: Prospect | None, *, compared: bool) -> tuple[str, ...]:
    if prospect is None:
        return ("",) * (4 if compared else 3)
    predicted, measured = map(_ratio, (prospect.predicted, prospect.measured))
    texts = (f"{prospect.tokens_per_step:.2f}", predicted, measured)
    if not compared:
        return texts
    if prospect.predicted is None or prospect.measured is None:
        return *texts, ""
    return *texts, wording.change(prospect.predicted.point / prospect.measured.point)


def _ratio(interval: Interval | None) -> str:
    estimate = phrases.prediction(interval)
    return f"{estimate.figure} {estimate.bounds}".rstrip()


def _chosen(advice: Advice) -> set[tuple[str, int]]:
    """Lines and windows that are recommended somewhere, or nearly."""
    choices = (
        choice
        for each in advice.recommendations
        for choice in (each.choice, *(rival for rival, _ in each.rivals))
    )
    return {(choice.line, choice.window) for choice in choices if choice.line and choice.window}


def _acceptance(advice: Advice) -> Table:
    """How often the draft at each position is accepted, where it is reached."""
    acceptances = [each for each in advice.acceptances if each.positions]
    numbers = sorted({position.number for each in acceptances for position in each.positions})
    several = len(advice.lines) > 1
    titles = (
        f"{each.line}, {each.prompt_class}" if several else each.prompt_class
        for each in acceptances
    )
    return Table(
        "Drafts accepted, of those reached",
        ("position",),
        tuple(Columns(title, ("", "95 %", "of")) for title in titles),
        (
            tuple(
                Row((str(number),), tuple(_position(each, number) for each in acceptances))
                for number in numbers
            ),
        ),
    )


def _position(acceptance: Acceptance, number: int) -> tuple[str, str, str]:
    for position in acceptance.positions:
        if position.number == number:
            bounds = position.interval or ()
            span = "-".join(f"{100 * end:.0f}" for end in bounds)
            return f"{100 * position.accepted:.0f} %", span, f"{position.reached:,}"
    return "", "", ""


def _costs(advice: Advice) -> Table:
    """What a step of each line takes at each load, and what it is made of; in milliseconds."""
    windows = sorted({window for cost in advice.costs for window, _ in cost.measured})
    several = len(_loads(advice)) > 1
    roles = colours(advice)

    def row(cost: StepCost) -> Row:
        measured = dict(cost.measured)
        steps = (measured[window].point if window in measured else None for window in windows)
        # One window cannot tell what is fixed from what each draft adds.
        parts: list[float | None] = [cost.fixed if len(measured) > 1 else None, cost.per_draft]
        return Row(
            (cost.line, phrases.short_load(cost.load)) if several else (cost.line,),
            (
                (wording.milliseconds(cost.baseline),),
                tuple(map(wording.milliseconds, steps)),
                tuple(map(wording.milliseconds, parts)),
            ),
            roles[cost.line].role,
        )

    return Table(
        "A step, ms",
        ("draft", "load") if several else ("draft",),
        (
            Columns("", (BASELINE,)),
            Columns("at window", tuple(map(str, windows))),
            Columns("beyond the baseline's", ("fixed", "a draft")),
        ),
        tuple(tuple(map(row, costs)) for costs in _by_line(advice.costs)),
        coloured=0,
    )


def _by_line(costs: Iterable[StepCost]) -> Iterator[list[StepCost]]:
    lines: dict[str, list[StepCost]] = {}
    for cost in costs:
        lines.setdefault(cost.line, []).append(cost)
    yield from lines.values()


def _last(advice: Advice) -> list[Recommendation]:
    """The last one of each load: that of the mix, if there are several classes."""
    return [*{each.load: each for each in advice.recommendations}.values()]


def _loads(advice: Advice) -> list[LoadPoint | None]:
    return [*dict.fromkeys(each.load for each in advice.prospects)]
