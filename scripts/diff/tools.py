"""The programs that a difference is made with, and how they are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

Result = subprocess.CompletedProcess[str]


class DiffError(Exception):
    """There is nothing to compare; the message is one line."""


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
