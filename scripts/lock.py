#!/usr/bin/env python3
"""Pins what the pods install when they start: every package, by version and by hash.

usage: scripts/lock.py

Writes charts/scripts/NAME.lock from requirements-NAME.txt beside it. constraints.txt says at which
versions; what it does not name keeps the lock's own. A lock that is deleted first gets the newest.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("charts/scripts")

PYTHON: Final = "3.12"
PLATFORM: Final = "x86_64-manylinux_2_28"
"""Of the pods' image: Debian 12 has a newer C library, which runs these wheels."""


def main() -> None:
    """Write all locks."""
    for requirements in sorted((ROOT / FOLDER).glob("requirements-*.txt")):
        lock = FOLDER / f"{requirements.stem.removeprefix('requirements-')}.lock"
        _uv(
            *(FOLDER / requirements.name, "--constraint=constraints.txt"),
            *(f"--excludes={FOLDER / 'left-out.txt'}", "--generate-hashes"),
            *("--custom-compile-command=make locks", "--annotation-style=line"),
            f"--output-file={lock}",
        )
        wheels = re.findall(r'sha256 = "(\w+)"', _uv(lock, "--no-deps", "--format=pylock.toml"))
        (ROOT / lock).write_text(of_these(wheels, (ROOT / lock).read_text()))
        print(f"{lock}: {len(wheels)} wheels")


def of_these(wheels: Collection[str], lock: str) -> str:
    """The lock without the hashes of other platforms' wheels.

    With them it is 180 kB, and what kubectl applies must stay below 256 KiB.
    """
    return re.sub(rf" \\\n    --hash=sha256:(?!{'|'.join(wheels)})\w+", "", lock)


def _uv(*arguments: str | Path) -> str:
    pod = (f"--python-version={PYTHON}", f"--python-platform={PLATFORM}", "--only-binary=:all:")
    command = ["uv", "pip", "compile", "--quiet", *pod, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:  # uv has said why
        sys.exit(failed.returncode)
