"""Makes one run of the variants that were measured apart, each in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson
from pydantic import TypeAdapter, ValidationError

from spectap import config as configuration
from spectap import wording
from spectap.answer import read_checked
from spectap.config import Config
from spectap.endpoint import counters
from spectap.endpoint.counters import COUNTERS
from spectap.errors import MergeError, problems
from spectap.ledger import read_ledger, whole_controls
from spectap.names import (
    ANSWERS,
    COMPLETE,
    CONFIG,
    CONTROL,
    INFERENCE_DEMO,
    INFERENCE_DEMO_LOG,
    INFERENCE_DEMOS,
    LEDGER,
    LLMPERF,
    PROMPTS,
    SWEEP,
)
from spectap.prompt import UsedSet
from spectap.record import Record
from spectap.sweep import merged, part
from spectap.sweep.answers import compared
from spectap.sweep.merged import Merged

_SETS: Final = TypeAdapter(tuple[UsedSet, ...])
_INCOMPLETE: Final = "its results are not complete"


def merge(folder: Path) -> Merged:
    """Puts the complete variants in ``folder`` into one run, which takes the place of an earlier.

    A variant is complete with its ``_COMPLETE``. One whose baseline is not complete is left out:
    there is nothing to compare it with. The run is as the benchmark leaves any, so that all that
    reads runs reads it. Equal variants make equal bytes. Where no variant can be in it, only
    ``merged.json`` is written. Raises ConfigError, JournalError and MergeError.
    """
    if not (folder / SWEEP).exists():
        raise MergeError(f"{folder}: is not the folder of a sweep or of jobs: it has no {SWEEP}")
    whole = configuration.read(folder / SWEEP)
    missing = _missing(folder, whole)
    config = _part(whole, missing)
    try:
        notes: Sequence[str] = ()
        if config is not None:
            for variant in config.names:
                _check(folder, config, variant)
            notes = [*_notes_on_prompts(folder, config), *_notes_on_settings(folder, config)]
            _write(folder, config)
        found = Merged(config.names if config else (), missing, tuple(notes))
        merged.write(folder, found)
    except OSError as error:
        raise MergeError(f"{error.filename or folder}: {error.strerror}") from None
    return found


def _missing(folder: Path, whole: Config) -> dict[str, str]:
    """Why a variant cannot be in the run, for each that cannot."""
    there = {name for name in whole.names if (part.folder(folder, whole, name) / COMPLETE).exists()}
    reasons = {
        one.name: _INCOMPLETE
        if one.name not in there
        else f"the results of {one.baseline}, which it is compared with, are not complete"
        for one in whole.variants
        if not {one.name, one.baseline or one.name} <= there
    }
    return reasons


def _part(whole: Config, missing: Mapping[str, str]) -> Config | None:
    """The configuration of those that are not missing; None of none."""
    kept = tuple(variant for variant in whole.variants if variant.name not in missing)
    return whole.model_copy(update={"variants": kept}) if kept else None


def _check(folder: Path, config: Config, variant: str) -> None:
    """Raises MergeError if the variant was measured by another configuration than the rest.

    What decides nothing of what is measured may differ: it is taken from the ``config``.
    """
    path = part.folder(folder, config, variant) / CONFIG
    found, expected = configuration.read(path), part.of(config, variant)
    if changed := configuration.differences(found, expected):
        raise MergeError(
            f"{path}: {', '.join(changed)}: differs from {folder / SWEEP}, so that it cannot be "
            "compared with the others"
        )


def _write(folder: Path, config: Config) -> None:
    """Raises OSError and JournalError."""
    variants = [*config.names]
    _journal(folder / LEDGER, (r for name in variants for r in _records(folder, config, name)))
    counts = (
        one
        for name in variants
        for one in counters.read(part.folder(folder, config, name) / COUNTERS)
    )
    _journal(folder / COUNTERS, counts)
    _journal(folder / ANSWERS, _answers(folder, config))
    if (prompts := part.folder(folder, config, variants[0]) / PROMPTS).exists():
        _replace(folder / PROMPTS, [prompts.read_bytes()])
    shutil.rmtree(folder / LLMPERF, ignore_errors=True)
    for name in variants:
        if (files := part.folder(folder, config, name) / LLMPERF).is_dir():
            shutil.copytree(files, folder / LLMPERF, dirs_exist_ok=True)
    shutil.rmtree(folder / INFERENCE_DEMOS, ignore_errors=True)
    for name in variants:
        for file_name in (INFERENCE_DEMO, INFERENCE_DEMO_LOG):
            if (file := part.folder(folder, config, name) / file_name).exists():
                (folder / INFERENCE_DEMOS).mkdir(exist_ok=True)
                copy = folder / INFERENCE_DEMOS / f"{name}{file.suffix}"
                _replace(copy, [file.read_bytes()])
    # Last, because a folder with this file is a run's.
    _replace(folder / CONFIG, [configuration.dump(config).encode()])


def _records(folder: Path, config: Config, variant: str) -> Iterator[Record]:
    """A variant's requests, as those of the whole run; of controls, only whole ones."""
    records = read_ledger(part.folder(folder, config, variant) / LEDGER)
    whole = whole_controls(records, part.of(config, variant))
    for record in records:
        if record.round != CONTROL or record.attempt in whole:
            yield replace(record, run=folder.name)


