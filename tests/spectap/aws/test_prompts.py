"""The user's prompts out of a bucket: moto behind a loopback port."""

from __future__ import annotations

import hashlib
from pathlib import Path

import boto3
import pytest
from werkzeug.wrappers import Response

from spectap.aws import prompts
from spectap.commands import execution
from spectap.config import Config, PromptSource
from spectap.errors import RunError
from spectap.run import prompts as prompt_sets
from tests.spectap import samples
from tests.spectap.aws.embedded import BUCKET, REGION, Aws, Clock

CONTENT = '{"prompt": "Größe?"}\n'.encode()
KEY = hashlib.sha256(CONTENT).hexdigest()


def config(bucket: str | None = BUCKET) -> Config:
    told = Config.model_validate(samples.settings())
    source = PromptSource(file="own.jsonl", digest=KEY)
    case = told.test_cases[0].model_copy(
        update={"line": None, "structure": None, "headline": False, "prompts": source}
    )
    changes = {"region": REGION, "prompts_bucket": bucket, "test_cases": (case,)}
    return told.model_copy(update=changes)


def put(content: bytes = CONTENT) -> None:
    boto3.client("s3", region_name=REGION).put_object(Bucket=BUCKET, Key=KEY, Body=content)


@pytest.mark.usefixtures("store")
def test_a_run_reads_them_from_the_bucket(tmp_path: Path) -> None:
    put()
    with execution.prompt_files(config(), tmp_path) as files:
        ((_, loaded),) = prompt_sets.loaded(config(), files).items()
    assert loaded.prompts[0].messages[0]["content"] == "Größe?"
    assert loaded.source == "own.jsonl"
    assert not files.exists()


def test_without_a_bucket_they_lie_beside_the_configuration(tmp_path: Path) -> None:
    with execution.prompt_files(config(None), tmp_path) as files:
        assert files == tmp_path


@pytest.mark.usefixtures("store")
def test_others_than_those_that_were_deployed_are_refused(tmp_path: Path) -> None:
    put(b"others")
    with (
        execution.prompt_files(config(), tmp_path) as files,
        pytest.raises(RunError, match=f"was changed: its SHA-256 is .* and not {KEY}"),
    ):
        prompt_sets.loaded(config(), files)


@pytest.mark.usefixtures("store")
def test_waits_while_s3_fails(aws: Aws, clock: Clock, tmp_path: Path) -> None:
    put()
    failures = iter([Response(status=503), Response(status=503)])
    aws.before = lambda _: next(failures, None)
    prompts.bring(config(), tmp_path, clock.sleep)
    assert (tmp_path / "own.jsonl").read_bytes() == CONTENT
    assert next(failures, None) is None


@pytest.mark.usefixtures("store")
def test_what_was_not_uploaded_is_named_with_what_to_do(tmp_path: Path, clock: Clock) -> None:
    name = config().test_cases[0].name
    with pytest.raises(
        RunError, match=f"^prompts of {name}: s3://{BUCKET}/{KEY}: .*; make deploy uploads it$"
    ):
        prompts.bring(config(), tmp_path, clock.sleep)
