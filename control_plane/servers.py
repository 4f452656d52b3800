"""Starts the control plane's programs, and ends them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from control_plane.certificates import Authority, Pair, key_pair
from rehearsal.errors import RehearsalError
from rehearsal.process.processes import Process, reason, running, text

ADDRESS: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_ISSUER: Final = "https://kubernetes.default.svc"


@dataclass(frozen=True)
class ControlPlane:
    """One that runs. ``kubeconfig`` is an administrator's."""

    kubectl: Path
    kubeconfig: Path
    processes: Mapping[str, tuple[Process, Path]]
    """Name to process and log; empty if others started them."""

    @property
    def lent(self) -> bool:
        """Others started it, and want it back as it was."""
        return not self.processes

    def check(self) -> None:
        """Raises RehearsalError if one of its programs has ended."""
        for name, (process, log) in self.processes.items():
            if process.poll() is not None:
                raise RehearsalError(f"{name} ended: {reason(text(log))}; see {log}")


@contextlib.contextmanager
def control_plane(programs: Path, directory: Path) -> Iterator[ControlPlane]:
    """Runs ``programs`` with certificates, data and logs of their own in ``directory``.

    Raises RehearsalError if one does not start.
    """
    directory.mkdir(parents=True, exist_ok=True)
    authority, port = Authority(), _free_port()
    files = _Files(directory, authority, f"https://{ADDRESS}:{port}")
    tokens = files.pair("tokens", key_pair())
    kubeconfig = files.kubeconfig("administrator", ["system:masters"])
    processes: dict[str, tuple[Process, Path]] = {}
    running_plane = ControlPlane(programs / "kubectl", kubeconfig, processes)
    with contextlib.ExitStack() as stack:

        def start(name: str, *flags: str) -> None:
            log = directory / f"{name}.log"
            command = [str(programs / name), *flags]
            # HOME and PATH of nobody: all they need stands in their flags.
            process = stack.enter_context(running(command, {"TMPDIR": str(directory)}, log))
            processes[name] = process, log

        # Sockets and no ports: etcd asks nobody who he is. The path of a socket must be short.
        sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="etcd-"))
        etcd = f"unix://{sockets}/clients"
        start("etcd", *_etcd(f"{directory}/etcd", etcd, f"unix://{sockets}/peers"))
        start("kube-apiserver", *_api_server(files, etcd, port, tokens))
        _await_ready(running_plane)
        start("kube-controller-manager", *_controller_manager(files, tokens, directory))
        start("kube-scheduler", *_scheduler(files))
        yield running_plane


def _etcd(data: str, clients: str, peers: str) -> list[str]:
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        # For members that it does not have; it wants one all the same, and no socket.
        f"--advertise-client-urls=http://{ADDRESS}:2379",
        # The data ends with the run.
        "--unsafe-no-fsync",
    ]


def _api_server(files: _Files, etcd: str, port: int, tokens: _PairFiles) -> list[str]:
    server = files.pair("api-server", files.authority.server(ADDRESS))
    return [
        f"--etcd-servers={etcd}",
        f"--bind-address={ADDRESS}",
        f"--secure-port={port}",
        f"--tls-cert-file={server.public}",
        f"--tls-private-key-file={server.private}",
        f"--client-ca-file={files.authority_file}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={tokens.public}",
        f"--service-account-signing-key-file={tokens.private}",
        # EKS's own choice for a VPC outside 10.0.0.0/8.
        "--service-cluster-ip-range=10.100.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # As on EKS. Without it, it would be this flag that refuses privileged pods, and not the
        # namespace's Pod Security.
        "--allow-privileged=true",
        # Nobody asks the service `kubernetes`, and its endpoint may not be on loopback.
        "--endpoint-reconciler-type=none",
    ]


def _controller_manager(files: _Files, tokens: _PairFiles, directory: Path) -> list[str]:
    return [
        f"--kubeconfig={files.kubeconfig('system:kube-controller-manager')}",
        f"--service-account-private-key-file={tokens.private}",
        f"--root-ca-file={files.authority_file}",
        "--use-service-account-credentials=true",
        # Which it makes if it is not there, by default outside of this run.
        f"--flex-volume-plugin-dir={directory}/volume-plugins",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def _scheduler(files: _Files) -> list[str]:
    return [
        f"--kubeconfig={files.kubeconfig('system:kube-scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
    ]


@dataclass(frozen=True)
class _PairFiles:
    public: Path
    private: Path


class _Files:
    """What the programs read; its keys are for this user's eyes only."""

    def __init__(self, directory: Path, authority: Authority, server: str) -> None:
        self._directory, self._server = directory, server
        self.authority = authority
        self.authority_file = self._write("authority.crt", authority.certificate)

    def pair(self, name: str, pair: Pair) -> _PairFiles:
        return _PairFiles(
            self._write(f"{name}.crt", pair.public), self._write(f"{name}.key", pair.private)
        )

    def kubeconfig(self, user: str, groups: list[str] | None = None) -> Path:
        client = self.authority.client(user, groups or [])
        name = user.removeprefix("system:")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "control-plane",
                    "cluster": {
                        "server": self._server,
                        "certificate-authority-data": _base64(self.authority.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _base64(client.public),
                        "client-key-data": _base64(client.private),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": "control-plane", "user": name}}],
            "current-context": name,
        }
        # JSON is YAML.
        return self._write(f"{name}.kubeconfig", json.dumps(config).encode())

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        with open(path, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
            file.write(content)
        return path


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


def _await_ready(plane: ControlPlane) -> None:
    """Until the API server says that it is. Raises RehearsalError."""
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "get", "--raw=/readyz"]
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        plane.check()
        asked = subprocess.run(command, capture_output=True, check=False, timeout=START_SECONDS)
        if asked.returncode == 0:
            return
        time.sleep(_POLL_SECONDS)
    _, log = plane.processes["kube-apiserver"]
    raise RehearsalError(f"kube-apiserver: not ready within {START_SECONDS:.0f} s; see {log}")
