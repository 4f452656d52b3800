"""The embedded AWS, and what must be in it after a rehearsal."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import pytest

from rehearsal import RehearsalError
from rehearsal.aws import checks
from rehearsal.aws.client import Aws, environment
from spectap import config, names
from spectap.record import Record
from tests.rehearsal.conftest import REGION
from tests.spectap import samples

NAMESPACE: Final = names.namespace("Qwen/Qwen3-32B")
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


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_run_is_brought_as_it_is_and_the_bucket_has_to_hold_it(aws: Aws, tmp_path: Path) -> None:
    run, bucket = tmp_path / RUN, "merged-run"
    put(aws, bucket)
    with pytest.raises(RehearsalError, match=r"no index has left a config\.json$"):
        checks.download_run(aws, bucket, run)
    put(aws, bucket, config_json="c", variants__SD__ledger_jsonl="l")
    aws.client("s3").put_object(Bucket=bucket, Key="results/another/config.json", Body=b"")
    assert checks.download_run(aws, bucket, run) == f"2 files from s3://{bucket}/results/{RUN}/"
    assert checks.bucket_holds(aws, bucket, run).startswith("2 files, all the same")
    write(run, config_json="longer by now", report_html="new")
    put(aws, bucket, stale="")
    with pytest.raises(RehearsalError, match=r"config\.json differs.*; report\.html .*; stale "):
        checks.bucket_holds(aws, bucket, run)


def ledger(*rounds: int, variant: str) -> str:
    records: list[Record] = [
        replace(samples.record(), variant=variant, round=round, request=str(number))
        for number, round in enumerate(rounds)
    ]
    return "".join(json.dumps(asdict(record)) + "\n" for record in records)


def test_a_merged_run_has_all_that_its_variants_measured(tmp_path: Path) -> None:
    base = ledger(1, 1, variant="Base")  # what is in no figure need not be there
    write(
        tmp_path,
        config_json=config.dump(samples.config()),
        ledger_jsonl=base + ledger(1, 2, variant="SD"),
        variants__Base__ledger_jsonl=ledger(-1, 1, 1, variant="Base"),
        variants__SD__ledger_jsonl=ledger(-1, 1, 2, variant="SD"),
    )
    complete = checks.merged_holds(tmp_path, ["Base", "SD"])
    assert complete == "4 requests of 2 variants, all there"
    with pytest.raises(RehearsalError, match=r"config\.json: has Base, SD, not Base, k3, SD$"):
        checks.merged_holds(tmp_path, ["Base", "k3", "SD"])
    write(tmp_path, ledger_jsonl=base + ledger(1, variant="SD"))
    with pytest.raises(RehearsalError, match=r"1 requests of SD; its own ledger has 2$"):
        checks.merged_holds(tmp_path, ["Base", "SD"])


def pairs(variant: str) -> dict[str, str]:
    return {names.EXPERIMENT_DIMENSION: "article", names.VARIANT_DIMENSION: variant}


def template(folder: Path, *variants: str) -> Path:
    """One with a dashboard of TTFT by variant, an expression, and telemetry of nodes."""
    rows: list[list[Any]] = [[{"expression": "base / sd"}], ["Telemetry", "node_cpu"]]
    for variant in variants:
        words = [word for pair in pairs(variant).items() for word in pair]
        rows.append([NAMESPACE, "TTFT", *words, {"visible": False}])
    widgets = [
        {"type": "text", "properties": {"markdown": "## counting"}},
        {"type": "metric", "properties": {"metrics": rows, "region": "REGION"}},
    ]
    before, after = json.dumps({"widgets": widgets}).split("REGION")
    body = {"Fn::Join": ["", [before, {"Ref": "AWS::Region"}, after]]}
    dashboard = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": body}}
    path = folder / "template.json"
    path.write_text(json.dumps({"Resources": {"Dashboard": dashboard}}), encoding="utf-8")
    return path


def test_dashboards_and_metrics_have_to_match(aws: Aws, tmp_path: Path) -> None:
    for variant in ("Base", "Third"):
        dimensions = [{"Name": name, "Value": value} for name, value in pairs(variant).items()]
        datum = {"MetricName": "TTFT", "Dimensions": dimensions, "Value": 1.0}
        aws.client("cloudwatch").put_metric_data(Namespace=NAMESPACE, MetricData=[datum])
    drawn = template(tmp_path, "Base", "Third")
    assert checks.dashboards_show(aws, drawn) == "they draw the 2 published metrics"
    more = template(tmp_path, "Base", "Third", "SD")
    with pytest.raises(RehearsalError, match="TTFT of article SD is drawn and not published"):
        checks.dashboards_show(aws, more)
    assert checks.dashboards_show(aws, more, [(names.VARIANT_DIMENSION, "SD")])
    with pytest.raises(RehearsalError, match="TTFT of article Third is on no dashboard"):
        checks.dashboards_show(aws, template(tmp_path, "Base"))
