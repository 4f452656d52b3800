"""What the tests of several commands are given."""

import sys

import pytest

from spectap.__main__ import main
from tests.commands.processes import Benchmark, Ended


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Benchmark:
    """The commands in this process, which saves the time that imports take."""

    def call(*arguments: str, **environment: str) -> Ended:
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
