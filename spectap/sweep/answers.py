"""Compares the answers of variants that were measured apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from spectap.answer import CheckedAnswer, parts_at
from spectap.ledger import last_attempts

_Place = tuple[str, str, int, str]


def compared(
    own: Sequence[CheckedAnswer], baseline: Sequence[CheckedAnswer]
) -> Iterator[CheckedAnswer]:
    """A variant's answers, each with whether it is the baseline's to the same prompt.

    Both sides are of last attempts, in whose turns the prompts are the same. Where a prompt was
    sent several times, the first answer is compared with the first, and so on. In which word two
    answers part is known only where their texts were kept. Without texts, calls of tools that
    differ in nothing but the order of their arguments count as different.
    """
    others = defaultdict(list)
    for other in reversed(last_attempts(baseline)):
        others[_place(other)].append(other)
    counted = {id(answer) for answer in last_attempts(own)}
    for answer in own:
        if id(answer) in counted and others[_place(answer)]:
            yield _beside(answer, others[_place(answer)].pop())
        else:
            yield answer


def _beside(own: CheckedAnswer, other: CheckedAnswer) -> CheckedAnswer:
    if own.answer is None or other.answer is None:
        return replace(own, same=own.digest == other.digest)
    parts = parts_at(own.answer, other.answer)
    return replace(own, same=parts is None, parts_at=parts)


def _place(answer: CheckedAnswer) -> _Place:
    return answer.case, answer.load, answer.round, answer.prompt
