"""The embedded AWS: its process, clients for it, and checks of what a rehearsal has left there.

What is checked: the run in the bucket, and metrics for all that dashboards draw. ``python -m
rehearsal.aws`` serves on loopback, on any port, until it is ended; its first line is its URL.
"""

import contextlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import boto3

from rehearsal import RehearsalError
from rehearsal.processes import await_line, running
from spectap.names import CONFIG, NAMESPACE_SUFFIX, results_key

START_SECONDS: Final = 30.0

_KEY: Final = "rehearsal"
_NAMED: Final = 3
"""How many problems the one line of a failure names."""


class Metric(NamedTuple):
    """The identity of a CloudWatch metric."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]

    def __str__(self) -> str:
        return f"{self.name} of {' '.join(value for _, value in sorted(self.dimensions))}"


@dataclass(frozen=True)
class Aws:
    """A running embedded AWS."""

    url: str
    region: str
    account: str
    environment: Mapping[str, str]
    """Variables for processes that shall reach it, and no other AWS."""

    def client(self, service: str) -> Any:
        """A boto3 client, whatever the environment of this process says."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_KEY,
        )


@contextlib.contextmanager
def embedded_aws(region: str, log: Path) -> Iterator[Aws]:
    """Starts a server, waits until it answers, and ends it. Raises ProcessError."""
    command = [sys.executable, "-m", "rehearsal.aws"]
    with running(command, environment("http://127.0.0.1", region), log) as process:
        url = await_line(process, log, r"http://127\.0\.0\.1:\d+", START_SECONDS)
        aws = Aws(url, region, "", environment(url, region))
        yield replace(aws, account=aws.client("sts").get_caller_identity()["Account"])


def environment(url: str, region: str) -> dict[str, str]:
    """This process's environment, with ``url`` in place of AWS."""
    # No profile and no proxy of this machine may lead to a real account.
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and not name.lower().endswith("_proxy")
    }
    return variables | {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _KEY,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def download_run(aws: Aws, bucket: str, run_dir: Path) -> str:
    """Downloads everything below ``results/<its name>/`` into a folder; returns the count.

    Raises RehearsalError if no run was merged.
    """
    s3, prefix = aws.client("s3"), results_key(run_dir.name, "")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    objects = [item for page in pages for item in page.get("Contents", [])]
    for item in objects:
        path = run_dir / item["Key"].removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
    if not (run_dir / CONFIG).is_file():
        raise RehearsalError(f"s3://{bucket}/{prefix}: no variant is complete with its baseline")
    return f"{len(objects)} files from s3://{bucket}/{prefix}"


def dashboards_show(aws: Aws, template: Path, without: Collection[tuple[str, str]] = ()) -> str:
    """Checks the dashboards of a stack's template against the published metrics.

    Each of the benchmark's metrics that a dashboard draws must be published, unless it is of what
    was not measured, ``without``; and each published one must be drawn. Returns the result in
    words. Raises RehearsalError.
    """
    resources = json.loads(template.read_text(encoding="utf-8"))["Resources"].values()
    pages = aws.client("cloudwatch").get_paginator("list_metrics").paginate()
    everything = (
        Metric(
            metric["Namespace"],
            metric["MetricName"],
            frozenset((d["Name"], d["Value"]) for d in metric["Dimensions"]),
        )
        for page in pages
        for metric in page["Metrics"]
    )
    drawn, published = (
        {metric for metric in metrics if metric.namespace.endswith(NAMESPACE_SUFFIX)}
        for metrics in (_drawn(resources), everything)
    )
    problems = [
        f"{metric} is drawn and not published"
        for metric in drawn - published
        if metric.dimensions.isdisjoint(without)
    ]
    problems += [f"{metric} is on no dashboard" for metric in published - drawn]
    if problems:
        raise RehearsalError(f"dashboards: {'; '.join(sorted(problems)[:_NAMED])}")
    return f"they draw the {len(published)} published metrics"


def _drawn(resources: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """The CDK writes all rows in full: namespace, name, dimensions, and options at the end."""
    for resource in (r for r in resources if r["Type"] == "AWS::CloudWatch::Dashboard"):
        _, parts = resource["Properties"]["DashboardBody"]["Fn::Join"]
        # The only reference is the region.
        body = "".join(part if isinstance(part, str) else "region" for part in parts)
        for widget in json.loads(body)["widgets"]:
            for row in widget["properties"].get("metrics", ()):
                strings = [value for value in row if isinstance(value, str)]
                if strings:  # otherwise an expression of other rows
                    namespace, name, *words = strings
                    pairs = zip(words[::2], words[1::2], strict=True)
                    yield Metric(namespace, name, frozenset(pairs))


def _serve() -> None:
    """Serves moto, with a ListMetrics that ends, until the process is ended."""
    # Only here: whoever starts the server needs none of it, and it takes a second.
    from moto.cloudwatch.models import CloudWatchBackend
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    def distinct(backend: Any, name: str, namespace: str, dimensions: Any) -> list[Any]:
        """Each metric once. moto 5.2.5 compares each value with each, which takes minutes."""
        metrics = {
            (datum.namespace, datum.name, tuple((d.name, d.value) for d in datum.dimensions)): datum
            for datum in backend.get_all_metrics()
        }
        return [datum for datum in metrics.values() if datum.filter(namespace, name, dimensions)]

    patched: Any = CloudWatchBackend  # moto has no hook
    patched.get_filtered_metrics = distinct
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler
    )
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve()
