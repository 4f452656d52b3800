"""A run's folder: whose it is, and whether it can be written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spectap import config as configuration
from spectap.config import Config
from spectap.errors import ConfigError, RunError
from spectap.names import COMPLETE, CONFIG

_THEN: Final = ", then "


def prepare(folder: Path, config: Config) -> None:
    """Creates the folder, or checks that it belongs to this configuration. Raises RunError.

    What may change between two pods, see ``config.differences``, is as it is now, but for settings,
    which tell of both. Of what is complete, all stays as it was when it was measured.
    """
    path = folder / CONFIG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write(path, config)
            return
        begun = configuration.read(path)
        if changed := configuration.differences(begun, config):
            raise RunError(
                f"{path}: this run was begun with another configuration ({', '.join(changed)}): "
                "set a new RUN_ID"
            )
        if begun != config and not (folder / COMPLETE).exists():
            _write(path, config.model_copy(update={"settings": _of_both(begun, config)}))
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(str(error)) from None


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raises RunError in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error}") from None


def _write(path: Path, config: Config) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(configuration.dump(config), encoding="utf-8")
    draft.replace(path)


def _of_both(begun: Config, now: Config) -> dict[str, str]:
    """The settings of now, with what they were before where they have changed."""

    def told(before: str, value: str) -> str:
        return before if before.split(_THEN)[-1] == value else f"{before}{_THEN}{value}"

    return {key: told(begun.settings.get(key, value), value) for key, value in now.settings.items()}
