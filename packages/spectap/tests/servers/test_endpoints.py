"""Endpoints that are reached, named or ready in ways of their own: measured, or refused in a line.

Cases: models_empty_at_first, ready_later, ipv6, tls_self_signed.
"""

import ssl
import subprocess
import time
from pathlib import Path

import pytest

from spectap.endpoint import health
from spectap.protocol import access
from tests.servers.conftest import Measure
from tests.servers.scripted import Exchange, models


@pytest.mark.parametrize("answer", [{"object": "list", "data": []}, {"data": None}])
def test_a_list_of_models_may_be_empty_at_first(measure: Measure, answer: object) -> None:
    start = time.monotonic()

    async def other(exchange: Exchange) -> None:
        if exchange.path == "/health":
            await exchange.json({"status": "healthy"})
        elif exchange.path == "/v1/models" and time.monotonic() < start + 2:
            await exchange.json(answer)
        else:
            await models(exchange)

    assert "it lists no model yet" in measure(Exchange.good, other=other).ended.err


def test_completions_that_fail_at_first_are_waited_for(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind Dynamo's front end: ai-dynamo/dynamo#2296, #11855."""
    monkeypatch.setattr(health, "POLL_SECONDS", 0.3)

    async def answer(exchange: Exchange) -> None:
        if exchange.side == "sd" and exchange.number <= 3:
            status = ("500 Internal Server Error", "404 Not Found", "503 Service Unavailable")
            await exchange.json({"message": "no worker"}, status[exchange.number - 1])
        else:
            await exchange.good()

    measured = measure(answer, "--wait", "60")
    assert "warm-up: sd: 0 of 1 requests succeeded: HTTP 500: no worker" in measured.ended.err
    assert {record.status for record in measured.records} == {200}


def test_an_endpoint_may_have_an_address_of_ipv6(measure: Measure) -> None:
    measure(Exchange.good, "--rounds", "3", host="::1")


def self_signed(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server of localhost needs to have a certificate, and that."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


@pytest.mark.parametrize("trust", [(), ("--ca", "certificate.pem"), ("--insecure",)])
def test_a_self_signed_certificate_is_named_and_may_be_trusted(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    tls, _ = self_signed(tmp_path)
    try:
        options = ("--rounds", "3", *trust)
        measured = measure(Exchange.good, *options, tls=tls, status=0 if trust else 2)
    finally:
        access.tls.cache_clear()
    if not trust:
        (line,) = measured.ended.err.splitlines()
        assert "its certificate is not trusted: self-signed certificate: --ca FILE, or --" in line
