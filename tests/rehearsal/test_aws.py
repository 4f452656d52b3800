"""The embedded AWS, and what must be in it after a rehearsal."""

from pathlib import Path
from typing import Final

import pytest

from rehearsal import RehearsalError
from rehearsal.aws import Aws, download_run, environment
from tests.experiment.files import REGION

RUN: Final = "rehearsal-1"


def test_nothing_of_the_machine_s_own_aws_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "the real thing")
    handed_on = environment("http://localhost:1", REGION)
    assert "the real thing" not in handed_on.values()
    assert handed_on["AWS_ENDPOINT_URL"] == "http://localhost:1"
    assert handed_on["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"


def put(aws: Aws, bucket: str, **objects: str) -> None:
    """Into a bucket of that name; each key has __ for its slash and _ for its dot."""
    s3, location = aws.client("s3"), {"LocationConstraint": aws.region}
    if bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=location)
    for name, body in objects.items():
        key = name.replace("__", "/").replace("_", ".")
        s3.put_object(Bucket=bucket, Key=f"results/{RUN}/{key}", Body=body.encode())


def test_a_run_is_brought_as_it_is(aws: Aws, tmp_path: Path) -> None:
    run, bucket = tmp_path / RUN, "merged-run"
    put(aws, bucket)
    with pytest.raises(RehearsalError, match=r"no variant is complete with its baseline$"):
        download_run(aws, bucket, run)
    put(aws, bucket, config_json="c", variants__SD__ledger_jsonl="l")
    aws.client("s3").put_object(Bucket=bucket, Key="results/another/config.json", Body=b"")
    assert download_run(aws, bucket, run) == f"2 files from s3://{bucket}/results/{RUN}/"
