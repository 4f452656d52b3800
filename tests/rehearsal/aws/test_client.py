"""The embedded AWS is there while it is needed, and leads to no other."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rehearsal import RehearsalError
from rehearsal.aws.client import Aws, embedded_aws, environment
from tests.rehearsal.conftest import REGION


def is_served(aws: Aws) -> bool:
    address = urlsplit(aws.url)
    try:
        socket.create_connection((address.hostname or "", address.port or 0), 1).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_failure_within_ends_it(tmp_path: Path) -> None:
    def fail(aws: Aws) -> None:
        assert aws.account == "123456789012"
        assert is_served(aws)
        raise RehearsalError("something is wrong")

    with pytest.raises(RehearsalError), embedded_aws(REGION, tmp_path / "aws.log") as aws:
        fail(aws)
    assert not is_served(aws)


def test_nothing_of_the_machine_s_own_aws_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "the real thing")
    handed_on = environment("http://localhost:1", REGION)
    assert "the real thing" not in handed_on.values()
    assert handed_on["AWS_ENDPOINT_URL"] == "http://localhost:1"
    assert handed_on["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"
