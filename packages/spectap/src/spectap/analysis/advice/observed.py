"""What the steps of a run show: how many, how long, and which drafts were accepted in them.

The first chunk of an answer is its prefill's; each later one is a step of the accepted drafts and
one more token. An answer's end cuts its last step: it shows that the drafts before its last token
were accepted, and nothing of the next (right censoring; Kaplan and Meier, JASA 53, 1958).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from spectap import wording
from spectap.analysis import grouping
from spectap.analysis.advice.advice import Acceptance, Position, Series, StepCost
from spectap.analysis.estimates.estimate import ALPHA
from spectap.analysis.estimates.proportions import clopper_pearson
from spectap.config import Config, Variant
from spectap.ledger import last_attempts
from spectap.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.names import WARM_UP
from spectap.record import Record

Array = NDArray[np.floating[Any]]

_SELDOM: Final = 0.002
"""Steps with more tokens are taken for merged ones, where nobody says how many a step may yield."""

_Cell = tuple[int, int, int]
"""Numbers of a load, a round and a class."""


class Totals(NamedTuple):
    """What the answers of a variant that show steps add up to: over load, round and class, or over
    draw, load and class."""

    seconds: Array
    """From the first chunks to the last."""
    steps: Array
    tokens: Array
    """After the first chunks."""
    answers: Array
    outputs: Array
    """Tokens of whole answers."""
    waits: Array
    """Seconds outside of steps: before the first chunk, and after the last."""


@dataclass(frozen=True)
class Side:
    """What one variant did."""

    totals: Totals
    served: Array
    """Over load, round and class: tokens of all requests that succeeded."""
    time: Array
    """Over the same: seconds that all requests were in flight, failed ones included."""
    prompt_seconds: Array
    """Over load, round and prompt with a name: of whole answers, like ``prompt_tokens``."""
    prompt_tokens: Array
    reached: Array
    """Over round, class and draft position: steps in which all drafts before it were accepted."""
    accepted: Array
    """Of these, the ones in which it was accepted, too."""


@dataclass(frozen=True)
class Observed:
    """All variants of a run, of those requests that count and show their steps."""

    loads: tuple[LoadPoint, ...]
    classes: tuple[str, ...]
    prompts: Array
    """Of each prompt that has a name, the number of its class."""
    rounds: int
    drafts: Mapping[str, int]
    """Those a step verifies, by the name of the variant; 0 for a baseline. Only of variants that
    show steps."""
    sides: Mapping[str, Side]
    notes: tuple[str, ...]

    @cached_property
    def prompt_counts(self) -> list[int]:
        """Of each class."""
        return [int(n) for n in np.bincount(self.prompts, minlength=len(self.classes))]


def classes_of_cases(config: Config) -> dict[str, str]:
    """The class of each test case whose prompts have none of their own."""
    return {case.name: str(case.structure or case.name) for case in config.test_cases}


def observe(config: Config, records: Iterable[Record]) -> Observed:
    """What the ``records`` of a run, each with its load point's name, show of its steps."""
    points = [point.name for point in config.load.points]
    of_cases = classes_of_cases(config)
    counted = last_attempts(
        [
            record
            for record in records
            if record.round > WARM_UP and record.case in of_cases and record.load in points
        ],
        isolated=config.isolated,
    )
    classes = [record.prompt_class or of_cases[record.case] for record in counted]
    names = [*dict.fromkeys(classes)]
    rounds = sorted({grouping.unit_of(record) for record in counted})
    of_variant: dict[str, list[tuple[Record, _Cell]]] = defaultdict(list)
    for record, prompt_class in zip(counted, classes, strict=True):
        round_ = rounds.index(grouping.unit_of(record))
        cell = points.index(record.load), round_, names.index(prompt_class)
        of_variant[record.variant].append((record, cell))
    notes: list[str] = []
    drafts = dict(_drafts(config.variants, of_variant, notes))
    shape = len(points), len(rounds), len(names)
    prompts = sorted(
        {(names.index(c), r.prompt) for r, c in zip(counted, classes, strict=True) if r.prompt}
    )
    widest = max(drafts.values(), default=0)
    return Observed(
        loads=config.load.points,
        classes=tuple(names),
        prompts=np.array([number for number, _ in prompts], dtype=int),
        rounds=len(rounds),
        drafts=drafts,
        sides={
            name: _side(name, of_variant[name], drafts[name], shape, prompts, widest, notes)
            for name in drafts
        },
        notes=tuple(notes),
    )


def _drafts(
    variants: Sequence[Variant],
    of_variant: Mapping[str, Sequence[tuple[Record, _Cell]]],
    notes: list[str],
) -> Iterator[tuple[str, int]]:
    for variant in variants:
        answers = [record for record, _ in of_variant.get(variant.name, ()) if _shows(record)]
        if not answers:
            notes.append(f"{variant.name} shows no steps, so nothing is said of it.")
        elif variant.baseline is None:
            yield variant.name, 0
        elif variant.drafts_per_step is not None:
            yield variant.name, variant.drafts_per_step
        elif drafts := _assumed(answers):
            notes.append(
                f"Nobody said how many drafts a step of {variant.name} verifies: "
                f"{drafts} are assumed, by the tokens that its steps yield."
            )
            yield variant.name, drafts
        else:
            notes.append(f"No step of {variant.name} yields more than one token: it is left out.")


