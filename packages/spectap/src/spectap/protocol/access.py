"""The headers and the trust in certificates with which servers are reached.

Both hold for the whole process, as OPENAI_API_KEY does. They are written to no file, because a
header may hold a secret.
"""

import functools
import os
import ssl
from pathlib import Path
from typing import Final

from spectap import wording
from spectap.errors import ConfigError

HEADERS: Final[dict[str, str]] = {}
"""Sent with every request to a server."""


@functools.cache
def tls() -> ssl.SSLContext:
    """The TLS settings of every connection. Making them takes as long as a short answer."""
    return ssl.create_default_context()


def trust(authority: Path | None, *, anyone: bool) -> None:
    """Adds trust in the certificates of ``authority``, or in ``anyone``'s. Raises ConfigError."""
    try:
        if authority is not None:
            tls().load_verify_locations(authority)
    except OSError as error:
        raise ConfigError(f"--ca {authority}: no certificates: {error.strerror}") from None
    if anyone:
        tls().check_hostname = False
        tls().verify_mode = ssl.CERT_NONE


def masked(text: str) -> str:
    """The text without parts of the key and the headers that a server repeats."""
    for secret in " ".join((os.environ.get("OPENAI_API_KEY", ""), *HEADERS.values())).split():
        text = wording.masked(text, secret)
    return text


def distrust(error: Exception) -> str:
    """Says why a certificate is not trusted, and what to do about it."""
    reason = getattr(error, "verify_message", error)
    return f"its certificate is not trusted: {reason}: --ca FILE, or --insecure"
