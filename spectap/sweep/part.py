"""Which variant of a configuration is measured alone, and by which configuration."""

from __future__ import annotations

from pathlib import Path

from spectap import config as configuration
from spectap.config import Config, Variant
from spectap.errors import RunError
from spectap.names import SWEEP, VARIANTS


def chosen(config: Config, index: str) -> Variant:
    """The variant with this number, from 0. Raises RunError."""
    count = len(config.variants)
    if not (index.isascii() and index.isdecimal() and int(index) < count):
        raise RunError(
            f"JOB_COMPLETION_INDEX = {index!r}: must be a whole number from 0 to {count - 1}, "
            "the number of a variant"
        )
    return config.variants[int(index)]


def of(config: Config, variant: str) -> Config:
    """The configuration that measures this variant alone: there is nothing to compare it with."""
    alone = _named(config, variant).model_copy(update={"baseline": None})
    return config.model_copy(update={"variants": (alone,)})


def folder(root: Path, config: Config, variant: str) -> Path:
    """Where the results of this variant are, in the folder of the run."""
    return root / VARIANTS / _named(config, variant).folder


def _named(config: Config, variant: str) -> Variant:
    return next(one for one in config.variants if one.name == variant)


def widest_window(config: Config) -> int:
    """Of all variants; 0 where none has one."""
    return max(variant.window or 0 for variant in config.variants)


def note(folder: Path, config: Config) -> None:
    """Writes the configuration of all variants into the run's folder. Raises RunError."""
    path = folder / SWEEP
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(configuration.dump(config), encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None
