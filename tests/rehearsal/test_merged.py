"""The merged run is brought from the bucket, and is held against the variants' own."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rehearsal import RehearsalError, merged
from rehearsal.aws.client import Aws
from spectap import config
from spectap.record import Record
from tests.spectap import samples

RUN = "rehearsal-1"
NAMES = ("Base", "SD")


def ledger(*records: Record) -> str:
    return "".join(json.dumps(asdict(record)) + "\n" for record in records)


def record(variant: str, *, round: int = 1, request: str = "r") -> Record:
    return replace(samples.record(), variant=variant, round=round, request=request)


def run(folder: Path, by_variant: dict[str, list[Record]], merged: list[Record]) -> Path:
    """A merged run's folder, with the variants' own."""
    for name, records in by_variant.items():
        (folder / "variants" / name).mkdir(parents=True)
        (folder / "variants" / name / "ledger.jsonl").write_text(ledger(*records))
    (folder / "ledger.jsonl").write_text(ledger(*merged))
    (folder / "config.json").write_text(config.dump(samples.config()))
    return folder


def test_every_request_is_there(tmp_path: Path) -> None:
    by_variant = {name: [record(name, request="1"), record(name, request="2")] for name in NAMES}
    # What is in no figure need not be there.
    more = {name: [record(name, round=-1), *records] for name, records in by_variant.items()}
    folder = run(tmp_path, more, [*by_variant["Base"], *by_variant["SD"]])
    assert merged.holds_all(folder, NAMES) == "4 requests of 2 variants, all there"


def test_a_request_that_is_missing(tmp_path: Path) -> None:
    by_variant = {name: [record(name, request="1"), record(name, request="2")] for name in NAMES}
    folder = run(tmp_path, by_variant, [*by_variant["Base"], *by_variant["SD"][:1]])
    with pytest.raises(RehearsalError, match=r"1 requests of SD, .* round 1; .* ledger has 2$"):
        merged.holds_all(folder, NAMES)


def test_a_variant_that_is_missing(tmp_path: Path) -> None:
    folder = run(tmp_path, {name: [record(name)] for name in NAMES}, [])
    with pytest.raises(RehearsalError, match=r"config\.json: has Base, SD, not Base, k3, SD$"):
        merged.holds_all(folder, ["Base", "k3", "SD"])


def test_a_run_is_brought_as_it_is(aws: Aws, tmp_path: Path) -> None:
    s3 = aws.client("s3")
    bucket = "merged-run"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": aws.region})
    folder = tmp_path / RUN
    with pytest.raises(RehearsalError, match=r"no index has left a config\.json$"):
        merged.bring(aws, bucket, folder)
    files = {name: name.encode() for name in ("config.json", "ledger.jsonl", "summary.json")}
    files |= {"report.html": b"<html>", "variants/SD/_COMPLETE": b""}
    for name, content in files.items():
        s3.put_object(Bucket=bucket, Key=f"results/{RUN}/{name}", Body=content)
    s3.put_object(Bucket=bucket, Key="results/another/config.json", Body=b"")
    assert merged.bring(aws, bucket, folder) == f"5 files from s3://{bucket}/results/{RUN}/"
    paths = {path for path in folder.rglob("*") if path.is_file()}
    assert {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths} == files


def test_a_variant_has_records_once_a_turn_is_over(aws: Aws) -> None:
    s3 = aws.client("s3")
    bucket = "some-records"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": aws.region})
    key = f"results/{RUN}/variants/SD"
    s3.put_object(Bucket=bucket, Key=f"{key}/ledger.jsonl", Body=ledger(record("SD")).encode())
    assert not merged.has_records(aws, bucket, RUN, "SD")
    for round, has_records in ((-1, False), (1, True)):
        note = json.dumps({"round": round, "case": "counting", "failure": None}) + "\n"
        s3.put_object(Bucket=bucket, Key=f"{key}/progress.jsonl", Body=note.encode())
        assert merged.has_records(aws, bucket, RUN, "SD") is has_records
