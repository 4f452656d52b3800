"""The embedded AWS, and what must be in it after a rehearsal."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from rehearsal import RehearsalError
from rehearsal.aws import Aws, dashboards_show, download_run, environment
from spectap import names
from tests.rehearsal.conftest import REGION

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


def test_a_run_is_brought_as_it_is(aws: Aws, tmp_path: Path) -> None:
    run, bucket = tmp_path / RUN, "merged-run"
    put(aws, bucket)
    with pytest.raises(RehearsalError, match=r"no variant is complete with its baseline$"):
        download_run(aws, bucket, run)
    put(aws, bucket, config_json="c", variants__SD__ledger_jsonl="l")
    aws.client("s3").put_object(Bucket=bucket, Key="results/another/config.json", Body=b"")
    assert download_run(aws, bucket, run) == f"2 files from s3://{bucket}/results/{RUN}/"


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
    assert dashboards_show(aws, drawn) == "they draw the 2 published metrics"
    more = template(tmp_path, "Base", "Third", "SD")
    with pytest.raises(RehearsalError, match="TTFT of article SD is drawn and not published"):
        dashboards_show(aws, more)
    assert dashboards_show(aws, more, [(names.VARIANT_DIMENSION, "SD")])
    with pytest.raises(RehearsalError, match="TTFT of article Third is on no dashboard"):
        dashboards_show(aws, template(tmp_path, "Base"))
