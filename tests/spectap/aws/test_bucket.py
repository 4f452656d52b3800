"""What goes into a bucket and comes back: a run's folder, lm-eval's results, prompt files."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from pydantic import TypeAdapter

from spectap.answer import Evaluation
from spectap.aws.bucket import Bucket, fetch_prompts
from spectap.commands import execution
from spectap.config import Config, PromptSource, TestCase
from spectap.errors import RunError
from spectap.run import prompts as prompt_sets
from tests.spectap import samples
from tests.spectap.aws.embedded import BUCKET, REGION, Aws, Clock, failure


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run-1"
    for name, text in {
        "config.json": "{}",
        "ledger.jsonl": "one\n",
        "llmperf/counting/SD/round-1/x_summary.json": "{}",
        "report.html": "<p>",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def bucket(store: Aws, clock: Clock) -> Bucket:
    return Bucket(BUCKET, REGION, clock.sleep)


def put(key: str, content: bytes = b"x") -> None:
    boto3.client("s3", region_name=REGION).put_object(Bucket=BUCKET, Key=key, Body=content)


def stored() -> dict[str, bytes]:
    client = boto3.client("s3", region_name=REGION)
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def uploads(store: Aws) -> list[str]:
    """The names of the files that were put."""
    return [path.rpartition("/")[2] for method, path in store.asked if method == "PUT"]


def test_only_what_changed_is_put_again(store: Aws, bucket: Bucket, run_dir: Path) -> None:
    """And what is of the run alone: another pod may have written more of a variant meanwhile."""
    expected = {f"results/run-1/{name}": data for name, data in files(run_dir).items()}
    (run_dir / "gone").symlink_to(run_dir / "nowhere")  # listed, but no longer there to be read
    (run_dir / "variants" / "k3").mkdir(parents=True)
    (run_dir / "variants" / "k3" / "ledger.jsonl").write_text("old\n")
    bucket.upload(run_dir, "run-1")
    assert stored() == expected
    head = boto3.client("s3").head_object(Bucket=BUCKET, Key="results/run-1/report.html")
    assert head["ContentType"] == "text/html"  # it opens in a browser

    store.asked.clear()
    with (run_dir / "ledger.jsonl").open("a") as ledger:
        ledger.write("two\n")
    (run_dir / "config.json").write_text("[]")  # another content of the same size
    bucket.upload(run_dir, "run-1")
    assert uploads(store) == ["ledger.jsonl", "config.json"]
    changed = {"results/run-1/ledger.jsonl": b"one\ntwo\n", "results/run-1/config.json": b"[]"}
    assert stored() == expected | changed


def test_an_upload_that_is_cut_off_leaves_no_half_turn_for_a_whole_one(
    store: Aws, bucket: Bucket, run_dir: Path
) -> None:
    for name in ("answers.jsonl", "progress.jsonl", "prompts.json", "_COMPLETE"):
        (run_dir / name).write_text("{}\n")
    bucket.upload(run_dir, "run-1")
    names = uploads(store)
    assert (names[0], names[-2:]) == ("ledger.jsonl", ["progress.jsonl", "_COMPLETE"])


def test_more_files_than_one_listing_has(
    store: Aws, bucket: Bucket, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")  # S3's own are 1000
    for puts in (4, 0):
        store.asked.clear()
        bucket.upload(run_dir, "run-1")
        assert len(uploads(store)) == puts


def test_it_fails_in_the_middle_and_goes_on_from_there(
    store: Aws, bucket: Bucket, run_dir: Path, clock: Clock
) -> None:
    store.before = lambda environ: (
        failure(503, "SlowDown")
        if environ["PATH_INFO"].endswith("report.html") and clock.now < 60
        else None
    )
    bucket.upload(run_dir, "run-1")
    assert len(stored()) == 4
    assert sum(name != "report.html" for name in uploads(store)) == 3


def test_what_the_folder_lacks_comes_back(
    store: Aws, bucket: Bucket, run_dir: Path, tmp_path: Path
) -> None:
    """What it has is newer than the bucket's."""
    bucket.upload(run_dir, "run-1")
    bucket.upload(run_dir, "run-2")
    bucket.fetch("run-2", tmp_path / "back")
    assert files(tmp_path / "back") == files(run_dir)
    (run_dir / "ledger.jsonl").write_text("one\ntwo\n")
    (run_dir / "report.html").unlink()
    store.asked.clear()
    bucket.fetch("run-1", run_dir)
    assert (run_dir / "ledger.jsonl").read_text() == "one\ntwo\n"
    assert (run_dir / "report.html").read_text() == "<p>"
    brought = [path for method, path in store.asked if method == "GET"][1:]
    assert brought == [f"/{BUCKET}/results/run-1/report.html"]


