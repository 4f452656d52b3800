"""The command: exit statuses, and what a person reads."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from spectap import metrics, names
from spectap.ledger import read_ledger
from tests.spectap import samples

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
CREDENTIALS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


@pytest.fixture
def endpoints(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A golden endpoint for each variant, twenty times as fast as the article's, and ends them."""
    processes, urls = [], {}
    acceptance = tmp_path / "acceptance.json"
    acceptance.write_text('{"counting": 0.97}', encoding="utf-8")
    for variant, window in (("Base", 1), ("SD", 7)):
        options = [*("--window", str(window)), *("--speed", "20")]
        options += ["--acceptance", str(acceptance)]
        process = subprocess.Popen(
            [sys.executable, "-m", "rehearsal.golden", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        urls[variant] = process.stdout.readline().strip()
    yield urls
    for process in processes:
        process.terminate()
        process.communicate()


@pytest.fixture
def aws() -> Iterator[dict[str, str]]:
    """An embedded AWS with an empty bucket; the environment that leads there."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-2", **CREDENTIALS)
    client.create_bucket(
        Bucket="results-bucket", CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
    )
    yield {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    server.stop()


def test_the_command_from_end_to_end(
    tmp_path: Path, endpoints: dict[str, str], aws: dict[str, str]
) -> None:
    """As the pod runs it: its own entry point, its environment, real HTTP on all sides."""
    load = samples.load(requests=6, concurrency=3, rounds=1, mean_output_tokens=60)
    settings = samples.settings(variants=samples.variants(**endpoints), load=load)
    (tmp_path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    environment = {
        "BENCHMARK_CONFIG": str(tmp_path / "config.json"),
        "RESULTS_DIR": str(tmp_path / "results"),
        "RUN_ID": "run-1",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "spectap", "run"],
        env=os.environ | aws | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "counting" in ended.stdout
    folder = tmp_path / "results" / "run-1"
    assert f"report: {folder}" in ended.stdout

    records = [record for record in read_ledger(folder / "ledger.jsonl") if record.round > 0]
    assert len(records) == 24
    assert all(record.succeeded and record.per_chunk for record in records)
    times = {
        variant: statistics.median(
            metrics.time_per_output_token(record) or 0
            for record in records
            if (record.variant, record.case) == (variant, "counting")
        )
        for variant in ("Base", "SD")
    }
    assert 2 < times["Base"] / times["SD"] < 4  # 3 by the schedule

    page = PAGE.read_text(encoding="utf-8")
    for path in folder.iterdir():
        name = "*.png" if path.suffix == ".png" else path.name + "/" * path.is_dir()
        assert f"`{name}`" in page, "it says what a run leaves"

    url = aws["AWS_ENDPOINT_URL"]
    s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-2", **CREDENTIALS)
    listed = s3.list_objects_v2(Bucket="results-bucket")["Contents"]
    local = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {entry["Key"] for entry in listed} >= {f"results/run-1/{name}" for name in local}
    stored = s3.get_object(Bucket="results-bucket", Key="results/run-1/ledger.jsonl")
    assert stored["Body"].read() == (folder / "ledger.jsonl").read_bytes()

    cloudwatch = boto3.client(
        "cloudwatch", endpoint_url=url, region_name="us-east-2", **CREDENTIALS
    )
    pages = cloudwatch.get_paginator("list_metrics").paginate(
        Namespace=names.namespace("Qwen/Qwen3-32B")
    )
    assert {metric["MetricName"] for page in pages for metric in page["Metrics"]} == {
        metric.name for metric in (*metrics.METRICS, *metrics.TOTALS)
    }
    listed = cloudwatch.list_metrics(
        Namespace=names.namespace("Qwen/Qwen3-32B"), MetricName="TTFT"
    )["Metrics"]
    dimensions = {tuple((d["Name"], d["Value"]) for d in metric["Dimensions"]) for metric in listed}
    assert dimensions == {
        (("Experiment", "article"), ("Variant", variant), ("TestCase", case))
        for variant in endpoints
        for case in ("counting", "sonnets")
    }
