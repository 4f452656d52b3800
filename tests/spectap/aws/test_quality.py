"""lm-eval's results out of a bucket: moto behind a loopback port."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import boto3
import pytest
from pydantic import TypeAdapter

from spectap.answer import Evaluation
from spectap.aws.quality import Quality
from spectap.errors import BucketError
from tests.spectap.aws.embedded import BUCKET, REGION, Aws, Clock, failure

VARIANTS = ("Base", "SD")
FILE = "Qwen__Qwen3-32B/samples_gsm8k_2026-11-22T12-30-05.123456.jsonl"


@pytest.fixture
def quality() -> Quality:
    return Quality(BUCKET, REGION, sleep=Clock().sleep)


def put(id: str, *variants: str, name: str = FILE) -> None:
    client = boto3.client("s3", region_name=REGION)
    for variant in variants:
        key = f"results/quality/{id}/{variant}/{name}"
        client.put_object(Bucket=BUCKET, Key=key, Body=f"{id} {variant}".encode())


def on_disk(run_dir: Path) -> dict[str, str]:
    """All files but the note, which has a time in it."""
    return {
        path.relative_to(run_dir).as_posix(): path.read_text()
        for path in run_dir.rglob("*")
        if path.is_file() and path.name != "evaluation.json"
    }


@pytest.mark.usefixtures("store")
def test_the_newest_evaluation_is_brought(tmp_path: Path, quality: Quality) -> None:
    put("z-old", *VARIANTS)
    time.sleep(1.1)  # S3 tells when in seconds
    put("a-new", *VARIANTS)
    put("a-new", "SD", name=FILE.replace("samples_gsm8k", "results").replace("jsonl", "json"))
    found = quality.fetch(tmp_path, VARIANTS)
    assert found is not None
    assert found.id == "a-new"
    assert found.files == (f"Base/{FILE}", f"SD/{FILE}")
    assert found.ended.utcoffset() == timedelta()
    assert abs(time.time() - found.ended.timestamp()) < 60
    note = (tmp_path / "quality" / "evaluation.json").read_bytes()
    assert TypeAdapter(Evaluation).validate_json(note) == found
    assert on_disk(tmp_path) == {
        f"quality/Base/{FILE}": "a-new Base",
        f"quality/SD/{FILE}": "a-new SD",
    }


@pytest.mark.usefixtures("store")
def test_it_takes_the_place_of_what_was_brought_before(tmp_path: Path, quality: Quality) -> None:
    put("first", *VARIANTS)
    quality.fetch(tmp_path, VARIANTS)
    later = FILE.replace("T12", "T13")
    put("second", *VARIANTS, name=later)
    quality.fetch(tmp_path, VARIANTS)
    assert on_disk(tmp_path).keys() == {f"quality/Base/{later}", f"quality/SD/{later}"}


@pytest.mark.usefixtures("store")
def test_an_evaluation_of_one_variant_compares_nothing(tmp_path: Path, quality: Quality) -> None:
    put("whole", *VARIANTS)
    put("broken", "Base", "another")
    found = quality.fetch(tmp_path, VARIANTS)
    assert found is not None
    assert found.id == "whole"


@pytest.mark.usefixtures("store")
def test_without_an_evaluation_nothing_changes(tmp_path: Path, quality: Quality) -> None:
    put("broken", "Base")
    (tmp_path / "quality").mkdir()
    (tmp_path / "quality" / "mine").write_text("mine")
    assert quality.fetch(tmp_path, VARIANTS) is None
    assert on_disk(tmp_path) == {"quality/mine": "mine"}


@pytest.mark.usefixtures("store")
def test_what_is_no_name_of_a_run_is_no_evaluation(tmp_path: Path, quality: Quality) -> None:
    put("$(touch ran)", *VARIANTS)
    assert quality.fetch(tmp_path, VARIANTS) is None


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("folder", ["../../..", "a/../../../..", "/tmp", "."])
def test_a_key_that_leads_elsewhere_is_none_of_an_evaluation(
    tmp_path: Path, quality: Quality, folder: str
) -> None:
    put("whole", *VARIANTS)
    put("whole", "SD", name=f"{folder}/samples_elsewhere.jsonl")
    run_dir = tmp_path / "results" / "run-1"
    run_dir.mkdir(parents=True)
    assert quality.fetch(run_dir, VARIANTS) is not None
    assert not [*tmp_path.rglob("samples_elsewhere.jsonl")]


def test_s3_that_comes_back_is_waited_for(store: Aws, tmp_path: Path, quality: Quality) -> None:
    put("run", *VARIANTS)
    troubles = [failure(503, "SlowDown"), failure(500, "InternalError")]
    store.before = lambda _: troubles.pop() if troubles else None
    assert quality.fetch(tmp_path, VARIANTS) is not None
    assert troubles == []


def test_a_refusal_is_one_line(store: Aws, tmp_path: Path, quality: Quality) -> None:
    store.before = lambda _: failure(403, "AccessDenied")
    with pytest.raises(BucketError, match=f"s3://{BUCKET}: .*check that the pod's role may list"):
        quality.fetch(tmp_path, VARIANTS)
