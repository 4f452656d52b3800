"""A run's folder into a bucket that refuses, fails and comes back."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from spectap.aws.bucket import Bucket
from spectap.aws.retry import PATIENCE_SECONDS
from spectap.errors import BucketError
from tests.spectap.aws.embedded import BUCKET, REGION, Aws, Clock, failure, hang_up


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


def stored() -> dict[str, bytes]:
    client = boto3.client("s3", region_name=REGION)
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def on_disk(run_dir: Path) -> dict[str, bytes]:
    return {
        f"results/run-1/{path.relative_to(run_dir)}": path.read_bytes()
        for path in run_dir.rglob("*")
        if path.is_file()
    }


def put(store: Aws) -> list[str]:
    return [path for method, path in store.asked if method == "PUT"]


def test_every_file_is_put_where_its_path_says(store: Aws, run_dir: Path, clock: Clock) -> None:
    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)
    assert len(put(store)) == 4
    assert clock.pauses == []


def test_report_opens_in_a_browser(store: Aws, run_dir: Path) -> None:
    Bucket(BUCKET, REGION).upload(run_dir)

    head = boto3.client("s3").head_object(Bucket=BUCKET, Key="results/run-1/report.html")
    assert head["ContentType"] == "text/html"
    assert store.asked


def test_an_upload_that_is_cut_off_leaves_no_half_turn_for_a_whole_one(
    store: Aws, run_dir: Path
) -> None:
    """Attempts are numbered by the ledger, and complete by their progress."""
    for name in ("answers.jsonl", "progress.jsonl", "prompts.json", "_COMPLETE"):
        (run_dir / name).write_text("{}\n")
    Bucket(BUCKET, REGION).upload(run_dir)
    names = [key.rpartition("/")[2] for key in put(store)]
    assert (names[0], names[-2:]) == ("ledger.jsonl", ["progress.jsonl", "_COMPLETE"])


def test_only_what_changed_is_put_again(store: Aws, run_dir: Path) -> None:
    Bucket(BUCKET, REGION).upload(run_dir)
    store.asked.clear()
    Bucket(BUCKET, REGION).upload(run_dir)
    assert put(store) == []

    with (run_dir / "ledger.jsonl").open("a") as ledger:
        ledger.write("two\n")
    (run_dir / "config.json").write_text("[]")  # another content of the same size
    Bucket(BUCKET, REGION).upload(run_dir)

    assert put(store) == [
        f"/{BUCKET}/results/run-1/{name}" for name in ("ledger.jsonl", "config.json")
    ]
    assert stored() == on_disk(run_dir)


def test_more_files_than_one_listing_has(
    store: Aws, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")  # S3's own are 1000
    Bucket(BUCKET, REGION).upload(run_dir)
    store.asked.clear()
    Bucket(BUCKET, REGION).upload(run_dir)

    assert put(store) == []


def test_file_that_vanishes_is_passed_over(store: Aws, run_dir: Path) -> None:
    (run_dir / "gone").symlink_to(run_dir / "nowhere")  # listed, but no longer there to be read

    Bucket(BUCKET, REGION).upload(run_dir)

    assert len(put(store)) == 4


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (500, "InternalError"),
        (503, "SlowDown"),
        (503, "ServiceUnavailable"),
        (400, "RequestTimeout"),
        (429, "TooManyRequests"),
    ],
)
def test_nothing_is_lost_when_s3_fails_for_a_minute(
    store: Aws, run_dir: Path, clock: Clock, status: int, code: str
) -> None:
    store.before = lambda _: failure(status, code) if clock.now < 60 else None

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)
    assert 60 <= clock.now < 60 + 30


def test_nothing_is_lost_when_s3_refuses_connections_for_a_minute(
    store: Aws, run_dir: Path, clock: Clock
) -> None:
    store.stop()
    clock.at[60] = store.start

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)


def test_nothing_is_lost_when_answers_are_cut_off_for_a_minute(
    store: Aws, run_dir: Path, clock: Clock
) -> None:
    store.after = lambda environ: hang_up(environ) if clock.now < 60 else None

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)


def test_it_fails_in_the_middle_and_goes_on_from_there(
    store: Aws, run_dir: Path, clock: Clock
) -> None:
    store.before = lambda environ: (
        failure(503, "SlowDown")
        if environ["PATH_INFO"].endswith("report.html") and clock.now < 60
        else None
    )

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)
    assert sum(not path.endswith("report.html") for path in put(store)) == 3


def test_it_gives_up_after_minutes_in_one_line(store: Aws, run_dir: Path, clock: Clock) -> None:
    store.before = lambda _: failure(503, "SlowDown")

    with pytest.raises(BucketError) as caught:
        Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert PATIENCE_SECONDS - 30 <= clock.now <= PATIENCE_SECONDS
    assert "s3://results-bucket: failing for 5 minutes" in str(caught.value)
    assert "SlowDown" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pauses_grow_and_vary(store: Aws, run_dir: Path, clock: Clock) -> None:
    store.before = lambda _: failure(503, "SlowDown")

    with pytest.raises(BucketError):
        Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    whole = [min(30, 0.5 * 2**number) for number in range(len(clock.pauses))]
    shares = [pause / most for pause, most in zip(clock.pauses, whole, strict=True)]
    assert all(0.5 <= share <= 1 for share in shares)
    assert len(set(shares)) > 1


def test_access_denied_is_not_tried_again(store: Aws, run_dir: Path, clock: Clock) -> None:
    store.before = lambda _: failure(403, "AccessDenied")

    with pytest.raises(BucketError) as caught:
        Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert str(caught.value).startswith("s3://results-bucket: An error occurred (AccessDenied)")
    assert str(caught.value).endswith(
        "check that the pod's role may list, get and put objects below results/ in it"
    )
    assert "\n" not in str(caught.value)
    assert len(store.asked) == 1
    assert clock.pauses == []


@pytest.mark.usefixtures("store")
def test_missing_bucket_is_not_tried_again(run_dir: Path, clock: Clock) -> None:
    with pytest.raises(BucketError, match=r"s3://no-such: .*NoSuchBucket.*; check the conf[^\n]*$"):
        Bucket("no-such", REGION, sleep=clock.sleep).upload(run_dir)

    assert clock.pauses == []


@pytest.mark.usefixtures("store")
def test_missing_credentials_are_one_line(
    run_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with monkeypatch.context() as session:
        session.setattr(boto3, "DEFAULT_SESSION", None)  # which has credentials of its own
        with pytest.raises(BucketError, match=r"Unable to locate credentials; check [^\n]*$"):
            Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert clock.pauses == []


def test_a_folder_comes_back_as_it_was(store: Aws, run_dir: Path, tmp_path: Path) -> None:
    bucket = Bucket(BUCKET, REGION)
    bucket.upload(run_dir)
    bucket.upload(run_dir, "run-1/variants/k3")  # is not of the run itself

    bucket.fetch("run-1/variants/k3", tmp_path / "back")

    assert {
        str(path.relative_to(tmp_path / "back")): path.read_bytes()
        for path in (tmp_path / "back").rglob("*")
        if path.is_file()
    } == {name.removeprefix("results/run-1/"): data for name, data in on_disk(run_dir).items()}
    assert store.asked


def test_what_the_folder_has_is_newer_than_the_bucket(store: Aws, run_dir: Path) -> None:
    bucket = Bucket(BUCKET, REGION)
    bucket.upload(run_dir)
    (run_dir / "ledger.jsonl").write_text("one\ntwo\n")
    (run_dir / "report.html").unlink()
    store.asked.clear()

    bucket.fetch("run-1", run_dir)

    assert (run_dir / "ledger.jsonl").read_text() == "one\ntwo\n"
    assert (run_dir / "report.html").read_text() == "<p>"
    assert [path for method, path in store.asked if method == "GET"][1:] == [
        f"/{BUCKET}/results/run-1/report.html"
    ]


@pytest.mark.usefixtures("store")
def test_of_nothing_nothing_comes_back(tmp_path: Path) -> None:
    Bucket(BUCKET, REGION).fetch("run-1", tmp_path / "back")

    assert not (tmp_path / "back").exists()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("name", ["../../elsewhere", "a//b", "folder/"])
def test_a_key_that_leads_elsewhere_is_passed_over(tmp_path: Path, name: str) -> None:
    client = boto3.client("s3", region_name=REGION)
    client.put_object(Bucket=BUCKET, Key=f"results/run-1/{name}", Body=b"x")

    Bucket(BUCKET, REGION).fetch("run-1", tmp_path / "runs" / "back")

    assert [*tmp_path.rglob("*")] == []


def test_nothing_comes_back_in_part_while_s3_fails(
    store: Aws, run_dir: Path, tmp_path: Path, clock: Clock
) -> None:
    Bucket(BUCKET, REGION).upload(run_dir)
    store.before = lambda environ: (
        failure(503, "SlowDown") if environ["PATH_INFO"].endswith("ledger.jsonl") else None
    )

    with pytest.raises(BucketError, match=r"failing for 5 minutes[^\n]*$"):
        Bucket(BUCKET, REGION, sleep=clock.sleep).fetch("run-1", tmp_path / "back")

    assert not (tmp_path / "back" / "ledger.jsonl").exists()


def test_variants_are_complete_with_their_mark(
    store: Aws, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")  # several listings
    bucket = Bucket(BUCKET, REGION)
    bucket.upload(run_dir, "run-1/variants/k3")
    (run_dir / "llmperf" / "_COMPLETE").touch()  # not the mark of a variant
    bucket.upload(run_dir, "run-1/variants/k5")
    (run_dir / "_COMPLETE").touch()
    for place in ("run-1/variants/Base", "run-1/variants/k7", "run-2/variants/k9", "run-1"):
        bucket.upload(run_dir, place)

    assert bucket.complete("run-1") == {"Base", "k7"}
    assert store.asked


def test_variants_are_not_uploaded_with_the_whole(store: Aws, run_dir: Path) -> None:
    """Another pod may have written more of them since they were brought here."""
    (run_dir / "variants" / "k3").mkdir(parents=True)
    (run_dir / "variants" / "k3" / "ledger.jsonl").write_text("old\n")

    Bucket(BUCKET, REGION).upload(run_dir)

    assert len(put(store)) == 4
