"""Ports that servers can take later."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from rehearsal.process import ports
from rehearsal.process.ports import await_listener, lasting_port
from rehearsal.process.processes import running


def test_a_lasting_port_is_free_and_given_to_no_client() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", lasting_port()))
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        assert client.getsockname()[1] > lasting_port()


def test_no_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        taken = server.getsockname()[1]
        monkeypatch.setattr(ports, "_LASTING", range(taken, taken + 1))
        with pytest.raises(OSError, match=f"no port of 127.0.0.1 from {taken} to {taken} is free"):
            lasting_port()


def test_a_server_is_waited_for_until_it_listens_or_ends(tmp_path: Path) -> None:
    port = lasting_port()
    url = f"http://127.0.0.1:{port}/v1"
    serve = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    with running(serve, os.environ, tmp_path / "log") as process:
        await_listener(process, url, 60)
        socket.create_connection(("127.0.0.1", port)).close()
    with running(["false"], os.environ, tmp_path / "log") as process:
        await_listener(process, url, 60)
        assert process.poll() is not None
    with running(["sleep", "60"], os.environ, tmp_path / "log") as process:
        await_listener(process, url, 0)
        assert process.poll() is None
