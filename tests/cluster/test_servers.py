"""The control plane's own start and end."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.programs import ControlPlaneError, programs
from tests.control_plane.servers import ControlPlane, control_plane
from tests.rehearsal.left import alive, descendants
from tests.synthesis import ROOT

NAMES = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

# A run that is ended from outside while it waits.
WAITING = """
import os, pathlib, sys, time
from tests.control_plane.programs import programs
from tests.control_plane.servers import control_plane
from rehearsal.processes import interruptible
with interruptible(), control_plane(programs(os.environ), pathlib.Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def program_folder() -> Path:
    """The programs, none of which a cluster of others brings."""
    if os.environ.get("KUBECONFIG"):
        pytest.skip("of a cluster of others")
    return programs(os.environ)


def test_nothing_is_left_after_an_error(program_folder: Path, tmp_path: Path) -> None:
    class MishapError(Exception):
        pass

    pids: set[int] = set()

    def mishap() -> None:
        with control_plane(program_folder, tmp_path) as plane:
            assert set(plane.processes) == NAMES
            pids.update(process.pid for process, _ in plane.processes.values())
            assert alive(pids) == pids
            raise MishapError

    with pytest.raises(MishapError):
        mishap()
    assert alive(pids) == set()


def test_nothing_is_left_after_a_signal(program_folder: Path, tmp_path: Path) -> None:
    assert program_folder
    command = [sys.executable, "-c", WAITING, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        started = descendants(run.pid)
        assert len(alive(started)) == 2 * len(NAMES)  # each with a shell that watches over it
        run.send_signal(signal.SIGTERM)
        run.wait(30)
    assert alive(started) == set()


def test_a_program_that_ends_is_noticed(program_folder: Path, tmp_path: Path) -> None:
    with control_plane(program_folder, tmp_path) as plane:
        plane.check()
        scheduler, _ = plane.processes["kube-scheduler"]
        scheduler.kill()
        scheduler.wait()
        with pytest.raises(ControlPlaneError, match=r"kube-scheduler ended: .*kube-scheduler\.log"):
            plane.check()


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


@pytest.fixture
def own_plane(plane: ControlPlane) -> ControlPlane:
    """The one that the other tests use."""
    if plane.lent:
        pytest.skip("of a cluster of others")
    return plane


def test_keys_are_for_their_owner_alone(own_plane: ControlPlane) -> None:
    folder = own_plane.kubeconfig.parent
    secrets = [*folder.glob("*.key"), *folder.glob("*.kubeconfig")]
    assert len(secrets) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


@pytest.mark.skipif(not Path("/proc/self/net").exists(), reason="needs Linux's /proc")
def test_servers_listen_on_loopback_alone(own_plane: ControlPlane) -> None:
    addresses = {
        address
        for process, _ in own_plane.processes.values()
        for address in _listening(process.pid)
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
