"""How often a variant gives its baseline's greedy answer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from spectap.analysis.summary import Sameness
from spectap.answer import CheckedAnswer
from spectap.answers.checked import last_attempts
from spectap.config import Config
from spectap.names import WARM_UP


def sameness(config: Config, answers: Sequence[CheckedAnswer]) -> tuple[Sameness, ...]:
    """How often each compared variant gives its baseline's answer, by test case.

    Empty where answers are drawn, not greedy: then there is no such answer.
    """
    measured = (answer for answer in answers if answer.round > WARM_UP)
    last = last_attempts(measured, apart=config.apart)
    counted = [answer for answer in last if answer.same is not None]
    found = []
    for case in config.test_cases:
        for variant in config.variants:
            own = [one for one in counted if (one.case, one.variant) == (case.name, variant.name)]
            if own and variant.baseline:
                found.append(_sameness(case.name, variant.name, variant.baseline, own))
    return tuple(found)


def _sameness(case: str, variant: str, baseline: str, answers: Sequence[CheckedAnswer]) -> Sameness:
    parts = [answer.parts_at for answer in answers if answer.parts_at is not None]
    same, count = sum(bool(answer.same) for answer in answers), len(answers)
    median = statistics.median(parts) if parts else None
    said = f"{variant} gives {baseline}'s answer {same:,} times in {count:,}"
    if median is not None:
        said += (
            f"; {'the other parts' if len(parts) == 1 else 'the others part'} from it at word "
            f"{median:,.0f}{' in the median' if len(parts) > 1 else ''}"
        )
    if same < count:
        said += ". Equal text is not promised (vllm-project/vllm #7627)"
    return Sameness(case, variant, baseline, count, same, median, f"{said}.")
