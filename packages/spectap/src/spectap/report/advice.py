"""Which draft and window to serve: sentences and tables for the page and the terminal."""

from typing import Final

from spectap import palette, wording
from spectap.analysis.advice.advice import (
    Acceptance,
    Advice,
    Prospect,
    Recommendation,
    StepCost,
)
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint
from spectap.palette import Colour
from spectap.report import phrases
from spectap.report.results import Results
from spectap.report.view import Columns, Row, Table, View, grouped

BASELINE: Final = "baseline"
BOTH_SPEEDS: Final = (
    "The speed-up of the advice is that of the mean time of whole requests by their tokens, which "
    "adds up over a mix; the one of a verdict is of medians. So the same measurement can show two "
    "numbers."
)

_COLUMNS: Final = (
    "Tokens are those of a step. A window that was measured is predicted, too: from the others of "
    "its draft alone."
)


def colours(advice: Advice) -> dict[str, Colour]:
    """The baseline's colour, first as in all figures, and each line's."""
    return palette.of([BASELINE, *(series.name for series in advice.lines)])


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
    return tuple(recommendation.sentence for recommendation in _last(advice))


def measure_next(advice: Advice) -> tuple[str, ...]:
    """What to measure next for the mix, then for classes whose best window is only predicted.

    Of a rehearsal only what the experiment lacks.
    """
    if advice.rehearsal:
        return advice.measure_next
    last, shares = _last(advice), dict(advice.mix)
    mixed = {recommendation.choice for recommendation in last}
    predicted = [
        each
        for each in advice.recommendations
        if not each.measured and each.choice not in mixed and shares.get(each.prompt_class or "", 1)
    ]
    sentences = filter(None, (each.measure_next for each in (*last, *predicted)))
    return tuple(dict.fromkeys((*advice.measure_next, *sentences)))


def mix(advice: Advice) -> str:
    """Each class with its share, in a sentence; empty for one class."""
    if len(advice.mix) < 2:
        return ""
    shares = [f"{name} {wording.percent(share)} %" for name, share in advice.mix]
    return f"The mix is {wording.listed(shares)} of the output tokens"


def terminal_view(run: Results, advice: Advice) -> View:
    """The advice on a run: what to serve first, then what that rests on."""
    shares = mix(advice)
    return View(
        title=f"Advice on {phrases.heading(run.config, run.summary)}",
        lead=(stood_in(run.config.stand_in),) if advice.rehearsal else (),
        findings=(
            *recommended(advice),
            *advice.cautions,
            *(f"Next: {sentence}" for sentence in measure_next(advice)),
        ),
        tables=tuple((table, ()) for table in (serve(advice), *tables(advice)) if table),
        remarks=(*([f"{shares}."] if shares else []), _COLUMNS, *dict.fromkeys(advice.notes)),
    )


def serve(advice: Advice) -> Table:
    """What to serve each class with, and the mix, at each load; sentences name what is as good."""
    roles = colours(advice)

    def row(recommendation: Recommendation) -> Row:
        line = recommendation.choice.line
        ratio = phrases.speed(recommendation.speedup if line else None)
        origin = ("measured" if recommendation.measured else "predicted") if line else ""
        values = (
            (ratio.figure, ratio.bounds, origin),
            (wording.dollars(recommendation.usd_per_million_output_tokens),),
        )
        load = phrases.short_load(recommendation.load)
        labels = (load, recommendation.prompt_class or "the mix", str(recommendation.choice))
        return Row(labels, values, roles[line].role if line else "")

    return Table(
        "Fastest in this rehearsal" if advice.rehearsal else "What to serve",
        ("load", "class", "fastest" if advice.rehearsal else "serve"),
        (
            Columns("speed-up, 95 %", ("", "", "")),
            Columns("USD per", ("M tokens",)),
        ),
        grouped(
            (recommendation.load, row(recommendation)) for recommendation in advice.recommendations
        ),
    )


