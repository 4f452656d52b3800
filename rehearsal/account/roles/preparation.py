"""In place of what fills the bucket: checkpoints of a few bytes, and graphs that are none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from experiment import Experiment
from experiment.variants import variants
from rehearsal.account.roles.around import SCRIPTS, Around, adapt_scripts, mapped
from rehearsal.cluster.disk import Container
from rehearsal.cluster.programs import Program
from rehearsal.pod.as_process import here

_FILES: Final = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "model.safetensors": b"no weights",
}


def checkpoints(experiment: Experiment) -> dict[tuple[str, str], Mapping[str, bytes]]:
    """What the hub has: of each model, by name and revision, files that it could have."""
    drafts = (variant.draft for variant in variants(experiment))
    models = (experiment.models.target, *drafts)
    return {(model.id, model.revision): _FILES for model in models if model}


def download(container: Container, around: Around) -> Program:
    """The pod's own program, without the installation that precedes it."""
    script = str(here(f"{SCRIPTS}/download.py", container.mounts))
    scratch = str(here("/scratch", container.mounts))
    variables = {**around.variables(container), "HF_ENDPOINT": around.hub, "SCRATCH": scratch}
    command = [sys.executable, "-u", script, *container.spec["args"]]
    return Program(command, variables, here("/tmp", container.mounts))


def draft(container: Container, around: Around) -> Program:
    """Nothing: the graph's stand-in has the configuration of a prepared draft, too."""
    return Program(["true"], around.variables(container))


def compile(container: Container, around: Around) -> Program:
    """The pod's own script, with a compiler that leaves what the upload looks for."""
    adapt_scripts(container)
    _, *parts, _ = container.other("upload")["args"]
    script = container.spec["command"]
    folder = here("/scratch", container.mounts) / "artifact"
    compiler = [sys.executable, "-m", "rehearsal.account.compiler", str(folder), *parts]
    command = [*(mapped(word, container) for word in script), *compiler]
    return Program(command, around.variables(container), here("/tmp", container.mounts))
