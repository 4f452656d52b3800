"""Ports for servers that cannot say which one they took."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import Final

_LASTING: Final = range(20000, 32000)
"""Below what Linux (from 32768) and macOS (from 49152) give to clients."""


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port of ``address`` that nothing listens on now. Raises OSError."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def lasting_port(address: str = "127.0.0.1") -> int:
    """A TCP port of ``address`` that is free now, and that no client's connection is given.

    So a server can still take it in a minute, and again after an end. Raises OSError.
    """
    for port in random.sample(_LASTING, 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((address, port))
            return port
    raise OSError(f"no port of {address} from {_LASTING[0]} to {_LASTING[-1]} is free")
