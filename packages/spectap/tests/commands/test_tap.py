"""``tap``: any client before it, any server behind it."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from spectap.records.ledger import read_ledger
from tests.commands.processes import (
    MODEL,
    Benchmark,
    eventually,
    golden,
    serving,
    started,
)


@contextmanager
def asking(address: str, **fields: object) -> Iterator[HTTPConnection]:
    """A connection on which a stream is asked for."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 30}
    connection = HTTPConnection(address)
    data = json.dumps(body | {"stream": True} | fields)
    connection.request("POST", "/v1/chat/completions", data)
    try:
        yield connection
    finally:
        connection.close()


def address_of(tap: subprocess.Popen[str]) -> str:
    """Host and port of a tap, which prints its base URL first."""
    assert tap.stdout is not None
    return tap.stdout.readline().strip().removeprefix("http://").removesuffix("/v1")


def test_requests_are_recorded_until_a_signal_and_a_ledger_is_appended_to(tmp_path: Path) -> None:
    """The upstream has no path, and is given one."""
    ledger = tmp_path / "new" / "ledger.jsonl"
    options = ("--ledger", str(ledger), "--port", "0", "--variant", "k7", "--case", "greeting")
    with serving(golden(drafts=6, speed=10)) as (server,):
        arguments = ("tap", "--upstream", server.url.removesuffix("/v1"), *options)
        with started(*arguments, "--host", "0.0.0.0") as tap:
            address = address_of(tap)
            for path in ("/v1/responses", "/v1/responses", "/generate"):
                client = HTTPConnection(address)
                client.request("POST", path, b"{}")
                client.getresponse().read()
                client.close()
            with asking(address) as client:
                assert client.getresponse().read().endswith(b"data: [DONE]\n\n")
            with asking(address, model="another") as client:
                refusal = client.getresponse()
                assert refusal.status == 404
                refusal.read()
                pages = []
                for path in ("/spectap/metrics", "/metrics", "/spectap/metrics"):
                    client.request("GET", path)
                    pages.append(client.getresponse().read().decode())
            assert 'spectap_requests_total{status="404"} 1.0' in pages[0] == pages[2]
            assert "vllm:generation_tokens_total" in pages[1]
            tap.send_signal(signal.SIGINT)
            out, err = tap.communicate(timeout=20)
        assert tap.returncode == 0
        records = read_ledger(ledger)
        assert [(r.variant, r.case, r.status) for r in records] == [
            ("k7", "greeting", 200),
            ("k7", "greeting", 404),
        ]
        assert sum(tokens for _, tokens in records[0].chunks) == 30
        assert err.splitlines()[-2:] == [
            "2 requests, 0 in flight, 1 error",
            "3 requests passed unrecorded: 2 to /v1/responses, 1 to /generate",
        ]
        assert "greeting" in out
        assert "k7" in out
        assert out.splitlines()[-1] == f"ledger: {ledger}"

        with started(*arguments) as tap, asking(address_of(tap), max_tokens=999):
            eventually(lambda: len(server.sent) == 2)
            tap.send_signal(signal.SIGTERM)
            out, _ = tap.communicate(timeout=20)
    assert tap.returncode == 0
    assert [r.error for r in read_ledger(ledger)][2:] == ["cancelled by the client"]
    assert ": 1 request" in out  # the table is of what passed this time


def test_a_full_disk_does_not_stop_the_client_but_is_said(tmp_path: Path) -> None:
    path = tmp_path / "l"
    arguments = ("tap", "--ledger", str(path), "--port", "0", "--upstream")
    full = ("prlimit", "--fsize=0", "--")  # no file may grow
    with serving(golden()) as (server,), started(*arguments, server.url, under=full) as tap:
        with asking(address_of(tap)) as client:
            assert client.getresponse().read().endswith(b"data: [DONE]\n\n")
        tap.terminate()
        out, err = tap.communicate(timeout=20)
    assert tap.returncode == 1
    assert out == "no completion was recorded\n"
    assert not path.exists()  # what is empty is removed
    assert err.splitlines()[-2].startswith("ledger: File too large; 1 request, 0 in flight, 0 ")
    assert err.splitlines()[-1] == f"spectap: failed: {path}: cannot be written: File too large"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--upstream": "localhost:8000"}, "--upstream: 'localhost:8000': must be a base URL"),
        ({"--upstream": "http://h/v1?key=1"}, "--upstream: 'http://h/v1?key=1': must be a base"),
        ({"--ledger": "/dev/zero"}, "/dev/zero: is not a file"),
        ({"--ledger": "README.md"}, "README.md:1: "),
        ({"--ledger": "{note}"}, "{note}: is not a ledger: it has no complete line"),
        ({"--port": "{taken}"}, "--port {taken}: cannot listen there: Address already in use"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    tmp_path: Path, benchmark: Benchmark, changes: dict[str, str], message: str
) -> None:
    """A file that is no ledger is left as it is."""
    note = tmp_path / "note.txt"
    note.write_text("one line without an end", encoding="utf-8")
    options = {"--upstream": "http://127.0.0.1:9", "--ledger": str(tmp_path / "l"), "--port": "0"}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names = {"note": str(note), "taken": str(listener.getsockname()[1])}
        changed = {option: value.format(**names) for option, value in changes.items()}
        given = [argument for pair in (options | changed).items() for argument in pair]
        assert message.format(**names) in benchmark("tap", *given).refusal()
    assert note.read_text(encoding="utf-8") == "one line without an end"
