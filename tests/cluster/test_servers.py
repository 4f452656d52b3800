"""The control plane's own start and end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.programs import ControlPlaneError, programs
from tests.control_plane.servers import ControlPlane, control_plane
from tests.rehearsal.left import alive

NAMES = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}


@pytest.fixture(scope="module")
def program_folder() -> Path:
    return programs(os.environ)


def test_a_program_that_ends_is_noticed_and_nothing_is_left_of_the_others(
    program_folder: Path, tmp_path: Path
) -> None:
    with control_plane(program_folder, tmp_path) as plane:
        pids = {process.pid for process, _ in plane.processes.values()}
        assert set(plane.processes) == NAMES
        assert alive(pids) == pids
        plane.check()
        scheduler, _ = plane.processes["kube-scheduler"]
        scheduler.kill()
        scheduler.wait()
        with pytest.raises(ControlPlaneError, match=r"kube-scheduler ended: .*kube-scheduler\.log"):
            plane.check()
    assert alive(pids) == set()


def test_a_program_that_does_not_start_says_why(
    program_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.control_plane.servers.ADDRESS", "192.0.2.1")
    monkeypatch.setattr("tests.control_plane.servers.free_port", lambda address: 6443)
    with (
        pytest.raises(ControlPlaneError, match=r"kube-apiserver ended: .*cannot assign"),
        control_plane(program_folder, tmp_path),
    ):
        pass


def test_keys_are_for_their_owner_alone(plane: ControlPlane) -> None:
    folder = plane.kubeconfig.parent
    secrets = [*folder.glob("*.key"), *folder.glob("*.kubeconfig")]
    assert len(secrets) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


@pytest.mark.skipif(not Path("/proc/self/net").exists(), reason="needs Linux's /proc")
def test_servers_listen_on_loopback_alone(plane: ControlPlane) -> None:
    addresses = {
        address for process, _ in plane.processes.values() for address in _listening(process.pid)
    }
    assert addresses == {"0100007F"}


def _listening(pid: int) -> Iterator[str]:
    """The addresses that a process listens on, in the kernel's hexadecimal."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    sockets = {os.readlink(file) for file in files if file.is_symlink()}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                yield fields[1].partition(":")[0]