def _assumed(records: Sequence[Record]) -> int:
    """Drafts a step, by the most tokens of one; but a few chunks may be two steps."""
    sizes = Counter(tokens for record in records for _, tokens in record.chunks[1:])
    beyond = 0
    for size in sorted(sizes, reverse=True):
        beyond += sizes[size]
        if beyond > max(2, _SELDOM * sizes.total()):
            return size - 1
    return 0


def _shows(record: Record) -> bool:
    return record.succeeded and record.shows_steps and len(record.chunks) > 1


def _side(
    name: str,
    requests: Sequence[tuple[Record, _Cell]],
    drafts: int,
    shape: _Cell,
    prompts: Sequence[tuple[int, str]],
    widest: int,
    notes: list[str],
) -> Side:
    totals = Totals(*(np.zeros(shape) for _ in Totals._fields))
    served, time = np.zeros(shape), np.zeros(shape)
    positions = {prompt: position for position, prompt in enumerate(prompts)}
    prompt_seconds, prompt_tokens = (np.zeros((*shape[:2], len(prompts))) for _ in range(2))
    # Steps by their tokens: those that an answer's end may have cut off, and the others.
    full, last = (np.zeros((*shape[1:], widest + 2)) for _ in range(2))
    merged = tools = 0
    for record, cell in requests:
        time[cell] += record.end
        served[cell] += (record.output_tokens or 0) if record.succeeded else 0
        tools += record.succeeded and record.tools
        if not _shows(record):
            continue
        (begin, first), *steps = record.chunks
        sizes = [tokens for _, tokens in steps]
        if drafts and max(sizes) > drafts + 1:
            merged += 1
            continue
        tokens, seconds = sum(sizes), steps[-1][0] - begin
        # A server may hold back half of a character, so a chunk of a baseline can be two steps.
        count = len(sizes) if drafts else tokens
        amounts = (seconds, count, tokens, 1, tokens + first, record.end - seconds)
        for total, amount in zip(totals, amounts, strict=True):
            total[cell] += amount
        if record.prompt:
            sending = (*cell[:2], positions[cell[2], record.prompt])
            prompt_seconds[sending] += record.end
            prompt_tokens[sending] += tokens + first
        if drafts:
            last[(*cell[1:], sizes[-1])] += 1
            for size in sizes[:-1]:
                full[(*cell[1:], size)] += 1
    if merged:
        notes.append(
            f"{wording.count(merged, 'answer')} of {name} had steps with more than {drafts + 1} "
            "tokens, which are several in one chunk. They are left out."
        )
    if tools:
        notes.append(
            f"{wording.count(tools, 'answer')} of {name} could call tools. Their chunks are no "
            "steps, so they are left out."
        )
    # How many steps have at least so many tokens.
    at_least, last_at_least = (
        sizes[..., ::-1].cumsum(axis=-1)[..., ::-1] for sizes in (full, last)
    )
    # A step of j tokens or more reached draft j, unless it was cut off there.
    reached = at_least[..., 1:-1] + last_at_least[..., 2:]
    reached[..., drafts:] = 0  # a step of all drafts and one token more
    accepted = at_least[..., 2:] + last_at_least[..., 2:]
    return Side(totals, served, time, prompt_seconds, prompt_tokens, reached, accepted)


def acceptances(observed: Observed, lines: Iterable[Series]) -> Iterator[Acceptance]:
    """The acceptance of each line on each class that it has."""
    for series in lines:
        sides = [observed.sides[name] for _, name in series.variants]
        for number, prompt_class in enumerate(observed.classes):
            reached, accepted = (
                np.sum([getattr(side, field)[:, number] for side in sides], axis=0)
                for field in ("reached", "accepted")
            )
            positions = tuple(
                Position(
                    number,
                    int(trials.sum()),
                    float(successes.sum() / trials.sum()),
                    _share_interval(trials, successes),
                )
                for number, (trials, successes) in enumerate(
                    zip(reached.T, accepted.T, strict=True), start=1
                )
                if trials.sum() > 0
            )
            if positions:
                yield Acceptance(series.name, prompt_class, positions)


def _share_interval(trials: Array, successes: Array) -> tuple[float, float] | None:
    """Korn's and Graubard's interval of a share (Survey Methodology 24, 1998), by rounds.

    Clopper's and Pearson's, for as many independent steps as have the scatter of the rounds, less
    what is not known of that scatter. It has width where all drafts were accepted, too.
    """
    rounds, total = len(trials), trials.sum()
    if rounds < FEWEST_ROUNDS or np.count_nonzero(trials) < FEWEST_ROUNDS:
        return None
    share = successes.sum() / total
    excess = successes - share * trials
    scatter = rounds / (rounds - 1) * (excess**2).sum() / total**2
    sureness = stdtrit(total, 1 - ALPHA / 2) / stdtrit(rounds - 1, 1 - ALPHA / 2)
    independent = share * (1 - share) / scatter if scatter > 0 else total
    worth = min(total, independent) * sureness**2
    return clopper_pearson(float(share), float(worth), ALPHA)


def step_costs(observed: Observed, lines: Iterable[Series]) -> Iterator[StepCost]:
    """Each line's cost at each load, over all classes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = {
            name: side.totals.seconds.sum(axis=(1, 2)) / side.totals.steps.sum(axis=(1, 2))
            for name, side in observed.sides.items()
        }
    for series in lines:
        for load, point in enumerate(observed.loads):
            baseline = float(means[series.baseline][load])
            seconds = [(window, float(means[name][load])) for window, name in series.variants]
            measured = tuple((window, step) for window, step in seconds if np.isfinite(step))
            if measured and np.isfinite(baseline):
                yield StepCost(series.name, point, baseline, measured)
