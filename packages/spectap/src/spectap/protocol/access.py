"""How servers are reached besides by their URLs: headers, and trust in certificates.

It holds for the whole process, as OPENAI_API_KEY does, and is written to no file: a header may hold
a secret.
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
    """What every connection by TLS goes by. Making one takes as long as a short answer."""
    return ssl.create_default_context()


def trust(authority: Path | None, *, anyone: bool) -> None:
    """Trusts the certificates of ``authority``, too; or ``anyone``. Raises ConfigError."""
    try:
        if authority is not None:
            tls().load_verify_locations(authority)
    except OSError as error:
        raise ConfigError(f"--ca {authority}: no certificates: {error.strerror}") from None
    if anyone:
        tls().check_hostname = False
        tls().verify_mode = ssl.CERT_NONE


def masked(text: str) -> str:
    """The text without what a server may repeat of the key and the headers."""
    for secret in " ".join((os.environ.get("OPENAI_API_KEY", ""), *HEADERS.values())).split():
        text = wording.masked(text, secret)
    return text


def distrust(error: Exception) -> str:
    """Why a certificate is not trusted, and what changes that."""
    reason = getattr(error, "verify_message", error)
    return f"its certificate is not trusted: {reason}: --ca FILE, or --insecure"
