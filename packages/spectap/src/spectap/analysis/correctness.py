"""Compares a variant's answers with its baseline's answers to the same prompts."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from spectap.analysis.claims import holm
from spectap.analysis.proportions import Paired, bounds
from spectap.analysis.summary import Correctness
from spectap.inputs.config import Config, Variant
from spectap.inputs.prompt import Form
from spectap.names import WARM_UP
from spectap.records.answer import CheckedAnswer
from spectap.records.ledger import last_attempts

ALPHA: Final = 0.025
"""The chance that a report calls any variant worse whose answers are as good."""

_NAMED: Final = 5
ENDS: Final = "ends of answers"
NUMBERS: Final = "final numbers"
_CHECKS: Final = {
    Form.TOOL_CALL: "tool calls",
    Form.JSON: "JSON answers",
    Form.CODE: "programs",
    Form.NUMBER: NUMBERS,
    None: ENDS,
}
"""The check for each form of answers. None is for all answers: whether they end."""

_Right = Mapping[str, Sequence[bool]]
"""For each prompt, whether each of its answers is right."""


def correctness(config: Config, answers: Sequence[CheckedAnswer]) -> tuple[Correctness, ...]:
    """Makes each check of each compared variant: one for each form of answers.

    Load points and rounds are pooled. Where an answer was cut off or is missing, the other side's
    answer is left out too; whether answers end by themselves is a check of its own. Holm's
    correction judges all checks together.
    """
    checks = [*_of_answers(config, answers)]
    # Those that differ in too few prompts to accuse anybody cost the others nothing (Tarone,
    # Biometrics 46, 1990): the test is exact, given how many differ.
    p_values = {
        number: pair.p
        for number, (_, pair) in enumerate(checks)
        if 0.5 ** (pair.lost + pair.won) <= ALPHA
    }
    family = holm(p_values, ALPHA, len(p_values))
    return tuple(
        replace(
            check,
            worse=number in family.decided,
            blind=0.5 ** sum(share > 0 for share in pair.baseline) > family.level,
        )
        for number, (check, pair) in enumerate(checks)
    )


def _of_answers(
    config: Config, answers: Iterable[CheckedAnswer]
) -> Iterator[tuple[Correctness, Paired]]:
    by_side = defaultdict(list)
    measured = (answer for answer in answers if answer.round > WARM_UP)
    for answer in last_attempts(measured, isolated=config.isolated):
        for form in {answer.form, None}:
            by_side[answer.case, answer.variant, form].append(answer)
    for case in config.test_cases:
        for variant in config.variants:
            for form, check in _CHECKS.items():
                of_variant = by_side[case.name, variant.name, form]
                of_baseline = by_side[case.name, variant.baseline or "", form]
                # Where the baseline's never end, as in a run of a fixed length, there is no fall.
                worth = of_baseline if form else any(map(_ends, of_baseline))
                if not (variant.baseline and of_variant and worth):
                    continue
                passes = attrgetter("valid") if form else _ends
                sides: list[dict[str, list[bool]]] = [defaultdict(list), defaultdict(list)]
                for pair in _checked_pairs(of_variant, of_baseline, passes):
                    for side, answer in zip(sides, pair, strict=True):
                        side[answer.prompt].append(bool(passes(answer)))
                left_out = (_unchecked(of_variant), _unchecked(of_baseline)) if form else (0, 0)
                yield _check(variant, *sides, test_case=case.name, check=check, left_out=left_out)


def _ends(answer: CheckedAnswer) -> bool | None:
    """Whether it ended by itself; None where the server did not say."""
    return answer.finish != "length" if answer.finish else None


def _checked_pairs(
    of_variant: Sequence[CheckedAnswer],
    of_baseline: Sequence[CheckedAnswer],
    passes: Callable[[CheckedAnswer], bool | None],
) -> Iterator[tuple[CheckedAnswer, CheckedAnswer]]:
    """Pairs of answers to one prompt in one turn, where both could be checked."""

    def turn(answer: CheckedAnswer) -> tuple[str, int, str]:
        return answer.load, answer.round, answer.prompt

    turns = defaultdict(list)
    for answer in of_baseline:
        turns[turn(answer)].append(answer)
    for answer in of_variant:
        if unpaired := turns[turn(answer)]:
            pair = answer, unpaired.pop(0)
            if all(passes(side) is not None for side in pair):
                yield pair


def _unchecked(answers: Iterable[CheckedAnswer]) -> int:
    return sum(answer.valid is None for answer in answers)


def _check(
    variant: Variant, of_variant: _Right, of_baseline: _Right, **fields: Any
) -> tuple[Correctness, Paired]:
    """One check and its paired shares of right answers, before all checks are judged together. Both
    sides have the same prompts, with as many answers to each."""
    sides = of_variant, of_baseline
    pair = Paired(*([statistics.fmean(right) for right in side.values()] for side in sides))
    rate, baseline_rate = pair.rates
    more = {name: sum(of_baseline[name]) - sum(of_variant[name]) for name in of_variant}
    lost = sorted((name for name in more if more[name] > 0), key=lambda name: (-more[name], name))
    check = Correctness(
        **fields,
        variant=variant.name,
        baseline=variant.baseline or "",
        prompts=pair.prompts,
        rate=rate,
        rate_interval=bounds(pair.variant),
        baseline_rate=baseline_rate,
        baseline_interval=bounds(pair.baseline),
        difference=rate - baseline_rate,
        difference_interval=pair.interval(),
        worse=False,
        only_baseline=tuple(lost[:_NAMED]),
        lost=pair.lost,
        won=pair.won,
        blind=False,
    )
    return check, pair
