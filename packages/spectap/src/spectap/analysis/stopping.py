"""When a test case has been measured often enough at a load point.

A run whose rounds are a range looks at its figures several times. Each look may spend its part of
the 5 %, so the chance that any errs is at most that (Lan and DeMets, Biometrika 70, 1983).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from spectap.analysis import claims, contrasts, grouping
from spectap.analysis.contrasts import Contrast, Question
from spectap.analysis.estimate import ALPHA, ALPHA_EARLY, MARGIN
from spectap.analysis.grouping import CasePoint, CellKey, Cells
from spectap.analysis.summary import TOLERATED_FAILURES
from spectap.inputs.config import Config
from spectap.inputs.load_points import Load, Rounds
from spectap.records.record import Record

_STRIDE: Final = 1.4
"""From one look to the next: closer ones spend more alpha, others measure longer than needed."""


def looks(rounds: Rounds) -> tuple[int, ...]:
    """The rounds after which the figures are looked at; the last of them is ``at_most``."""
    between = math.ceil(math.log(rounds.at_most / rounds.at_least) / math.log(_STRIDE))
    ratio = (rounds.at_most / rounds.at_least) ** (1 / max(1, between))
    rounds_of_looks = (round(rounds.at_least * ratio**look) for look in range(between + 1))
    return tuple(dict.fromkeys(rounds_of_looks))


def alpha(load: Load | None, *, early: bool = False) -> float:
    """The alpha that one look may spend, for every interval and test. Without a load: all of it.

    ``early``: whether the run ended before its last round. One of a fixed number may have been
    looked at after each of them.
    """
    if load is None:
        return ALPHA
    return ALPHA_EARLY if early and load.rounds.fixed else ALPHA / len(looks(load.rounds))


def last_rounds(config: Config, records: Sequence[Record]) -> Mapping[CasePoint, int]:
    """The last round of each test case at each load point, as far as these records decide it, which
    name their load points.

    In the order of the configuration; ``at_most`` for one that needs more. One that has enough ends
    for good, whatever later looks find in others.
    """
    rounds = config.load.rounds
    last = {
        (case.name, point.name): rounds.at_most
        for case in config.test_cases
        for point in config.load.points
    }
    if rounds.fixed:
        return last
    cells = grouping.by_cell(records)
    for look in looks(rounds)[:-1]:
        until = {case_point: min(look, last[case_point]) for case_point in last}
        by_now = {
            key: [record for record in of_cell if 0 < record.round <= until[key.point]]
            for key, of_cell in cells.items()
            if key.point in until
        }
        for case_point in _enough(config, by_now, until):
            last[case_point] = until[case_point]
    return last


def measured_rounds(config: Config, records: Sequence[Record]) -> Mapping[CasePoint, int]:
    """The rounds that a summary rests on: those of ``last_rounds``, and any whole ones beyond.

    There are some beyond where a turn was measured again after the run had looked at it.
    """
    last = dict(last_rounds(config, records))
    cells = {} if config.load.rounds.fixed else grouping.by_cell(records)
    for case_point in last:
        requests = config.load.point(case_point[1]).requests
        sides = [cells.get(CellKey(*case_point, variant.name), ()) for variant in config.variants]
        while last[case_point] < config.load.rounds.at_most and not any(
            missing(side, requests, last[case_point] + 1) for side in sides
        ):
            last[case_point] += 1
    return last


def begun_rounds(
    needed: Mapping[CasePoint, int], records: Iterable[Record]
) -> dict[CasePoint, int]:
    """``needed`` without the rounds after the last that any variant has a request of.

    A run that ended early, by Ctrl-C for one, measured all variants alike until then. A point
    without any request keeps its rounds: it was not measured at all.
    """
    last: dict[CasePoint, int] = {}
    for record in records:
        case_point = record.case, record.load
        last[case_point] = max(record.round, last.get(case_point, 0))
    return {
        case_point: min(rounds, last.get(case_point, rounds))
        for case_point, rounds in needed.items()
    }


def missing(records: Sequence[Record], requests: int, rounds: int) -> int:
    """How many of ``requests`` in each of ``rounds`` were not recorded."""
    counts = Counter(record.round for record in records)
    return sum(max(0, requests - counts[number]) for number in range(1, rounds + 1))


def _enough(config: Config, cells: Cells, rounds: Mapping[CasePoint, int]) -> list[CasePoint]:
    """Where each question is decided, or precise enough."""
    level = alpha(config.load)
    compared = {v.name: v.baseline for v in config.variants if v.baseline is not None}
    contrast_of: dict[CellKey, Contrast] = {}
    possible = 0
    for case_point, until in rounds.items():
        point = config.load.point(case_point[1])
        for variant, baseline in compared.items():
            key = CellKey(*case_point, variant)
            possible += len(contrasts.questions(point))
            sides = cells.get(key, ()), cells.get(key.for_variant(baseline), ())
            # As the summary compares them: nothing is missing, and not too many failed.
            if not any(
                missing(side, point.requests, until)
                or sum(not r.succeeded for r in side) > TOLERATED_FAILURES * len(side)
                for side in sides
            ):
                contrast_of[key] = contrasts.contrast(*sides, point=point)
    contrast_of = contrasts.pooled_over_cases(contrast_of)
    family = claims.decide(contrast_of, level, possible)

    def enough(key: CellKey) -> bool:
        answers = contrast_of[key].answers if key in contrast_of else {}
        return Question.SPEED in answers and all(
            (key, question) in family.decided or answer.half_width(level) <= MARGIN
            for question, answer in answers.items()
        )

    return [
        case_point
        for case_point in rounds
        if compared and all(enough(CellKey(*case_point, variant)) for variant in compared)
    ]
