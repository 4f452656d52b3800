"""Starts and stops the control plane's programs."""

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
_USER: Final = "administrator"
"""A person's and the programs' own."""


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
    port, token = free_port(ADDRESS), secrets.token_hex()
    server = f"https://{ADDRESS}:{port}"
    kubeconfig = _written(directory / "kubeconfig", _kubeconfig(directory, server, token))
    tokens = _written(directory / "tokens.csv", f'{token},{_USER},{_USER},"system:masters"')
    key = ec.generate_private_key(ec.SECP256R1())
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    accounts = _written(directory / "service-accounts.key", encoded.decode())
    processes: dict[str, tuple[Process, Path]] = {}
    plane = ControlPlane(programs / "kubectl", kubeconfig, processes)
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
        start(
            "etcd",
            f"--data-dir={directory}/etcd",
            f"--listen-client-urls=unix://{sockets}/clients",
            f"--listen-peer-urls=unix://{sockets}/peers",
            # It demands an address for other members, which must not be a socket. There are none.
            f"--advertise-client-urls=http://{ADDRESS}:2379",
            # The data is thrown away with the run.
            "--unsafe-no-fsync",
        )
        start(
            "kube-apiserver",
            f"--etcd-servers=unix://{sockets}/clients",
            f"--bind-address={ADDRESS}",
            f"--secure-port={port}",
            f"--cert-dir={directory}",
            f"--token-auth-file={tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            # EKS's own choice for a VPC outside 10.0.0.0/8.
            "--service-cluster-ip-range=10.100.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # As on EKS. Otherwise this flag would refuse privileged pods before the namespace's Pod
            # Security could.
            "--allow-privileged=true",
            # The service `kubernetes` is not used, and its endpoint must not be on loopback.
            "--endpoint-reconciler-type=none",
        )
        _await_ready(plane)
        with_server = (f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0")
        start(
            "kube-controller-manager",
            *with_server,
            f"--service-account-private-key-file={accounts}",
            f"--root-ca-file={directory}/apiserver.crt",
            "--use-service-account-credentials=true",
            # The kubelets that are played here renew no lease.
            "--node-monitor-grace-period=24h",
            # It creates this folder, by default outside of this run's directory.
            f"--flex-volume-plugin-dir={directory}/volume-plugins",
        )
        start("kube-scheduler", *with_server)
        yield plane


def _kubeconfig(directory: Path, server: str, token: str) -> str:
    # The API server makes its certificate itself, when it starts.
    cluster = {"server": server, "certificate-authority": str(directory / "apiserver.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "control-plane", "cluster": cluster}],
        "users": [{"name": _USER, "user": {"token": token}}],
        "contexts": [{"name": _USER, "context": {"cluster": "control-plane", "user": _USER}}],
        "current-context": _USER,
    }
    return json.dumps(config)  # which is YAML


def _written(path: Path, content: str) -> Path:
    """A file that only this user can read."""
    path.touch(mode=0o600)
    path.write_text(content)
    return path


def _await_ready(plane: ControlPlane) -> None:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "get", "--raw=/readyz"]
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        plane.check()
        if subprocess.run(command, capture_output=True, timeout=START_SECONDS).returncode == 0:
            return
        time.sleep(_POLL_SECONDS)
    _, log = plane.processes["kube-apiserver"]
    raise ControlPlaneError(f"kube-apiserver: not ready within {START_SECONDS:.0f} s; see {log}")
