"""A run's folder: whose it is."""

from __future__ import annotations

from pathlib import Path

from benchmark import config as configuration
from benchmark.config import Config
from benchmark.errors import ConfigError, RunError
from benchmark.names import CONFIG


def prepare(folder: Path, config: Config) -> None:
    """Creates the folder, or checks that it belongs to this configuration. Raises RunError."""
    path = folder / CONFIG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            draft = path.with_suffix(".draft")
            draft.write_text(configuration.dump(config), encoding="utf-8")
            draft.replace(path)
        elif changed := _differences(configuration.read(path), config):
            raise RunError(
                f"{path}: this run was begun with another configuration ({', '.join(changed)}): "
                "set a new RUN_ID"
            )
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(str(error)) from None


def _differences(one: Config, other: Config) -> list[str]:
    """The fields that differ."""
    return [name for name in Config.model_fields if getattr(one, name) != getattr(other, name)]
