"""Ports for servers that cannot say which one they took, and waiting for such servers."""

from __future__ import annotations

import contextlib
import random
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rehearsal.process.processes import Process, ProcessError, reason, text

START_SECONDS: Final = 300.0
"""How long a server may take to start."""

_LASTING: Final = range(20000, 32000)
"""Below what Linux (from 32768) and macOS (from 49152) give to clients."""

_POLL_SECONDS: Final = 0.05


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port of ``address`` that nothing listens on now. Raises OSError."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def lasting_port(address: str = "127.0.0.1") -> int:
    """A TCP port of ``address`` that is free now, and that no client's connection is given.

    So a server can still take it in a minute, and again after an end. Raises OSError.
    """
    for port in random.sample(_LASTING, min(100, len(_LASTING))):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((address, port))
            return port
    raise OSError(f"no port of {address} from {_LASTING[0]} to {_LASTING[-1]} is free")


def await_listener(process: Process, url: str, seconds: float) -> None:
    """Returns once something listens at ``url``, ``process`` has ended, or the time is over."""
    deadline = time.monotonic() + seconds
    address = urlsplit(url)
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection((address.hostname, address.port), timeout=1).close()
            return
        time.sleep(_POLL_SECONDS)


def await_health(
    name: str, process: Process, url: str, log: Path, seconds: float = START_SECONDS
) -> None:
    """Returns once ``/health`` of ``url`` answers. Raises ProcessError, at once if it has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            why = f"{reason(text(log))}; see {log}"
            raise ProcessError(
                f"the server for {name} ended with status {process.returncode}: {why}"
            )
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        time.sleep(_POLL_SECONDS)
    raise ProcessError(f"the server for {name} did not start within {seconds:.0f} s; see {log}")
