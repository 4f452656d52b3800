"""What all stand-ins find around them, and how a pod's own script runs here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiment import Experiment
from experiment.variants import Variant, variants
from rehearsal.cluster.api import Api
from rehearsal.cluster.disk import Container, write
from rehearsal.cluster.programs import Program
from rehearsal.endpoints import Server
from rehearsal.pod.as_process import here

POLL_SECONDS: Final = "1"
"""How long the pods' scripts wait between two looks at the bucket, in place of half a minute."""
SCRIPTS: Final = "/scripts"
_FROM_THIS_MACHINE: Final = ("LANG", "TERM")


@dataclass(frozen=True)
class Around:
    """One experiment in one account."""

    experiment: Experiment
    account: str
    environment: Mapping[str, str]
    """Variables that lead to the embedded AWS."""
    servers: Mapping[str, Server]
    """What serves each variant, by its name."""
    hub: str
    """URL of what checkpoints come from."""
    root: Path
    """The checkout."""
    api: Api
    """The cluster's."""

    def of_service(self, name: str) -> Variant:
        """The variant that a service of this name serves."""
        (found,) = (one for one in variants(self.experiment) if one.service == name)
        return found

    def is_ready(self, service: str) -> bool:
        """Whether a Service of this name has a pod that requests may go to."""
        return any(
            {"type": "Ready", "status": "True"}.items() <= condition.items()
            for pod in self.api.all("Pod")
            if pod["metadata"].get("labels", {}).get("app") == service
            for condition in pod["status"].get("conditions", [])
        )

    def variables(self, container: Container) -> dict[str, str]:
        """The environment of a program in a container's place. Paths are those of its folders."""
        outside = {
            name: value
            for name, value in self.environment.items()
            if name.startswith("AWS_") or name in _FROM_THIS_MACHINE
        }
        own = {
            name: str(here(value, container.mounts)) if value.startswith("/") else value
            for name, value in container.environment.items()
        }
        programs = [str(Path(sys.executable).parent), self.environment["PATH"]]
        return {
            **outside,
            **own,
            "PATH": os.pathsep.join(programs),
            "PYTHONPATH": str(self.root),
            "POLL_SECONDS": POLL_SECONDS,
            # The scripts set the AWS CLI's options.
            "AWS_CONFIG_FILE": str(here("/tmp", container.mounts) / "aws-config"),
        }


def scripted(container: Container, around: Around) -> Program:
    """A script of the pod, as it is but for its paths."""
    adapt_scripts(container)
    asked = container.spec.get("readinessProbe", {}).get("exec", {}).get("command", ())
    command, probe = (
        [mapped(word, container) for word in its] for its in (container.command, asked)
    )
    directory = here("/tmp", container.mounts)
    return Program(command, around.variables(container), directory, probe=probe)


def adapt_scripts(container: Container) -> None:
    """Scripts name files below ``/tmp``, which is the pod's own there."""
    if SCRIPTS not in container.mounts or "/tmp" not in container.mounts:
        return
    tmp = container.mounts["/tmp"]
    for path, content in container.files.items():
        if path.startswith(f"{SCRIPTS}/") and path.endswith(".sh"):
            adapted = content.replace(b"/tmp/", f"{tmp}/".encode())
            write(container.mounts[SCRIPTS] / Path(path).name, adapted)


def mapped(word: str, container: Container) -> str:
    """A word of a command; a path of the pod is one of its folders."""
    return str(here(word, container.mounts)) if word.startswith("/") else word
