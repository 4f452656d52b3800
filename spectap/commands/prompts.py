"""``prompts``: writes what a variant that runs as a job is still to generate.

Its input is the environment: BENCHMARK_CONFIG, RUN_ID and RESULTS_DIR as ``run`` has them, and
JOB_COMPLETION_INDEX (which variant: its number in the configuration, from 0). What is left goes to
RESULTS_DIR/RUN_ID/variants/NAME-SERVED/generate.jsonl, one prompt a line: warm-up and control, the
rounds of all test cases, a control. What the bucket has of the variant is not generated again, and
where that is all, the file is empty. How long a prompt is, only its tokenizer can tell: what
generates refuses those that are too long.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson

from spectap import wording
from spectap.commands import execution
from spectap.commands.alone import Alone
from spectap.names import EXCHANGED, GENERATE
from spectap.offline import intake
from spectap.offline.generation import Asked
from spectap.offline.left import Left
from spectap.offline.requests import asked
from spectap.prompt import Prompt
from spectap.run import prompts as prompt_sets
from spectap.run.folder import prepare, writing


def options(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: a pod is told what to do by its environment."""


def main(arguments: argparse.Namespace) -> int:
    """Writes the file; returns the exit status.

    Raises ConfigError, RunError, JournalError and BucketError.
    """
    alone = Alone.told(offline=True)
    alone.begin()
    with execution.ending_at_once(), writing(alone.folder):
        lines = [] if alone.complete else _left(alone)
        for name in EXCHANGED:
            (alone.folder / name).unlink(missing_ok=True)
        _write(alone.folder / GENERATE, lines)
    print(f"{alone.variant.name}: {wording.count(len(lines), 'prompt')} to generate")
    return 0


def named(alone: Alone) -> Mapping[str, Sequence[Prompt]]:
    """The prompts of each test case that has a set, by its name. Raises RunError."""
    with execution.prompt_files(alone.config, alone.beside) as files:
        return asyncio.run(prompt_sets.prepare(alone.config, files, alone.folder))


def _left(alone: Alone) -> list[Asked]:
    """What an earlier start in this folder has generated is taken first."""
    prepare(alone.folder, alone.config)
    prompts = named(alone)
    records = intake.take(alone.config, alone.folder, prompts)
    return list(asked(alone.config, prompts, Left(alone.config, records).parts))


def _write(path: Path, lines: Iterable[Asked]) -> None:
    """Whole or not at all."""
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        for line in lines:
            file.write(orjson.dumps(line._asdict(), option=orjson.OPT_APPEND_NEWLINE))
    draft.replace(path)
