"""Where a user's own file of prompts goes: by the bootstrap's bucket, to what measures alone."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from experiment import load
from tests.experiment.files import edited, swept
from tests.stacks.templates import statements
from tests.synthesis import ACCOUNT, Synthesised, synthesise

SECRET = "Überaus geheim"
BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-us-east-2"


@pytest.fixture(scope="module", params=[{}, swept()], ids=["services", "sweep"])
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """An experiment with a test case of a file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.jsonl").write_text(json.dumps({"prompt": SECRET}, ensure_ascii=False) + "\n")
    case = {"benchmark.test_cases.3": {"name": "own", "file": "own.jsonl"}}
    (folder / "mine.yaml").write_text(edited(request.param | case), encoding="utf-8")
    return synthesise(load(folder / "mine.yaml"), folder)


def digest(own: Synthesised) -> str:
    return own.experiment.prompt_files["own.jsonl"].digest


def test_a_deploy_uploads_the_file_under_its_digest(own: Synthesised) -> None:
    (path,) = own.directory.glob("*-model-store.assets.json")
    asset = json.loads(path.read_text())["files"][digest(own)]
    (destination,) = asset["destinations"].values()
    assert destination["objectKey"] == digest(own)
    assert destination["bucketName"].startswith("cdk-hnb659fds-assets-")
    content = (own.directory / asset["source"]["path"]).read_bytes()
    assert SECRET.encode() in content
    assert hashlib.sha256(content).hexdigest() == digest(own)


def test_the_benchmark_is_told_the_digest_and_where_it_lies(own: Synthesised) -> None:
    (told,) = (
        json.loads(found["data"]["config.json"])
        for found in own.objects("ConfigMap")
        if "config.json" in found["data"]
    )
    assert told["prompts_bucket"] == BUCKET
    source = told["test_cases"][3]["prompts"]
    assert (source["file"], source["digest"]) == ("own.jsonl", digest(own))


def test_templates_and_manifests_have_the_digest_and_no_prompt(own: Synthesised) -> None:
    written = [*own.directory.glob("*.template.json"), *(own.directory.parent / "dist").iterdir()]
    texts = [path.read_text(encoding="utf-8") for path in written]
    assert any(digest(own) in text for text in texts)
    assert not any("geheim" in text or "binaryData" in text for text in texts)


def test_only_what_measures_may_read_it(own: Synthesised) -> None:
    readers: dict[str, Any] = {
        name: statement
        for name, statement in statements(own)
        if digest(own) in json.dumps(statement)
    }
    (name,) = readers
    assert name in ("Benchmark", "Sweep")
    assert readers[name]["Action"] == "s3:GetObject"
    assert json.dumps(readers[name]["Resource"]).count("arn:") == 1
