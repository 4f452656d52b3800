"""One screen, at every moment of an experiment's life, and nothing changed by looking."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deployment import guard, results
from deployment.nodes import Kind
from deployment.place import Place
from deployment.status import command
from deployment.status.screen import Row, Section, rendered
from rehearsal.aws.client import Aws
from tests.deployment import account
from tests.deployment.api import Objects, serving
from tests.deployment.kube import container, ended

Make = Callable[..., Place]
RUNNING = {"running": {"startedAt": "2026-11-22T10:00:00Z"}}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    with serving() as objects:
        monkeypatch.setenv("KUBERNETES_API", objects.url)
        yield objects


def seen(place: Place, width: int = 120) -> str:
    return "\n".join(rendered(command.sections(place), width))


def test_nothing_is_deployed(at: Make) -> None:
    assert seen(at("nothing")) == "stacks    nothing is deployed\ncost      nothing stands"


def test_half_deployed(aws: Aws, at: Make) -> None:
    place = at("half")
    account.stack(aws, place, "network")
    said = seen(place)
    assert "stacks    network: complete" in said
    assert "nodes" not in said
    assert "USD an hour" in said


def test_a_cluster_that_cannot_be_reached(
    aws: Aws, at: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_API", NOWHERE)
    place = at("private")
    account.cluster(aws, place)
    account.trainium(aws, place, 0)
    said = seen(place)
    assert "cluster   not known (docs/runbook.md, Reach a private API): Kubernetes: the API" in said
    assert "trainium  0 asked for, at most 1" in said
    assert "guard" not in said
    account.start(aws, place)
    said = seen(place)
    # Columns are as wide as what is in them.
    assert "nodes trainium 1 asked for, at most 1" in " ".join(said.split())
    assert "guard     trainium" in said
    assert "none: its nodes stand until `make stop" in said


def meta(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "speculative-decoding",
        "uid": f"{name}-uid",
        "labels": labels or {},
        "creationTimestamp": "2026-11-22T10:00:00Z",
    }


def node(name: str, group: str | None, instance: str, *, ready: bool = True) -> dict[str, Any]:
    labels = {"node.kubernetes.io/instance-type": instance}
    if group:
        labels["speculative-decoding/node-group"] = group
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": "2026-11-22T10:05:00Z",
    }
    return {"metadata": meta(name, labels), "status": {"conditions": [condition]}}


def pod(
    name: str, labels: dict[str, str], phase: str, status: dict[str, Any], *, ready: bool
) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": "2026-11-22T10:20:00Z",
    }
    spec = {
        "nodeName": "t-0",
        "initContainers": [{"name": "fetch-artifact"}, {"name": "check"}],
        "containers": [{"name": "vllm"}],
    }
    return {
        "metadata": meta(name, labels),
        "spec": spec,
        "status": {"phase": phase, "conditions": [condition], **status},
    }


def job(name: str, step: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": meta(name, {"step": step}),
        "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}, **status.pop("spec", {})},
        "status": status,
    }


def halfway(objects: Objects) -> None:
    """One service is ready, one waits for its graph, which is compiled."""
    of_job = "batch.kubernetes.io/job-name"
    objects.lists = {
        "nodes": [
            node("s-0", None, "m7i.xlarge"),
            node("s-1", None, "m7i.xlarge", ready=False),
            node("t-0", "trainium", "trn2.48xlarge"),
        ],
        "resourceclaims": [
            {
                "metadata": meta("qwen-vllm-1-devices"),
                "spec": {},
                "status": {
                    "reservedFor": [{"resource": "pods", "name": "qwen-vllm-1", "uid": "u"}],
                    "allocation": {
                        "devices": {
                            "results": [
                                {"device": f"d{n}", "driver": "d", "pool": "p", "request": "r"}
                                for n in range(8)
                            ]
                        }
                    },
                },
            },
            {"metadata": meta("qwen-sd-vllm-1-devices"), "spec": {}},
        ],
        "jobs": [
            job(
                "download-1a2b3c4d",
                "download",
                succeeded=1,
                completionTime="2026-11-22T10:30:00Z",
                conditions=[{"type": "Complete", "status": "True"}],
            ),
            job("compile-qwen-sd-vllm-1a2b3c4d", "compile", active=1),
            job(
                "compile-qwen-vllm-1a2b3c4d",
                "compile",
                failed=4,
                conditions=[
                    {"type": "Failed", "status": "True", "message": "Job has reached the limit"}
                ],
            ),
            job("qwen-lmeval-1a2b3c4d", "quality", spec={"suspend": True}),
        ],
        "deployments": [
            {
                "metadata": meta(name, {"component": "vllm"}),
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {"spec": {"containers": [{"name": "vllm"}]}},
                },
                "status": {},
            }
            for name in ("qwen-vllm", "qwen-sd-vllm")
        ],
        "pods": [
            pod(
                "qwen-vllm-1",
                {"app": "qwen-vllm"},
                "Running",
                {"containerStatuses": [container("vllm", RUNNING, ready=True)]},
                ready=True,
            ),
            pod(
                "qwen-sd-vllm-1",
                {"app": "qwen-sd-vllm"},
                "Pending",
                {"initContainerStatuses": [container("fetch-artifact", RUNNING, started=True)]},
                ready=False,
            ),
            pod(
                "compile-1",
                {of_job: "compile-qwen-sd-vllm-1a2b3c4d"},
                "Pending",
                {
                    "initContainerStatuses": [
                        container("fetch-artifact", {"terminated": ended(0)}, ready=True),
                        container("check", RUNNING, started=True),
                    ]
                },
                ready=False,
            ),
            pod(
                "qwen-llmperf",
                {"app": "qwen-llmperf"},
                "Running",
                {"containerStatuses": [container("llmperf", RUNNING, ready=True)]},
                ready=True,
            ),
        ],
    }
    objects.logs = {
        "qwen-sd-vllm-1/fetch-artifact": "waiting for s3://bucket/compiled/key/\n",
        "compile-1/check": "waiting for s3://bucket/models/draft/\n",
        "qwen-llmperf/llmperf": "[0/63] waiting for SD\n",
    }


def test_halfway(aws: Aws, at: Make, objects: Objects) -> None:
    place = at("halfway")
    account.cluster(aws, place)
    account.trainium(aws, place, 0)
    until = guard.start(place, Kind.TRAINIUM, 1).at
    halfway(objects)
    before = account.everything(aws, place)
    said = seen(place)
    lines = [" ".join(line.split()) for line in said.splitlines()]
    for line in (
        "stacks network, cluster, trainium: complete",
        "nodes trainium 1 of 1 ready: trn2.48xlarge, since 2026-11-22 10:00",
        "system 1 of 2 ready: m7i.xlarge, since 2026-11-22 10:00",
        "claims 8 devices: qwen-vllm-1",
        "qwen-sd-vllm-1-devices: no devices yet",
        "jobs download complete since 2026-11-22 10:30",
        "compile-qwen-sd-vllm check runs: waiting for s3://bucket/models/draft/",
        "compile-qwen-vllm failed: Job has reached the limit",
        "qwen-lmeval not begun: it waits until it is asked for",
        "services qwen-sd-vllm fetch-artifact runs: waiting for s3://bucket/compiled/key/",
        "qwen-vllm ready since 2026-11-22 10:20",
        "run qwen-llm [0/63] waiting for SD",
    ):
        today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} "
        assert line.replace(today, "") in lines, said
    assert any(
        line.startswith("guard trainium to 0 at ") and f"{until:%H:%M}" in line for line in lines
    )
    assert account.everything(aws, place) == before
    assert all(asked.startswith("GET ") for asked in objects.asked)


def test_indexes_tell_which_are_complete(aws: Aws, at: Make, objects: Objects) -> None:
    place = at("indexes")
    account.cluster(aws, place)
    objects.lists["jobs"] = [
        job(
            "qwen-sweep-1a2b3c4d",
            "sweep",
            spec={"completionMode": "Indexed", "completions": 4},
            completedIndexes="0,2",
            failedIndexes="1",
        )
    ]
    assert "complete: 0,2 of 4, failed: 1; waits for a pod" in seen(place)


def test_what_may_not_be_asked_is_said_and_takes_nothing_else_along(
    aws: Aws, at: Make, objects: Objects
) -> None:
    place = at("finished")
    account.cluster(aws, place)
    store, bucket = aws.client("s3"), results.bucket(place)
    store.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": aws.region})
    for name, text in {"config.json": json.dumps({"variants": []}), "_COMPLETE": ""}.items():
        store.put_object(Bucket=bucket, Key=f"results/run-1/{name}", Body=text.encode())
    objects.refused.add("jobs")
    said = seen(place)
    assert "jobs      not known: Kubernetes: 403 Forbidden" in said
    assert "results   run-1" in said
    assert "complete, " in said


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_screen_keeps_to_its_width(width: int) -> None:
    sections = [
        Section("stacks", [Row("", "network, cluster, model-store, trainium, serving: complete")]),
        Section("empty", []),
        Section("services", [Row("qwen-vllm", "ready"), Row("qwen-sd-vllm", "waits " * 60)]),
        Section("jobs", [Row("compile-with-a-very-long-name-indeed", "complete")]),
    ]
    lines = [*rendered(sections, width)]
    assert all(len(line) <= max(width, 70) for line in lines)
    assert not any("empty" in line for line in lines)
    assert sum("waits" in line for line in lines) <= 3
    texts = [line.index("ready") for line in lines if "ready" in line]
    assert texts == [10 + len("qwen-sd-vllm") + 2]
