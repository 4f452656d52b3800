"""Isolated variants: the run of each, and one run merged from them."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from spectap.endpoint import counters
from spectap.endpoint.counters import COUNTERS
from spectap.errors import RunError
from spectap.inputs import config as configuration
from spectap.inputs.config import Config, Variant
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
    MERGED,
    PROMPTS,
    SWEEP,
    VARIANTS,
)
from spectap.records import journal
from spectap.records.answer import CheckedAnswer
from spectap.records.journal import read_json, refuse_links, write_json, write_whole
from spectap.records.ledger import read_ledger, whole_controls
from spectap.records.record import Record
from spectap.run import prompts


def isolated(config: Config, variant: Variant) -> Config:
    """The configuration that measures this variant alone, with nothing to compare it with."""
    alone = variant.model_copy(update={"baseline": None})
    return config.model_copy(update={"variants": (alone,)})


def variant_folder(root: Path, variant: Variant) -> Path:
    """The folder of this variant's results, in the folder of the run."""
    return root / VARIANTS / variant.folder


@dataclass(frozen=True)
class Merged:
    """The variants that are in a merged run, and those that are not: its ``merged.json``."""

    complete: tuple[str, ...]
    """Names of the variants in the run."""
    missing: Mapping[str, str]
    """The reason why each of the others is missing, to follow "because"."""
    notes: tuple[str, ...] = ()
    """Caveats of the variants in the run, a sentence each."""

    @property
    def sentences(self) -> Iterator[str]:
        """The sentences that a reader of the run needs."""
        for name, reason in self.missing.items():
            yield f"{name} is not in this run, because {reason}."
        yield from self.notes


def read_merged(folder: Path) -> Merged | None:
    """Reads the parts of a merged run; None for another run. Raises JournalError."""
    return read_json(folder / MERGED, Merged)


def merge(folder: Path) -> Merged:
    """Merges the complete variants in ``folder`` into one run, which replaces an earlier one.

    A variant is complete when it has ``_COMPLETE``. It is left out if its baseline is not complete.
    The merged folder is like any other run's, and equal variants give equal bytes. If no variant
    can be in it, only ``merged.json`` is written. Raises ConfigError, JournalError and RunError.
    """
    if not (folder / SWEEP).exists():
        raise RunError(f"{folder}: is not the folder of a sweep or of jobs: it has no {SWEEP}")
    refuse_links(folder)
    sweep = configuration.read(folder / SWEEP)
    missing = _missing(folder, sweep)
    variants = tuple(variant for variant in sweep.variants if variant.name not in missing)
    config = sweep.model_copy(update={"variants": variants})
    try:
        notes: tuple[str, ...] = ()
        if variants:
            _check_configurations(folder, config)
            notes = tuple(_notes_on_prompts(folder, config))
            _write(folder, config)
        merged = Merged(config.names, missing, notes)
        write_json(folder / MERGED, merged)
    except OSError as error:
        raise RunError(f"{error.filename or folder}: {error.strerror}") from None
    return merged


def _missing(folder: Path, sweep: Config) -> dict[str, str]:
    """The reason why each variant that cannot be in the run is left out."""
    complete = {v.name for v in sweep.variants if (variant_folder(folder, v) / COMPLETE).exists()}
    reasons = {}
    for variant in sweep.variants:
        if variant.name not in complete:
            reasons[variant.name] = "its results are not complete"
        elif variant.baseline not in (None, *complete):
            reasons[variant.name] = (
                f"the results of {variant.baseline}, which it is compared with, are not complete"
            )
    return reasons


def _notes_on_prompts(folder: Path, config: Config) -> Iterator[str]:
    """Notes variants with other prompts of a set. Raises RunError for another set."""
    first, *others = config.variants
    expected = {used.case: used for used in prompts.read(variant_folder(folder, first))}
    for variant in others:
        path = variant_folder(folder, variant)
        sets = {used.case: used for used in prompts.read(path)}
        if {case: used.digest for case, used in sets.items()} != {
            case: used.digest for case, used in expected.items()
        }:
            raise RunError(
                f"{path / PROMPTS}: other prompts than {first.name} was sent, so that it cannot be "
                "compared with the others"
            )
        for case, used in sets.items():
            if {p.name for p in used.left_out} != {p.name for p in expected[case].left_out}:
                yield (
                    f"{variant.name} was sent {used.used} prompts of {case}, {first.name} "
                    f"{expected[case].used}: the services took different ones."
                )


def _check_configurations(folder: Path, config: Config) -> None:
    """Raises RunError for a variant that was measured with another configuration than the rest.
    Fields that change no measurement may differ."""
    for variant in config.variants:
        path = variant_folder(folder, variant) / CONFIG
        measured = configuration.read(path)
        if changed := configuration.differences(measured, isolated(config, variant)):
            raise RunError(
                f"{path}: {', '.join(changed)}: differs from {folder / SWEEP}, so that it cannot "
                "be compared with the others"
            )


def _write(folder: Path, config: Config) -> None:
    folders = {variant.name: variant_folder(folder, variant) for variant in config.variants}
    _journal(folder / LEDGER, (r for v in config.variants for r in _records(folder, config, v)))
    counts = (count for path in folders.values() for count in counters.read(path / COUNTERS))
    _journal(folder / COUNTERS, counts)
    answers = (a for path in folders.values() for a in journal.read(path / ANSWERS, CheckedAnswer))
    _journal(folder / ANSWERS, answers)
    if (used := folders[config.names[0]] / PROMPTS).exists():
        write_whole(folder / PROMPTS, [used.read_bytes()])
    for copies in (LLMPERF, INFERENCE_DEMOS):
        shutil.rmtree(folder / copies, ignore_errors=True)
    for name, path in folders.items():
        if (path / LLMPERF).is_dir():
            shutil.copytree(path / LLMPERF, folder / LLMPERF, dirs_exist_ok=True)
        for file in (path / INFERENCE_DEMO, path / INFERENCE_DEMO_LOG):
            if file.exists():
                (folder / INFERENCE_DEMOS).mkdir(exist_ok=True)
                shutil.copyfile(file, folder / INFERENCE_DEMOS / f"{name}{file.suffix}")
    # Last, because a folder with this file is a run's.
    write_whole(folder / CONFIG, [configuration.dump(config).encode()])


def _records(folder: Path, config: Config, variant: Variant) -> Iterator[Record]:
    """A variant's requests, as requests of the run; of its controls, only complete ones."""
    records = read_ledger(variant_folder(folder, variant) / LEDGER)
    controls = whole_controls(records, isolated(config, variant))
    for record in records:
        if record.round != CONTROL or record.attempt in controls:
            yield replace(record, run=folder.name)


def _journal(path: Path, lines: Iterable[object]) -> None:
    option = orjson.OPT_APPEND_NEWLINE
    # Chunks that were read are in columns.
    write_whole(path, (orjson.dumps(line, default=list, option=option) for line in lines))
