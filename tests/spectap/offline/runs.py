"""Runs of jobs, made up with known figures: a folder as it is when all variants are merged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectap.offline import intake
from spectap.offline.left import Left
from spectap.offline.requests import asked

from spectap.config import Config
from spectap.names import COMPLETE, GENERATIONS, INFERENCE_DEMO
from spectap.run.folder import prepare
from spectap.sweep import part
from spectap.sweep.merge import merge
from tests.spectap.offline import jobs
from tests.spectap.offline.jobs import Line

STARTED = 1_780_000_000.0


def merged(folder: Path, *, demos: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    """A run of all variants, one after the other; ``demos`` are reports of inference_demo."""
    whole = Config.model_validate(jobs.settings(**changes))
    part.note(folder, whole)
    for number, name in enumerate(whole.names):
        own = part.folder(folder, whole, name)
        config = part.of(whole, name)
        prepare(own, config)
        write(own, lines(config, name, STARTED + 600 * number))
        intake.take(config, own, {})
        if demos and name in demos:
            (own / INFERENCE_DEMO).write_text(json.dumps(demos[name]), encoding="utf-8")
        (own / COMPLETE).touch()
    merge(folder)
    return folder


def lines(config: Config, variant: str, start: float) -> list[Line]:
    """What is generated of all that is asked of a variant, alone in ``config``."""
    wanted = [one._asdict() for one in asked(config, {}, Left(config, []).parts)]
    return [*jobs.generations(wanted, variant, start)]


def write(folder: Path, generations: list[Line]) -> None:
    """Appends to what was generated so far."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / GENERATIONS).open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in generations)
