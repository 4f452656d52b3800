"""Advice from a run: the front door of this folder."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from spectap import wording
from spectap.analysis import grouping
from spectap.analysis.advice.advice import Advice, Series
from spectap.analysis.advice.observed import (
    Observed,
    acceptances,
    classes_of_cases,
    observe,
    step_costs,
)
from spectap.analysis.advice.outlook import USABLE, Outlook, outlook
from spectap.analysis.advice.recommendation import prospects, recommendations
from spectap.analysis.comparison import cautions
from spectap.analysis.evidence import unsteadiness_of
from spectap.analysis.summary import Cell, Finding
from spectap.config import Config, Variant
from spectap.errors import ConfigError
from spectap.load_points import FEWEST_ROUNDS
from spectap.names import WARM_UP
from spectap.record import Record

_MOST_FAILED: Final = 0.01  # share of requests; with more, nothing is advised

_Excluded = Mapping[tuple[str, str, str], str]
"""Class, load and variant that nothing is advised from, and the sentence that says why."""


def advise(
    config: Config,
    records: Sequence[Record],
    *,
    cells: Iterable[Cell] = (),
    mix: Mapping[str, float] | None = None,
) -> Advice:
    """What to serve, from the ``records`` of a run.

    ``cells`` are those of its summary: nothing is advised from one that has no verdict or too many
    failures, nor from the others of its class, which is compared over all of its test cases.

    ``mix`` has the share of the output tokens that each class has; they are scaled to add up to 1,
    and a class that is not named has none. Without one it is what the baseline answered in the run.
    Raises ConfigError where ``mix`` names a class that was not measured.
    """
    cells = tuple(cells)
    records = grouping.at_load_points(config.load, records)
    classes = classes_of_cases(config)
    excluded = _excluded(cells, classes, records)
    observed = observe(
        config,
        [r for r in records if (classes.get(r.case), r.load, r.variant) not in excluded],
    )
    lines = _lines(config, observed.drafts)
    shares = _mix(observed, lines, mix)
    rehearsal = config.stand_in is not None
    if not lines:
        return Advice(mix=tuple(shares.items()), rehearsal=rehearsal, notes=observed.notes)
    unsteadiness = unsteadiness_of(records) if config.isolated else None
    uncontrolled = config.isolated and unsteadiness is None
    expected = outlook(observed, lines, isolated=config.isolated, unsteadiness=unsteadiness)
    every_prospect = tuple(prospects(observed, lines, expected))
    scoped = (observed, lines, expected, every_prospect, shares)
    recommended = recommendations(*scoped, cost=config.cost, advises=not rehearsal)
    return Advice(
        lines=lines,
        mix=tuple(shares.items()),
        acceptances=tuple(acceptances(observed, lines)),
        costs=tuple(step_costs(observed, lines)),
        prospects=every_prospect,
        recommendations=tuple(recommended),
        cautions=tuple(f"{clause}." for clause in cautions(cells)),
        measure_next=tuple(_missing(observed, lines, uncontrolled=uncontrolled)),
        rehearsal=rehearsal,
        notes=(
            *dict.fromkeys(excluded.values()),
            *observed.notes,
            *_notes(observed, lines, expected),
        ),
    )


def _excluded(
    cells: Sequence[Cell], classes: Mapping[str, str], records: Sequence[Record]
) -> _Excluded:
    """``classes`` has that of each test case."""
    broken = {Finding.FAILED, Finding.UNFINISHED, Finding.NOT_MEASURED}
    if len({record.round for record in records if record.round > WARM_UP}) >= FEWEST_ROUNDS:
        # Of fewer rounds, how often drafts are accepted can still be shown.
        broken.add(Finding.TOO_FEW)
    excluded: dict[tuple[str, str, str], str] = {}
    for cell in cells:
        if cell.comparison is None:
            continue
        why = cell.comparison.verdict.sentence
        if cell.comparison.verdict.finding not in broken:
            if cell.errors <= _MOST_FAILED * cell.requests:
                continue
            why = f"{cell.errors} of its {cell.requests} requests failed: look into them first."
        kind, load = classes[cell.test_case], cell.load
        excluded[kind, load.name if load else "", cell.variant] = (
            f"Nothing is advised from {cell.variant} on {kind} prompts"
            f"{f' at {load}' if load else ''}. {why}"
        )
    return excluded


def _lines(config: Config, drafts: Mapping[str, int]) -> tuple[Series, ...]:
    """Variants that differ in their window alone, in the order of the run.

    ``drafts`` has how many a step verifies, by the name of the variant; others are left out. So are
    variants whose baseline is.
    """
    by_kind: dict[tuple[str | int | None, ...], dict[int, Variant]] = defaultdict(dict)
    for variant in config.variants:
        if variant.baseline not in drafts or variant.name not in drafts:
            continue
        # As the user writes it; where nobody said, the most tokens of a step.
        window = variant.window or drafts[variant.name] + 1
        kind: tuple[str | int | None, ...]
        kind = (variant.baseline, variant.mode, variant.draft, variant.batch)
        unknown = variant.mode is None and variant.draft is None and variant.window is None
        if unknown or window in by_kind[kind]:
            kind = (*kind, variant.name)
        by_kind[kind][window] = variant
    windows = [sorted(of.items()) for of in by_kind.values() if of]
    firsts = [variants[0][1] for variants in windows]
    return tuple(
        Series(
            name=name,
            mode=first.mode,
            draft=first.draft,
            batch=first.batch,
            baseline=first.baseline or "",
            variants=tuple((window, variant.name) for window, variant in variants),
            offset=max(window - drafts[variant.name] for window, variant in variants),
        )
        for name, first, variants in zip(_names(firsts), firsts, windows, strict=True)
    )


def _names(firsts: Sequence[Variant]) -> list[str]:
    """The short name of the draft, and of mode and batch what is needed to tell lines apart."""
    modes, batches = ({getattr(v, field) for v in firsts} for field in ("mode", "batch"))
    names = []
    for variant in firsts:
        # Qwen3-1.7B of Qwen/Qwen3-1.7B@revision.
        draft = (variant.draft or "").partition("@")[0].strip().rpartition("/")[2]
        name = draft or variant.mode or variant.name
        name += f", {variant.mode}" if draft and variant.mode and len(modes) > 1 else ""
        name += f", batch {variant.batch}" if variant.batch and len(batches) > 1 else ""
        names.append(name)
    counts = Counter(names)
    return [
        f"{name} ({variant.name})" if counts[name] > 1 else name
        for name, variant in zip(names, firsts, strict=True)
    ]


def _mix(
    observed: Observed, lines: Sequence[Series], mix: Mapping[str, float] | None
) -> dict[str, float]:
    if mix is None:
        side = observed.sides.get(lines[0].baseline if lines else "")
        mix = {
            name: 1.0 if side is None else float(side.totals.outputs[:, :, number].sum())
            for number, name in enumerate(observed.classes)
        }
    elif unknown := [name for name in mix if name not in observed.classes]:
        raise ConfigError(
            f"mix: {', '.join(unknown)} was not measured; allowed are {', '.join(observed.classes)}"
        )
    total = math.fsum(mix.values())
    if observed.classes and not (0 < total < math.inf and min(mix.values()) >= 0):
        raise ConfigError("mix: shares must be 0 or more, and not all of them 0")
    return {name: mix.get(name, 0.0) / total for name in observed.classes}


def _missing(observed: Observed, lines: Sequence[Series], *, uncontrolled: bool) -> Iterator[str]:
    """What to measure before anything can be advised."""
    if uncontrolled or observed.rounds < FEWEST_ROUNDS:
        yield (
            f"Measure at least {FEWEST_ROUNDS} rounds, and control loads where variants are "
            "isolated: so far nobody knows how sure this is."
        )
    elif len(lines) == 1 and len(lines[0].variants) == 1 and not lines[0].fixed:
        (window,) = lines[0].windows
        yield (
            f"Measure {lines[0].name} with another window than {window}: nothing is advised from "
            "one alone."
        )


def _notes(observed: Observed, lines: Sequence[Series], expected: Outlook) -> Iterator[str]:
    for series in lines:
        if expected.errors.get(series.name, 0.0) > USABLE:
            off = wording.percent(expected.errors[series.name])
            yield (
                f"No other window of {series.name} is predicted: what the measured ones say of "
                f"each other is {off} % off."
            )
    counts = {
        name: n for name, n in zip(observed.classes, observed.prompt_counts, strict=True) if n
    }
    if counts:
        names = wording.listed([*counts])
        yield f"Prompts differ ({names}): of them only measured windows are compared."
    if few := [name for name, number in counts.items() if number < FEWEST_ROUNDS]:
        yield f"Nothing is advised on {wording.listed(few)}: it needs {FEWEST_ROUNDS} prompts."
    if len({series.baseline for series in lines}) > 1:
        yield (
            "Each batch has a baseline of its own: speed-ups are over that. Where a batch takes "
            "fewer requests than are in flight, it is not recommended if another takes more."
        )
