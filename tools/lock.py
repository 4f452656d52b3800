#!/usr/bin/env python3
"""Pins every package that commands or pods install, by version and by hash.

usage: python tools/lock.py

Writes tools/requirements/app.lock from requirements.txt, a lock beside each other file of
requirements, and charts/scripts/NAME.lock from requirements-NAME.txt beside it. constraints.txt,
which requirements.txt itself names, says at which versions; what it does not name keeps the lock's
own. A lock that is deleted first gets the newest. spectap, installed by its path, has no hash.
"""

import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("charts/scripts")
LOCKS = Path("tools/requirements")

PYTHON: Final = "3.12"
PLATFORM: Final = "x86_64-manylinux_2_28"
"""The platform of the pods' image: Debian 12 has a newer C library, which runs these wheels."""
OLDEST: Final = "3.11"
"""The oldest Python that the commands run on."""
COMMANDS: Final = {
    "app": Path("requirements.txt"),
    "rehearse": LOCKS / "rehearse.txt",
    "dev": LOCKS / "dev.txt",
}
"""Each lock of the commands, and the requirements it is made from."""
COMPLETE: Final = {
    "tools/scanners/requirements": OLDEST,
    "packages/spectap/requirements": PYTHON,
    "packages/spectap/llmperf-requirements": "3.10",
    "tests/vllm/requirements": OLDEST,
}
"""Requirements that name every package there will be, and the oldest Python they are for."""


def main() -> None:
    """Write all locks."""
    for name, requirements in COMMANDS.items():
        everywhere = ("--universal", f"--python-version={OLDEST}")
        _compile(requirements, LOCKS / f"{name}.lock", *everywhere, "--no-emit-package=spectap")
    for name, python in COMPLETE.items():
        whole = ("--universal", "--no-deps", "--no-annotate", f"--python-version={python}")
        _compile(f"{name}.txt", f"{name}.lock", *whole)
    pod = (f"--python-version={PYTHON}", f"--python-platform={PLATFORM}")
    for requirements in sorted((ROOT / FOLDER).glob("requirements-*.txt")):
        lock = FOLDER / f"{requirements.stem.removeprefix('requirements-')}.lock"
        options = (
            f"--constraint={LOCKS / 'constraints.txt'}",
            "--no-annotate",  # where files of this repository lie does not change a pod
        )
        _compile(FOLDER / requirements.name, lock, *pod, *options)
        pinned = _uv(lock, *pod, "--no-deps", "--format=pylock.toml")
        wheels = re.findall(r'sha256 = "(\w+)"', pinned)
        (ROOT / lock).write_text(of_these(wheels, (ROOT / lock).read_text()))
        print(f"{lock}: {len(wheels)} wheels")


def _compile(requirements: str | Path, lock: str | Path, *options: str) -> None:
    _uv(
        *(requirements, "--generate-hashes", *options),
        *("--custom-compile-command=make locks", "--annotation-style=line"),
        f"--output-file={lock}",
    )


def of_these(wheels: Collection[str], lock: str) -> str:
    """The lock without the hashes of other platforms' wheels.

    With them it is 180 kB, and what kubectl applies must stay below 256 KiB.
    """
    return re.sub(rf" \\\n    --hash=sha256:(?!{'|'.join(wheels)})\w+", "", lock)


def _uv(*arguments: str | Path) -> str:
    command = ["uv", "pip", "compile", "--quiet", "--only-binary=:all:", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:  # uv has said why
        sys.exit(failed.returncode)
