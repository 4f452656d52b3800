"""Pinning images by digest, against a registry on this machine that asks for a token."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from charts.manifests import charts
from charts.names import Deployed
from experiment import Experiment, images
from experiment.variants import variants
from scripts import digests

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


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("python:3.10-slim", ("registry-1.docker.io", "library/python", "3.10-slim")),
        ("team/tool:1", ("registry-1.docker.io", "team/tool", "1")),
        (images.AWS_CLI, ("public.ecr.aws", "aws-cli/aws-cli", images.AWS_CLI.split(":")[1])),
        ("localhost:5000/a/b:1", ("localhost:5000", "a/b", "1")),
    ],
)
def test_an_image_names_its_registry(image: str, expected: tuple[str, str, str]) -> None:
    assert digests.parts(image) == expected


def test_a_digest_is_what_the_registry_says(registry: str, tmp_path: Path) -> None:
    file, image = tmp_path / "digests.json", f"{registry}/team/tool:1.0"
    assert digests.pin_file([image], file) == []
    assert json.loads(file.read_text()) == {image: DIGEST}


def test_what_no_registry_says_stays_by_its_tag(registry: str, tmp_path: Path) -> None:
    missing_image, known = f"{registry}/team/tool:2.0", f"{registry}/team/gone:1.0"
    file = tmp_path / "digests.json"
    file.write_text(json.dumps({known: DIGEST, "given/up:1": DIGEST}))
    missing = digests.pin_file([missing_image, known], file)
    assert [line.partition(": ")[0] for line in missing] == [known, missing_image]
    assert all("404" in line for line in missing)
    assert json.loads(file.read_text()) == {known: DIGEST}


def test_pins_the_stages_of_a_dockerfile_again_and_again(registry: str, tmp_path: Path) -> None:
    file, image = tmp_path / "Dockerfile", f"{registry}/team/tool:1.0"
    old = f"sha256:{'0' * 64}"
    file.write_text(f"FROM {image} AS first\nRUN true\nFROM {image}@{old}\n")
    pinned = f"FROM {image}@{DIGEST} AS first\nRUN true\nFROM {image}@{DIGEST}\n"
    for _ in range(2):
        assert digests.pin_dockerfile(file) == []
        assert file.read_text() == pinned


def test_pods_and_keys_have_the_digest_and_people_the_tag(
    variation: Callable[[dict[str, Any]], Experiment],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = variation({})
    keys = [variant.artifact for variant in variants(experiment)]
    named = (images.AWS_CLI, images.PYTHON, experiment.serving_runtime.image)
    (tmp_path / "digests.json").write_text(json.dumps(dict.fromkeys(named, DIGEST)))
    monkeypatch.setattr(images, "FILE", tmp_path / "digests.json")
    benchmark = f"registry.example.com/benchmark@{DIGEST}"
    rendered = charts(cdk8s.App(), experiment, Deployed("bucket", benchmark))
    objects = [manifest for chart in rendered for manifest in chart.to_json()]
    used = {*re.findall(r'"image": "([^"]+)"', json.dumps(objects))}
    assert used == {*(f"{image}@{DIGEST}" for image in named), benchmark}
    assert not set(keys) & {variant.artifact for variant in variants(experiment)}
    (configuration,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == CONFIGURATION)
    settings = json.loads(configuration["data"]["config.json"])["settings"]
    assert settings["Image"] == experiment.serving_runtime.image.rpartition(":")[2]
    jobs = [o for o in objects if o["metadata"]["name"].startswith("compile-qwen-vllm")]
    assert "CKV_K8S_43" not in json.dumps(jobs[0]["metadata"].get("annotations"))


def test_what_is_pinned_is_an_image_of_ours_and_a_digest() -> None:
    for image, digest in images.known(images.FILE).items():
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest), image
        assert images.pinned(image) == f"{image}@{digest}"
