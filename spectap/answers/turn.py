"""The answers of one turn, as the lines that ``answers.jsonl`` gets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from spectap import journal
from spectap.answer import Answer, CheckedAnswer
from spectap.answers.checks import check
from spectap.answers.comparison import digest, parts_at, words
from spectap.config import Config
from spectap.prompt import Prompt

_ANSWER: Final = TypeAdapter(Answer)


def read_answers(path: Path) -> list[Answer]:
    """What the driver wrote of a turn; none if there is no file. Raises OSError, JournalError."""
    return list(journal.read(path, _ANSWER))


def checked(
    config: Config,
    answers: Mapping[str, Sequence[Answer]],
    prompts: Sequence[Prompt],
    *,
    case: str,
    load: str,
    round: int,
    attempt: int,
) -> list[CheckedAnswer]:
    """Checks the answers of a turn, and compares each with the baseline's to the same prompt.

    ``answers`` by variant, of ``prompts``. They are compared at temperature 0 alone: above it, two
    answers of one server differ, too. Where a prompt was sent several times, the first answer is
    compared with the baseline's first, and so on.
    """
    named = {prompt.name: prompt for prompt in prompts}
    greedy = config.load.sampling.get("temperature") == 0
    lines = []
    for variant in config.variants:
        others = answers.get(variant.baseline, ()) if variant.baseline and greedy else ()
        for answer, other in _beside(answers.get(variant.name, ()), others):
            prompt = named[answer.prompt]
            valid, problem = check(prompt, answer)
            parts = parts_at(answer, other) if other else None
            lines.append(
                CheckedAnswer(
                    variant=variant.name,
                    case=case,
                    load=load,
                    round=round,
                    attempt=attempt,
                    prompt=answer.prompt,
                    digest=digest(answer),
                    finish=answer.finish,
                    form=prompt.form,
                    valid=valid,
                    problem=problem,
                    same=parts is None if other else None,
                    parts_at=parts,
                    words=len(words(answer)),
                    answer=answer if config.keep_answers else None,
                )
            )
    return lines


def _beside(
    answers: Sequence[Answer], others: Sequence[Answer]
) -> Iterator[tuple[Answer, Answer | None]]:
    """Each answer with the other side's to the same prompt; None where that has no more."""
    left: defaultdict[str, list[Answer]] = defaultdict(list)
    for other in reversed(others):
        left[other.prompt].append(other)
    for answer in answers:
        yield answer, left[answer.prompt].pop() if left[answer.prompt] else None
