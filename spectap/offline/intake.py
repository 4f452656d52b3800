"""Turns what a job generated into what every run has: its ledger, and its answers, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from spectap.answer import Answer, CheckedAnswer
from spectap.answers.checked import read_checked
from spectap.answers.turn import checked
from spectap.config import Config
from spectap.journal import Journal
from spectap.ledger import read_ledger
from spectap.names import ANSWERS, LEDGER, WARM_UP
from spectap.offline import generation
from spectap.offline.generation import Generated
from spectap.prompt import Prompt
from spectap.record import Record

_Turn = tuple[int, str, str, int]
"""Round, test case, load point, attempt."""


def take(config: Config, folder: Path, prompts: Mapping[str, Sequence[Prompt]]) -> list[Record]:
    """Adds what was generated since the last time; returns the whole ledger.

    ``config`` has the one variant whose ``folder`` this is, ``prompts`` are those of test cases
    that have a set. A generation is in the ledger once, however often it is taken: no two of a
    variant begin at the same time. Equal generations make equal bytes. Raises OSError and
    JournalError.
    """
    records = read_ledger(folder / LEDGER)
    there = {(_turn(record), record.sent) for record in records}
    sent = Counter(map(_turn, records))
    whole = Counter(_turn(record) for record in records if record.succeeded)
    answered = Counter(map(_turn, read_checked(folder / ANSWERS)))
    with Journal(folder / ANSWERS) as answers, Journal(folder / LEDGER) as ledger:
        for one in generation.read(folder):
            turn = _turn(one)
            if (turn, one.sent) in there:
                continue
            record = _record(config, folder.name, one, sent[turn] + 1)
            if record.succeeded and one.round > WARM_UP and answered[turn] <= whole[turn]:
                # Before the record: whoever goes on after a kill in between finds the answer.
                answers.append(_answer(config, one, prompts.get(one.case, ()), sent[turn] + 1))
                answers.flush()
                answered[turn] += 1
            ledger.append(record)
            records.append(record)
            sent[turn] += 1
            whole[turn] += record.succeeded
    return records


def _record(config: Config, run: str, one: Generated, number: int) -> Record:
    """The generation as a request of the ledger; ``number`` is its place in the turn, from 1."""
    problem = one.problem
    return Record(
        run=run,
        variant=config.variants[0].name,
        case=one.case,
        round=one.round,
        request=f"{one.case}-{one.load}-{one.round}-{one.attempt}-{number}",
        sent=one.sent,
        status=None if problem else 200,
        error=problem,
        prompt_tokens=one.prompt_tokens,
        output_tokens=None if problem else one.output_tokens,
        stream=True,
        per_chunk=True,
        chunks=one.steps,
        end=one.end,
        attempt=one.attempt,
        load=one.load,
        prompt=one.prompt,
        prompt_class=one.prompt_class,
    )


def _answer(
    config: Config, one: Generated, prompts: Sequence[Prompt], number: int
) -> CheckedAnswer:
    """What is kept of the answer. A prompt without a name is called by its place in the turn."""
    name = one.prompt or f"prompt-{number}"
    unnamed = Prompt(name=name, messages=({},))
    prompt = next((prompt for prompt in prompts if prompt.name == name), unnamed)
    (found,) = checked(
        config,
        {config.variants[0].name: [Answer(name, one.text, (), one.finish)]},
        [prompt],
        case=one.case,
        load=one.load,
        round=one.round,
        attempt=one.attempt,
    )
    return found


def _turn(one: Generated | Record | CheckedAnswer) -> _Turn:
    return one.round, one.case, one.load, one.attempt