def tables(advice: Advice) -> tuple[Table, ...]:
    """What the advice rests on."""
    loads = dict.fromkeys(prospect.load for prospect in advice.prospects)
    prospects = (_prospects(advice, load) for load in loads)
    return tuple(filter(None, (*prospects, _acceptance(advice), _costs(advice))))


def _prospects(advice: Advice, load: LoadPoint | None) -> Table:
    """Each window of each line at one load, class by class."""
    prospects = {
        (prospect.line, prospect.window, prospect.prompt_class): prospect
        for prospect in advice.prospects
        if prospect.load == load
    }
    classes = [*dict.fromkeys(prompt_class for *_, prompt_class in prospects)]
    roles, order = colours(advice), [series.name for series in advice.lines]
    suffix = f" at {load}" if load else ""

    def row(line: str, window: int) -> Row:
        cells = (prospects.get((line, window, name)) for name in classes)
        return Row((line, str(window)), tuple(map(_prospect, cells)), roles[line].role)

    windows = {(line, window) for line, window, _ in prospects}
    return Table(
        f"Speed-up by window{suffix}",
        ("draft", "window"),
        tuple(Columns(name, ("tokens", "predicted", "measured", "error")) for name in classes),
        grouped(
            (line, row(line, window))
            for line, window in sorted(windows, key=lambda key: (order.index(key[0]), key[1]))
        ),
        coloured=0,
    )


def _prospect(prospect: Prospect | None) -> tuple[str, str, str, str]:
    """Tokens a step, what was predicted, what was measured, and how far they are apart."""
    if prospect is None:
        return "", "", "", ""
    predicted, measured = prospect.predicted, prospect.measured
    error = wording.change(predicted.point / measured.point) if predicted and measured else ""
    return f"{prospect.tokens_per_step:.2f}", _ratio(predicted), _ratio(measured), error


def _ratio(interval: Interval | None) -> str:
    estimate = phrases.speed(interval)
    return f"{estimate.figure} {estimate.bounds}".rstrip()


def _acceptance(advice: Advice) -> Table:
    """How often the draft at each position is accepted, where it is reached."""
    acceptances = [acceptance for acceptance in advice.acceptances if acceptance.positions]
    numbers = sorted(
        {position.number for acceptance in acceptances for position in acceptance.positions}
    )
    line = "{0.line}, {0.prompt_class}" if len(advice.lines) > 1 else "{0.prompt_class}"
    rows = (
        Row((str(number),), tuple(_position(acceptance, number) for acceptance in acceptances))
        for number in numbers
    )
    return Table(
        "Drafts accepted, of those reached",
        ("position",),
        tuple(Columns(line.format(each), ("", "95 %", "of")) for each in acceptances),
        (tuple(rows),),
    )


def _position(acceptance: Acceptance, number: int) -> tuple[str, str, str]:
    for position in acceptance.positions:
        if position.number == number:
            span = "-".join(f"{100 * end:.0f}" for end in position.interval or ())
            return f"{100 * position.accepted:.0f} %", span, f"{position.reached:,}"
    return "", "", ""


def _costs(advice: Advice) -> Table:
    """What a step of each line takes at each load, in milliseconds."""
    windows = sorted({window for cost in advice.costs for window, _ in cost.measured})
    roles = colours(advice)

    def row(cost: StepCost) -> Row:
        seconds = [cost.baseline], map(dict(cost.measured).get, windows)
        values = tuple(tuple(map(wording.milliseconds, group)) for group in seconds)
        return Row((cost.line, phrases.short_load(cost.load)), values, roles[cost.line].role)

    return Table(
        "A step, ms",
        ("draft", "load"),
        (Columns("", (BASELINE,)), Columns("at window", tuple(map(str, windows)))),
        grouped((cost.line, row(cost)) for cost in advice.costs),
        coloured=0,
    )


def _last(advice: Advice) -> list[Recommendation]:
    """The last one of each load: that of the mix, if there are several classes."""
    by_load = {recommendation.load: recommendation for recommendation in advice.recommendations}
    return [*by_load.values()]
