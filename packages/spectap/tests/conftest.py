"""What spectap's tests share.

moto and the commands are imported by the fixtures that need them: each takes a second or more.
"""

import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from spectap.endpoint import counters, health
from tests.commands.processes import Benchmark, Ended

if TYPE_CHECKING:
    from tests.aws.embedded import Aws, Clock

settings.register_profile("any machine", deadline=None)  # one may be busy with something else
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests, which ``pytest.mark.anyio`` marks, run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _quick() -> Iterator[None]:
    """A golden endpoint has counted a token when it sends it: there is nothing to wait for.

    Collecting garbage before each load goes over what the run has made, as in the pod. All that
    the tests have imported would make it ten times as long.
    """
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        patch.setattr(health, "POLL_SECONDS", 0.02)
        patch.setattr(counters, "POLL_SECONDS", 0.001)
        yield


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Benchmark:
    """The commands in this process, which saves the time that imports take."""

    def call(*arguments: str, **environment: str) -> Ended:
        from spectap.__main__ import main

        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["spectap", *arguments])
        status: object
        try:
            status = main()
        except SystemExit as refused:
            status = refused.code
        return Ended(status, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def server() -> Iterator["Aws"]:
    """An embedded AWS, whose state is the process's."""
    from tests.aws.embedded import Aws

    aws = Aws()
    yield aws
    aws.stop()


@pytest.fixture
def aws(server: "Aws", monkeypatch: pytest.MonkeyPatch) -> Iterator["Aws"]:
    """Points the SDK at it and at nothing else; it forgets everything before and afterwards."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    server.reset()
    yield server
    server.reset()


@pytest.fixture
def store(aws: "Aws") -> "Aws":
    """With the bucket, and nothing asked yet."""
    from tests.aws.embedded import make_bucket

    make_bucket()
    return aws


@pytest.fixture
def clock() -> "Clock":
    from tests.aws.embedded import Clock

    return Clock()
