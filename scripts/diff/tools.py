"""The programs that a difference is made with, and how they are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

Result = subprocess.CompletedProcess[str]


class DiffError(Exception):
    """There is nothing to compare; the message is one line."""


@dataclass(frozen=True)
class Section:
    """What differs in one stack, in the manifests or in the file; without text nothing does."""

    title: str
    text: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        heading = ", ".join([*self.notes] if self.text else ["unchanged"])
        return "\n".join(filter(None, [f"{self.title}: {heading}".removesuffix(": "), self.text]))


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> Result:
    """Runs ``command`` without AWS credentials; returns its result."""
    clean = {key: item for key, item in os.environ.items() if not key.startswith("AWS_")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean | {"AWS_EC2_METADATA_DISABLED": "true"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def cdk(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> Result:
    """Runs the CDK CLI; returns its result. Standard error holds what the app prints."""
    if not shutil.which("cdk"):
        raise DiffError("no cdk on the PATH: `make diff` brings it")
    quiet = {"CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true", **environment}
    return run("cdk", "--no-lookups", "--no-notices", *arguments, cwd=cwd, **quiet)
