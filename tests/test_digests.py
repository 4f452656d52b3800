"""Pinning images by digest, against a registry on this machine that asks for a token."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from experiment import Experiment, images
from experiment.variants import variants
from tests.synthesis import render
from tools import digests

DIGEST = f"sha256:{'a1' * 32}"
TOKEN = "anybodys"
CONFIGURATION = ("ConfigMap", "qwen-llmperf")


class Registry(BaseHTTPRequestHandler):
    """Registry v2: knows one tag, and answers whoever has fetched a token for it."""

    def do_HEAD(self) -> None:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            realm = f"http://{self.headers['Host']}/token"
            challenge = f'Bearer realm="{realm}",service="here",scope="repository:team/tool:pull"'
            self.answer(401, {"WWW-Authenticate": challenge})
        elif self.path == "/v2/team/tool/manifests/1.0" and "index" in self.headers["Accept"]:
            self.answer(200, {"Docker-Content-Digest": DIGEST})
        else:
            self.answer(404, {})

    def do_GET(self) -> None:
        assert self.path == "/token?service=here&scope=repository%3Ateam%2Ftool%3Apull"
        self.answer(200, {}, json.dumps({"token": TOKEN}).encode())

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_all_are_pinned_that_a_registry_knows(registry: str, tmp_path: Path) -> None:
    """Of the rest what was known before stays, and nothing of images that are used no more."""
    known, gone, new = (f"{registry}/team/{name}" for name in ("tool:1.0", "gone:1.0", "tool:2.0"))
    file, dockerfile, old = tmp_path / "digests.json", tmp_path / "Dockerfile", f"sha256:{'0' * 64}"
    file.write_text(json.dumps({gone: old, "given/up:1": old}))
    dockerfile.write_text(f"FROM scratch AS none\nFROM {known} AS a\nRUN x\nFROM {known}@{old}\n")
    for _ in range(2):
        missing = digests.pin([known, gone, new], file, dockerfile)
        assert [line.partition(": ")[0] for line in missing] == [gone, new]
        assert all("404" in line for line in missing)
        assert json.loads(file.read_text()) == {gone: old, known: DIGEST}
        stages = f"FROM {known}@{DIGEST} AS a\nRUN x\nFROM {known}@{DIGEST}\n"
        assert dockerfile.read_text() == f"FROM scratch AS none\n{stages}"


def test_pods_and_keys_have_the_digest_and_people_the_tag(
    article: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = article.serving_runtime.image
    keys = {variant.artifact for variant in variants(article)}
    known = dict.fromkeys((images.AWS_CLI, images.PYTHON, image), DIGEST)
    (tmp_path / "digests.json").write_text(json.dumps(known))
    monkeypatch.setattr(images, "FILE", tmp_path / "digests.json")
    objects = render(article)
    used = {*re.findall(r'"image": "([^"]+)"', json.dumps(objects))}
    assert {f"{name}@{DIGEST}" for name in known} == {name for name in used if "@" in name}
    assert not keys & {variant.artifact for variant in variants(article)}
    (configuration,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == CONFIGURATION)
    settings = json.loads(configuration["data"]["config.json"])["settings"]
    assert settings["Image"] == image.rpartition(":")[2]
