"""Decides when a test case has been measured often enough at a load point.

A run whose rounds are a range looks at its figures several times. Each look spends a part of the 5
%, so the chance that any look errs is at most 5 % (Lan and DeMets, Biometrika 70, 1983).
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
"""The factor between the rounds of two looks. Looks that are closer spend more alpha; looks further
apart measure longer than needed."""


def looks(rounds: Rounds) -> tuple[int, ...]:
    """The rounds after which the figures are looked at; the last of them is ``at_most``."""
    between = math.ceil(math.log(rounds.at_most / rounds.at_least) / math.log(_STRIDE))
    ratio = (rounds.at_most / rounds.at_least) ** (1 / max(1, between))
    rounds_of_looks = (round(rounds.at_least * ratio**look) for look in range(between + 1))
    return tuple(dict.fromkeys(rounds_of_looks))


def alpha(load: Load | None, *, early: bool = False) -> float:
    """The alpha that one look may spend on each interval and test; all of it without a load.

    ``early``: the run ended before its last round. Somebody may then have looked after each round,
    even in a run of a fixed number.
    """
    if load is None:
        return ALPHA
    return ALPHA_EARLY if early and load.rounds.fixed else ALPHA / len(looks(load.rounds))


def last_rounds(config: Config, records: Sequence[Record]) -> Mapping[CasePoint, int]:
    """The last round of each test case at each load point, as far as these records decide it.

    The records must name their load points. The value is ``at_most`` where more rounds are needed.
    A test case that has enough ends for good, whatever later looks find in others.
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
    """The rounds that a summary rests on: those of ``last_rounds``, and complete ones beyond.

    Rounds beyond exist where a turn was measured again after the run had looked at it.
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
    """Limits ``needed`` to the last round of which any variant has a request.

    A run that ended early, as by Ctrl-C, measured all variants alike until then. A point without
    any request keeps its rounds: it was not measured at all.
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
    """The number of missing records, with ``requests`` expected in each of ``rounds``."""
    counts = Counter(record.round for record in records)
    return sum(max(0, requests - counts[number]) for number in range(1, rounds + 1))


def _enough(config: Config, cells: Cells, rounds: Mapping[CasePoint, int]) -> list[CasePoint]:
    """The test cases and loads at which each question is decided, or known precisely enough."""
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
