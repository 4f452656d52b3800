"""Starts and stops the control plane's programs."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from rehearsal.processes import Process, reason, running, text
from tests.control_plane.programs import ControlPlaneError
from tests.run_make import free_port

ADDRESS: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_ADMINISTRATOR: Final = "administrator"
_USERS: Final = {
    _ADMINISTRATOR: "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
}
"""Users and their groups. Kubernetes' own roles name the two programs."""
_ISSUER: Final = "https://kubernetes.default.svc"


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane. ``kubeconfig`` belongs to an administrator."""

    kubectl: Path
    kubeconfig: Path
    processes: Mapping[str, tuple[Process, Path]]
    """Process and log by the program's name."""

    def check(self) -> None:
        for name, (process, log) in self.processes.items():
            if process.poll() is not None:
                raise ControlPlaneError(f"{name} ended: {reason(text(log))}; see {log}")


@contextlib.contextmanager
def control_plane(programs: Path, directory: Path) -> Iterator[ControlPlane]:
    """Runs ``programs`` with keys, data and logs of their own in ``directory``.

    Raises ControlPlaneError if one does not start.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port(ADDRESS)
    files = _Files(directory, f"https://{ADDRESS}:{port}")
    kubeconfig = files.kubeconfig(_ADMINISTRATOR)
    processes: dict[str, tuple[Process, Path]] = {}
    running_plane = ControlPlane(programs / "kubectl", kubeconfig, processes)
    with contextlib.ExitStack() as stack:

        def start(name: str, *flags: str) -> None:
            log = directory / f"{name}.log"
            command = [str(programs / name), *flags]
            # No HOME and no PATH: the flags say everything that the programs need.
            process = stack.enter_context(running(command, {"TMPDIR": str(directory)}, log))
            processes[name] = process, log

        # Unix sockets instead of ports, because this etcd authenticates nobody. They lie in a
        # folder of their own because the path of a socket must be short.
        sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="etcd-"))
        etcd = f"unix://{sockets}/clients"
        start("etcd", *_etcd(f"{directory}/etcd", etcd, f"unix://{sockets}/peers"))
        start("kube-apiserver", *_api_server(files, etcd, port))
        _await_ready(running_plane)
        start("kube-controller-manager", *_controller_manager(files))
        start("kube-scheduler", *_scheduler(files))
        yield running_plane


def _etcd(data: str, clients: str, peers: str) -> list[str]:
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        # etcd demands an address for other members, which must not be a socket. There are none.
        f"--advertise-client-urls=http://{ADDRESS}:2379",
        # The data is thrown away with the run.
        "--unsafe-no-fsync",
    ]


def _api_server(files: _Files, etcd: str, port: int) -> list[str]:
    return [
        f"--etcd-servers={etcd}",
        f"--bind-address={ADDRESS}",
        f"--secure-port={port}",
        f"--cert-dir={files.directory}",
        f"--token-auth-file={files.tokens}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={files.service_accounts}",
        f"--service-account-signing-key-file={files.service_accounts}",
        # EKS's own choice for a VPC outside 10.0.0.0/8.
        "--service-cluster-ip-range=10.100.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # As on EKS. Otherwise this flag would refuse privileged pods before the namespace's Pod
        # Security could.
        "--allow-privileged=true",
        # The service `kubernetes` is not used, and its endpoint must not be on loopback.
        "--endpoint-reconciler-type=none",
    ]


def _controller_manager(files: _Files) -> list[str]:
    return [
        f"--kubeconfig={files.kubeconfig('system:kube-controller-manager')}",
        f"--service-account-private-key-file={files.service_accounts}",
        f"--root-ca-file={files.directory}/apiserver.crt",
        "--use-service-account-credentials=true",
        # The kubelets that are played here renew no lease.
        "--node-monitor-grace-period=24h",
        # It creates this folder, by default outside of this run's directory.
        f"--flex-volume-plugin-dir={files.directory}/volume-plugins",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def _scheduler(files: _Files) -> list[str]:
    return [
        f"--kubeconfig={files.kubeconfig('system:kube-scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
    ]


class _Files:
    """The files that the programs read. Only this user can read them."""

    def __init__(self, directory: Path, server: str) -> None:
        self.directory, self._server = directory, server
        self._tokens = {user: secrets.token_hex() for user in _USERS}
        users = [f'{token},{user},{user},"{_USERS[user]}"' for user, token in self._tokens.items()]
        self.tokens = self._write("tokens.csv", "\n".join(users))
        key = ec.generate_private_key(ec.SECP256R1())
        encoded = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        self.service_accounts = self._write("service-accounts.key", encoded.decode())

    def kubeconfig(self, user: str) -> Path:
        name = user.removeprefix("system:")
        # The API server makes its certificate itself, when it starts.
        authority = str(self.directory / "apiserver.crt")
        cluster = {"server": self._server, "certificate-authority": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "control-plane", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": name, "context": {"cluster": "control-plane", "user": name}}],
            "current-context": name,
        }
        # JSON is YAML.
        return self._write(f"{name}.kubeconfig", json.dumps(config))

    def _write(self, name: str, content: str) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(content)
        return path


def _await_ready(plane: ControlPlane) -> None:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "get", "--raw=/readyz"]
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        plane.check()
        probe = subprocess.run(command, capture_output=True, check=False, timeout=START_SECONDS)
        if probe.returncode == 0:
            return
        time.sleep(_POLL_SECONDS)
    _, log = plane.processes["kube-apiserver"]
    raise ControlPlaneError(f"kube-apiserver: not ready within {START_SECONDS:.0f} s; see {log}")
