"""A run's folder: whose it is, and where results lie in it."""

from __future__ import annotations

from pathlib import Path

from benchmark import config as configuration
from benchmark.config import Config
from benchmark.errors import ConfigError, RunError
from benchmark.names import CONFIG, LLMPERF
from benchmark.run.attempts import Turn


def prepare(folder: Path, config: Config) -> None:
    """Creates the folder, or checks that it belongs to this configuration. Raises RunError."""
    path = folder / CONFIG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            draft = path.with_suffix(".draft")
            draft.write_text(configuration.dump(config), encoding="utf-8")
            draft.replace(path)
        elif configuration.read(path) != config:
            raise RunError(
                f"{path}: this run was begun with another configuration: set a new RUN_ID"
            )
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(str(error)) from None


def load_results(folder: Path, turn: Turn, variant: str) -> Path:
    """The folder for the load generator's own files on one variant in one turn."""
    return folder / LLMPERF / turn.case / variant / f"round-{turn.round}"