def _answers(folder: Path, config: Config) -> Iterator[object]:
    greedy = config.load.sampling.get("temperature") == 0
    answers = {
        name: read_checked(part.folder(folder, config, name) / ANSWERS) for name in config.names
    }
    for variant in config.variants:
        others = answers[variant.baseline] if variant.baseline and greedy else ()
        yield from compared(answers[variant.name], others)


def _notes_on_prompts(folder: Path, config: Config) -> Iterator[str]:
    """Where variants were not sent the same prompts of a set. Raises MergeError for another set."""
    first, *others = config.names
    expected = _sets(folder, config, first)
    for name in others:
        found = _sets(folder, config, name)
        if {case: one.digest for case, one in found.items()} != {
            case: one.digest for case, one in expected.items()
        }:
            raise MergeError(
                f"{part.folder(folder, config, name) / PROMPTS}: other prompts than {first} was "
                "sent, so that it cannot be compared with the others"
            )
        for case, one in found.items():
            if {left.name for left in one.left_out} != {
                left.name for left in expected[case].left_out
            }:
                yield (
                    f"{name} was sent {one.used} prompts of {case}, {first} {expected[case].used}: "
                    "the services took different ones."
                )


def _notes_on_settings(folder: Path, config: Config) -> Iterator[str]:
    """Where variants were measured with other settings than the report prints."""
    others: dict[tuple[str, str], list[str]] = {}
    for variant in config.names:
        path = part.folder(folder, config, variant) / CONFIG
        own = configuration.read(path).settings
        for setting, now in config.settings.items():
            if own.get(setting, now) != now:
                others.setdefault((setting, own[setting]), []).append(variant)
    for (setting, value), variants in others.items():
        yield f"{wording.listed(variants)} had another {setting} than this run says: {value}."


def _sets(folder: Path, config: Config, variant: str) -> dict[str, UsedSet]:
    path = part.folder(folder, config, variant) / PROMPTS
    try:
        sets = _SETS.validate_json(path.read_bytes()) if path.exists() else ()
    except ValidationError as error:
        raise MergeError(f"{path}: {next(problems(error))}") from None
    return {used.case: used for used in sets}


def _journal(path: Path, lines: Iterable[object]) -> None:
    _replace(path, (orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))


def _replace(path: Path, content: Iterable[bytes]) -> None:
    """Writes the file whole or not at all. Raises OSError."""
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("wb") as file:
        file.writelines(content)
    draft.replace(path)