@pytest.mark.parametrize("name", ["../../elsewhere", "a//b", "folder/"])
def test_a_key_that_leads_elsewhere_is_passed_over(
    bucket: Bucket, tmp_path: Path, name: str
) -> None:
    put(f"results/run-1/{name}")
    bucket.fetch("run-1", tmp_path / "runs" / "back")
    assert [*tmp_path.rglob("*")] == []


def test_variants_are_complete_with_their_mark(bucket: Bucket) -> None:
    for path in ("variants/k3/ledger.jsonl", "variants/k5/llmperf/_COMPLETE", "_COMPLETE"):
        put(f"results/run-1/{path}")
    for path in ("run-1/variants/Base", "run-1/variants/k7", "run-2/variants/k9"):
        put(f"results/{path}/_COMPLETE")
    assert bucket.complete("run-1") == {"Base", "k7"}


VARIANTS = ("Base", "SD")
FILE = "Qwen__Qwen3-32B/samples_gsm8k_2026-11-22T12-30-05.123456.jsonl"


def evaluate(id: str, *variants: str, name: str = FILE) -> None:
    for variant in variants:
        put(f"results/quality/{id}/{variant}/{name}", f"{id} {variant}".encode())


def test_the_newest_evaluation_replaces_what_was_fetched_before(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate("z-old", *VARIANTS, name=FILE.replace("T12", "T11"))
    bucket.fetch_evaluation(tmp_path, VARIANTS)
    evaluate("a-new", *VARIANTS)
    evaluate("a-new", "SD", name=FILE.replace("samples_gsm8k", "results").replace("jsonl", "json"))
    evaluate("a-new", "SD", name="a/../../../../samples_elsewhere.jsonl")
    evaluate("broken", "Base", "another")  # compares nothing
    evaluate("$(touch ran)", *VARIANTS)  # is no name of a run
    listed = Bucket._objects
    now = datetime.now(UTC).replace(microsecond=0)

    def dated(self: Bucket, prefix: str) -> Any:
        """S3 tells in seconds when an object was put."""
        entries = listed(self, prefix).items()
        return {
            key: {**entry, "LastModified": now - timedelta(hours="z-old" in key)}
            for key, entry in entries
        }

    monkeypatch.setattr(Bucket, "_objects", dated)
    evaluation = bucket.fetch_evaluation(tmp_path, VARIANTS)
    assert evaluation == Evaluation("a-new", now, (f"Base/{FILE}", f"SD/{FILE}"))
    note = (tmp_path / "quality" / "evaluation.json").read_bytes()
    assert TypeAdapter(Evaluation).validate_json(note) == evaluation
    assert files(tmp_path / "quality") == {
        f"Base/{FILE}": b"a-new Base",
        f"SD/{FILE}": b"a-new SD",
        "evaluation.json": note,
    }


def test_without_an_evaluation_nothing_changes(bucket: Bucket, tmp_path: Path) -> None:
    evaluate("broken", "Base")
    (tmp_path / "quality").mkdir()
    assert bucket.fetch_evaluation(tmp_path, VARIANTS) is None
    assert (tmp_path / "quality").exists()


CONTENT = '{"prompt": "Größe?"}\n'.encode()
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def config(bucket: str | None = BUCKET) -> Config:
    source = PromptSource(file="own.jsonl", digest=DIGEST)
    case = TestCase(name="counting", prompts=source)
    changes = {"region": REGION, "prompts_bucket": bucket, "test_cases": (case,)}
    return samples.config().model_copy(update=changes)


@pytest.mark.usefixtures("store")
def test_a_run_reads_its_prompts_from_the_bucket(tmp_path: Path, clock: Clock) -> None:
    subject = f"prompts of {config().test_cases[0].name}: s3://{BUCKET}/{DIGEST}"
    with pytest.raises(RunError, match=f"^{subject}: .*; make deploy uploads it$"):
        fetch_prompts(config(), tmp_path, clock.sleep)
    put(DIGEST, CONTENT)
    with execution.prompt_files(config(), tmp_path) as folder:
        ((_, loaded),) = prompt_sets.loaded(config(), folder).items()
    assert loaded.prompts[0].messages[0]["content"] == "Größe?"
    assert loaded.source == "own.jsonl"
    assert not folder.exists()
    put(DIGEST, b"others")
    with (
        execution.prompt_files(config(), tmp_path) as folder,
        pytest.raises(RunError, match=f"was changed: its SHA-256 is .* and not {DIGEST}"),
    ):
        prompt_sets.loaded(config(), folder)
    with execution.prompt_files(config(None), tmp_path) as folder:
        assert folder == tmp_path
