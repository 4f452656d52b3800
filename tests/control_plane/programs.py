"""The control plane's programs: found ready, or built from their Go modules.

``go/go.mod`` names their version. The built programs lie outside the source tree, in a folder whose
name is a hash of everything they were built from. So a second run builds nothing.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from rehearsal.processes import reason, running, text

PROGRAMS: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
)
MODULE: Final = Path(__file__).parent / "go"
INSTALLED: Final = "/usr/local/go/bin"
"""Where Go's instructions install it. A non-interactive PATH often lacks this folder."""

_VERSION_PACKAGE: Final = "k8s.io/component-base/version"


class ControlPlaneError(Exception):
    """The control plane cannot be had, does not start, or has ended. One line."""


class NoPrograms(ControlPlaneError):
    """There are no programs, and nothing to build them with."""


def kubernetes_version() -> str:
    """What ``go.mod`` requires, e.g. ``"1.35.4"``."""
    (version,) = re.findall(r"^\tk8s\.io/kubernetes v(\S+)", (MODULE / "go.mod").read_text(), re.M)
    return str(version)


def programs(environment: Mapping[str, str], stream: TextIO | None = None) -> Path:
    """The folder that holds ``PROGRAMS``, which are built if necessary. Raises ControlPlaneError.

    The variable ``KUBEBUILDER_ASSETS``, envtest's convention, names a folder that has them.
    """
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        return _ready(Path(assets))
    go = shutil.which("go", path=environment.get("PATH")) or shutil.which("go", path=INSTALLED)
    if go is None:
        raise NoPrograms("no control plane: neither Go to build it with, nor KUBEBUILDER_ASSETS")
    in_module = [go, "-C", str(MODULE)]
    # Asked inside the module: go may switch to the version that go.mod names.
    go_version = _output([*in_module, "env", "GOVERSION", "GOOS", "GOARCH"], environment)
    parts = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]
    digest = hashlib.sha256(b"\0".join([*parts, go_version.encode()])).hexdigest()[:16]
    root = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~"), ".cache")
    folder = Path(root, "speculative-decoding", "control-plane", digest).expanduser()
    if not folder.exists():
        _build(in_module, environment, folder, stream or sys.stderr)
    return folder


def _ready(assets: Path) -> Path:
    missing = [program for program in PROGRAMS if not os.access(assets / program, os.X_OK)]
    if missing:
        raise ControlPlaneError(f"KUBEBUILDER_ASSETS={assets}: has no {', '.join(missing)}")
    version = _output([str(assets / "kube-apiserver"), "--version"], os.environ)
    minor = kubernetes_version().rpartition(".")[0]
    if not version.startswith(f"Kubernetes v{minor}."):
        raise ControlPlaneError(f"KUBEBUILDER_ASSETS={assets}: is {version}; must be v{minor}")
    return assets


def _build(
    in_module: list[str], environment: Mapping[str, str], folder: Path, stream: TextIO
) -> None:
    version = kubernetes_version()
    line = f"control plane: building Kubernetes {version} in {folder}, once: 5 to 15 minutes"
    print(line, file=stream, flush=True)
    # Leaves out symbols, and sets the reported version: a plain build reports v0.0.0.
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    link = " ".join(["-s -w", *(f"-X {_VERSION_PACKAGE}.{k}={v}" for k, v in values.items())])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        built, log = Path(scratch, "bin"), folder.with_suffix(".log")
        flags = ["-v", "-trimpath", "-ldflags", link, "-o", f"{built}{os.sep}"]
        command = [*in_module, "build", *flags, "tool"]
        with running(command, {**environment, "CGO_ENABLED": "0"}, log) as process:
            if process.wait():
                words = reason(text(log)).removeprefix("go: ")
                raise ControlPlaneError(f"go build: {words}; see {log}")
        # The build names a program after its folder.
        (built / "server").rename(built / "etcd")
        # One rename, so that no other run finds half of them.
        if not folder.exists():
            built.rename(folder)


def _output(command: list[str], environment: Mapping[str, str]) -> str:
    completed = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if completed.returncode != 0:
        name = Path(command[0]).name
        raise ControlPlaneError(f"{name}: {reason(completed.stderr).removeprefix(f'{name}: ')}")
    return completed.stdout.strip()
