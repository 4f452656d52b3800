"""Advice from a run: the front door of this folder."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from spectap import wording
from spectap.analysis import controls, grouping
from spectap.analysis.advice.acceptance import acceptances
from spectap.analysis.advice.advice import Acceptance, Advice, Line, Recommendation
from spectap.analysis.advice.costs import step_costs
from spectap.analysis.advice.lines import lines
from spectap.analysis.advice.observed import Observed, observe
from spectap.analysis.advice.outlook import outlook
from spectap.analysis.advice.prospects import prospects
from spectap.analysis.advice.recommendation import recommendations
from spectap.analysis.advice.resampling import draws, partly_shared
from spectap.analysis.comparison import cautions, decoding
from spectap.analysis.summary import Cell, Finding
from spectap.config import Config
from spectap.errors import ConfigError
from spectap.names import WARM_UP
from spectap.record import Record
from spectap.rounds import FEWEST_ROUNDS

_BROKEN: Final = (Finding.FAILED, Finding.UNFINISHED, Finding.NOT_MEASURED)

_MOST_FAILED: Final = 0.01
"""Share of failed requests above which nothing is advised: clients would notice."""

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
    records = [*grouping.at_load_points(config.load, records)]
    classes = {case.name: str(case.structure or case.name) for case in config.test_cases}
    rounds = len({record.round for record in records if record.round > WARM_UP})
    # Of fewer rounds, how often drafts are accepted can still be shown.
    broken = (*_BROKEN, Finding.TOO_FEW) if rounds >= FEWEST_ROUNDS else _BROKEN
    excluded = _excluded(cells, classes, broken)
    observed = observe(
        config,
        [
            record
            for record in records
            if (classes.get(record.case), record.load, record.variant) not in excluded
        ],
    )
    found = lines(config, observed.drafts)
    shares = _mix(observed, found, mix)
    if not found:
        return _nothing(config, observed, shares)
    unsteady = controls.unsteadiness(records) if config.apart else None
    unknown = config.apart and unsteady is None
    drawn = partial(
        draws, observed.sides, observed.rounds, known=not unknown, unsteadiness=unsteady
    )
    all_of_it = outlook(
        observed,
        found,
        drawn(shared=0.0 if config.apart else 1.0),
        drawn(shared=0.0 if config.apart else partly_shared(observed.rounds)),
    )
    accepted = acceptances(observed, found)
    expected = tuple(prospects(observed, found, all_of_it, config.cost))
    advised = [
        *recommendations(
            observed,
            found,
            all_of_it,
            expected,
            shares,
            cost=config.cost,
            advises=config.stand_in is None,
        )
    ]
    return Advice(
        lines=found,
        mix=tuple(shares.items()),
        acceptances=accepted,
        costs=tuple(step_costs(observed, found)),
        prospects=expected,
        recommendations=tuple(_limited(one, found, cells) for one in advised),
        cautions=() if advised else tuple(_cautions(cells, at=len(observed.loads) > 1)),
        measure_next=tuple(_missing(observed, found, unknown=unknown)),
        rehearsal=config.stand_in is not None,
        notes=(
            *dict.fromkeys(excluded.values()),
            *observed.notes,
            *_notes(observed, found, accepted, unknown=unknown),
        ),
    )


def _excluded(
    cells: Sequence[Cell], classes: Mapping[str, str], broken: Collection[Finding]
) -> _Excluded:
    """``classes`` has that of each test case."""
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


def _limited(found: Recommendation, lines: Sequence[Line], cells: Sequence[Cell]) -> Recommendation:
    """With what limits the figures that it rests on."""
    chosen = [line for line in lines if found.choice.line in (None, line.name)]
    names = {name for line in chosen for name in (line.baseline, *dict(line.variants).values())}
    own = [cell for cell in cells if cell.load == found.load and cell.variant in names]
    return replace(found, sentence=" ".join((found.sentence, *_cautions(own, at=False))))


def _cautions(cells: Sequence[Cell], *, at: bool) -> Iterator[str]:
    return (f"{clause}." for clause in (*decoding(cells, at=at), *cautions(cells, at=at)))


def _missing(observed: Observed, lines: Sequence[Line], *, unknown: bool) -> Iterator[str]:
    """What to measure before anything can be advised. ``unknown``: as of ``_notes``."""
    if unknown or observed.rounds < FEWEST_ROUNDS:
        yield (
            f"Measure at least {FEWEST_ROUNDS} rounds, and control loads where variants are "
            "measured apart."
        )
    elif len(lines) == 1 and len(lines[0].variants) == 1 and not lines[0].fixed:
        (window,) = lines[0].windows
        yield (
            f"Measure {lines[0].name} with another window than {window}: nothing is advised from "
            "one alone."
        )


def accepted(config: Config, records: Sequence[Record]) -> Advice | None:
    """How often the draft at each position is accepted, and no advice; None where no step shows."""
    observed = observe(config, records)
    found = lines(config, observed.drafts)
    shown = acceptances(observed, found)
    return (
        replace(_nothing(config, observed, {}), lines=found, acceptances=shown) if shown else None
    )


def _nothing(config: Config, observed: Observed, shares: Mapping[str, float]) -> Advice:
    return Advice(
        *((), tuple(shares.items()), (), (), (), (), (), ()),
        rehearsal=config.stand_in is not None,
        notes=observed.notes,
    )


def _mix(
    observed: Observed, lines: Sequence[Line], asked: Mapping[str, float] | None
) -> dict[str, float]:
    """The share of each class."""
    if asked is None:
        side = observed.sides.get(lines[0].baseline if lines else "")
        asked = {
            name: 1.0 if side is None else float(side.outputs[:, :, observed.members(number)].sum())
            for number, name in enumerate(observed.classes)
        }
    elif unknown := [name for name in asked if name not in observed.classes]:
        raise ConfigError(
            f"mix: {', '.join(unknown)} was not measured; allowed are {', '.join(observed.classes)}"
        )
    total = math.fsum(asked.values())
    if observed.classes and not (0 < total < math.inf and min(asked.values()) >= 0):
        raise ConfigError("mix: shares must be 0 or more, and not all of them 0")
    return {name: asked.get(name, 0.0) / total for name in observed.classes}


def _notes(
    observed: Observed, lines: Sequence[Line], accepted: Sequence[Acceptance], *, unknown: bool
) -> Iterator[str]:
    """``unknown``: whether nobody knows what changed from one variant's time to another's."""
    if unknown:
        yield (
            "The variants were measured one after another, and no control loads tell what changed "
            "meanwhile: nobody knows how sure this is."
        )
    if observed.rounds < FEWEST_ROUNDS:
        yield (
            f"There {'is' if observed.rounds == 1 else 'are'} "
            f"{wording.count(observed.rounds, 'round')}: without {FEWEST_ROUNDS}, nobody knows how "
            "sure this is."
        )
    for line in lines:
        if len(line.variants) == 1 and not line.fixed:
            yield (
                f"Of {line.name} one window was measured. At others a step may cost less for each "
                "draft that it has less, or as much as at this one: their intervals hold both."
            )
    if len({line.baseline for line in lines}) > 1:
        yield (
            "Each batch has a baseline of its own: speed-ups are over that. Where a batch takes "
            "fewer requests than are in flight, it is not recommended if another takes more."
        )
    for one in accepted:
        line = next(line for line in lines if line.name == one.line)
        last = one.positions[-1].number
        if last < max(line.windows) - line.offset:
            yield (
                f"No step of {line.name} on {one.prompt_class} prompts reached draft {last + 1} of "
                "a step: it and further ones are taken to be accepted as often as the one before."
            )
