"""Where a user's own file of prompts goes: by the bootstrap's bucket, to what measures alone."""

from __future__ import annotations

import hashlib
import json

import pytest

from experiment import load
from tests.experiment.files import edited, swept
from tests.stacks.templates import statements
from tests.synthesis import ACCOUNT, Synthesised, synthesise

SECRET = "Überaus geheim"
BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-us-east-2"


@pytest.fixture(scope="module", params=[{}, swept()], ids=["services", "sweep"])
def with_file(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Synthesised:
    """An experiment with a test case of a file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.jsonl").write_text(json.dumps({"prompt": SECRET}, ensure_ascii=False) + "\n")
    case = {"benchmark.test_cases.3": {"name": "own", "file": "own.jsonl"}}
    (folder / "mine.yaml").write_text(edited(request.param | case), encoding="utf-8")
    return synthesise(load(folder / "mine.yaml"), folder)


def digest(with_file: Synthesised) -> str:
    return with_file.experiment.prompt_files["own.jsonl"].digest


def test_a_deploy_uploads_the_file_under_its_digest(with_file: Synthesised) -> None:
    (path,) = with_file.directory.glob("*-model-store.assets.json")
    asset = json.loads(path.read_text())["files"][digest(with_file)]
    (destination,) = asset["destinations"].values()
    assert destination["objectKey"] == digest(with_file)
    assert destination["bucketName"].startswith("cdk-hnb659fds-assets-")
    content = (with_file.directory / asset["source"]["path"]).read_bytes()
    assert SECRET.encode() in content
    assert hashlib.sha256(content).hexdigest() == digest(with_file)


def test_templates_and_manifests_have_the_digest_and_no_prompt(with_file: Synthesised) -> None:
    (config,) = (
        json.loads(config_map["data"]["config.json"])
        for config_map in with_file.objects("ConfigMap")
        if "config.json" in config_map["data"]
    )
    assert config["prompts_bucket"] == BUCKET
    source = config["test_cases"][3]["prompts"]
    assert (source["file"], source["digest"]) == ("own.jsonl", digest(with_file))
    dist = with_file.directory.parent / "dist"
    for path in (*with_file.directory.glob("*.template.json"), *dist.iterdir()):
        text = path.read_text(encoding="utf-8")
        assert "geheim" not in text
        assert "binaryData" not in text


def test_only_what_measures_may_read_it(with_file: Synthesised) -> None:
    ((name, statement),) = (
        (name, statement)
        for name, statement in statements(with_file)
        if digest(with_file) in json.dumps(statement)
    )
    assert name in ("Benchmark", "Sweep")
    assert statement["Action"] == "s3:GetObject"
    assert json.dumps(statement["Resource"]).count("arn:") == 1
