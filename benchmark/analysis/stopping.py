"""When a test case has been measured often enough.

A run whose rounds are a range looks at its figures several times. Each look could err, so each may
spend only its part of the 5 %: the parts add up to it, and so does the chance that any look errs,
however the looks depend on each other (Boole's inequality). That spending is the simplest of
those that Lan and DeMets describe (Discrete sequential boundaries for clinical trials, Biometrika
70, 1983), and the intervals are repeated confidence intervals (Jennison and Turnbull, Interim
analyses: the repeated confidence interval approach, J. R. Statist. Soc. B 51, 1989).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from benchmark.analysis import claims
from benchmark.analysis.claims import Contrast, Question
from benchmark.analysis.estimate import ALPHA
from benchmark.analysis.summary import TOLERATED_FAILURES
from benchmark.config import Config, Load
from benchmark.record import Record
from benchmark.rounds import Rounds

# From one look to the next. Closer looks spend more alpha; looks further apart measure longer than
# they need to.
_STRIDE: Final = 1.4


def looks(rounds: Rounds) -> tuple[int, ...]:
    """The rounds after which the figures are looked at; the last of them is ``at_most``."""
    between = math.ceil(math.log(rounds.at_most / rounds.at_least) / math.log(_STRIDE))
    ratio = (rounds.at_most / rounds.at_least) ** (1 / max(1, between))
    found = (round(rounds.at_least * ratio**look) for look in range(between + 1))
    return tuple(dict.fromkeys(found))


def alpha(load: Load | None) -> float:
    """What one look may spend: the level of every interval and test. Without a load: all of it."""
    return ALPHA / len(looks(load.rounds)) if load else ALPHA


def last_rounds(config: Config, records: Sequence[Record]) -> Mapping[str, int]:
    """The last round of each test case, by its name, as far as these records decide it.

    That is ``at_most`` for a test case that needs more. One that has enough ends for good, whatever
    later looks find in others.
    """
    rounds = config.load.rounds
    last = {case.name: rounds.at_most for case in config.test_cases}
    if rounds.fixed:
        return last
    cells = claims.by_cell(records)
    for look in looks(rounds)[:-1]:
        until = {name: min(look, last[name]) for name in last}
        seen = {
            (name, variant): [record for record in own if 0 < record.round <= until[name]]
            for (name, variant), own in cells.items()
            if name in until
        }
        for name in _enough(config, seen, until):
            last[name] = until[name]
    return last


def measured_rounds(config: Config, records: Sequence[Record]) -> Mapping[str, int]:
    """The rounds of each test case that a summary rests on: to the last, and any whole ones beyond.

    There are some beyond where a turn was measured again after the run had looked at it.
    """
    cells, last = claims.by_cell(records), dict(last_rounds(config, records))
    for case in last:
        sides = [cells.get((case, variant.name), ()) for variant in config.variants]
        while last[case] < config.load.rounds.at_most and not any(
            missing(side, config.load.requests, last[case] + 1) for side in sides
        ):
            last[case] += 1
    return last


def missing(records: Sequence[Record], requests: int, rounds: int) -> int:
    """How many of ``requests`` in each of ``rounds`` were not recorded."""
    counts = [0] * (rounds + 1)
    for record in records:
        if 0 < record.round <= rounds:
            counts[record.round] += 1
    return sum(max(0, requests - count) for count in counts[1:])


def _enough(
    config: Config, cells: Mapping[tuple[str, str], Sequence[Record]], rounds: Mapping[str, int]
) -> list[str]:
    """The test cases of which each question is decided, or precise enough."""
    requests, level = config.load.requests, alpha(config.load)
    pairs = [(one.name, one.baseline) for one in config.variants if one.baseline is not None]
    found: dict[tuple[str, str], Contrast] = {}
    for case, until in rounds.items():
        for variant, baseline in pairs:
            own, other = cells.get((case, variant), ()), cells.get((case, baseline), ())
            if all(_sound(side, requests, until) for side in (own, other)):
                found[case, variant] = claims.contrast(own, other)
    family = claims.decide(found, level, len(rounds) * len(pairs))

    def enough(case: str, variant: str) -> bool:
        answers = found[case, variant].answers if (case, variant) in found else {}
        return Question.SPEED in answers and all(
            (case, variant, question) in family.decided
            or answer.half_width(level) <= (config.load.rounds.half_width or 0)
            for question, answer in answers.items()
        )

    return [case for case in rounds if pairs and all(enough(case, variant) for variant, _ in pairs)]


def _sound(records: Sequence[Record], requests: int, rounds: int) -> bool:
    """Whether the summary would compare them: nothing is missing, and not too many failed."""
    failed = sum(not record.succeeded for record in records)
    return not missing(records, requests, rounds) and failed <= TOLERATED_FAILURES * len(records)
