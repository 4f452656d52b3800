"""make as a person calls it, a checkout in which it runs another program, and what a folder has."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SET_UP = (
    *("tools/requirements/app.lock", "packages/spectap/pyproject.toml", ".venv/bin/pip"),
    *("packages/spectap/src/spectap/load/sets/requirements.txt", ".venv/ready"),
    *("package.json", "package-lock.json", "node_modules/.package-lock.json"),
    *(".venv/prompt-sets/ready", "tools/requirements/rehearse.lock", ".venv/ready-rehearse"),
    *("tools/requirements/dev.lock", ".venv/ready-dev"),
    *("tests/vllm/requirements.lock", ".venv-vllm/ready"),
)
"""Each is newer than what it is made of."""


def make(
    folder: Path, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Without what the Makefile exports or looks at: a workflow tests by make."""
    exported = re.compile("MAKE.*|MFLAGS|EXPERIMENT|PYTHON|GITHUB_ACTIONS")
    kept = {name: value for name, value in os.environ.items() if not exported.fullmatch(name)}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=kept | dict(environment),
        capture_output=True,
        text=True,
    )


def checkout(folder: Path, program: str) -> Path:
    """The Makefile, all set up, with ``program`` in the place of Python."""
    shutil.copy(ROOT / "Makefile", folder)
    for number, name in enumerate(SET_UP):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (number, number))
    path = folder / ".venv" / "bin" / "python"
    path.write_text(program)
    path.chmod(0o755)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port of ``address`` that nothing listens on now. Raises OSError."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
