"""One screen, at every moment of an experiment's life, and nothing changed by looking."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from deployment import guard, status
from deployment.account import Deployment
from deployment.nodes import Kind
from tests.deployment.api import Objects
from tests.deployment.conftest import with_nodes
from tests.deployment.fake_aws import FakeAws
from tests.deployment.kube import RUNNING, container, meta, pod

JOB_LABEL = "batch.kubernetes.io/job-name"


def screen_lines(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines of the screen after its headline, with single spaces and without today's date."""
    assert status.show(deployment) == 0
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} "
    lines = capsys.readouterr().out.splitlines()[1:]
    return [" ".join(line.split()).replace(today, "") for line in lines]


def test_a_cluster_that_cannot_be_reached(
    aws: FakeAws,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = screen_lines(deployment, capsys)
    assert lines == ["stacks nothing is deployed", "cost nothing is running"]
    monkeypatch.setenv("KUBERNETES_API", "http://127.0.0.1:9")
    with_nodes(aws, 1)
    screen = "\n".join(screen_lines(deployment, capsys))
    assert "cluster not known (docs/runbook.md, Reach a private API): Kubernetes: the" in screen
    assert "nodes trainium 1 asked for, at most 4" in screen
    assert "guard trainium none: its nodes run until `make stop" in screen


def node(name: str, labels: dict[str, str], *, ready: bool = True) -> dict[str, Any]:
    since = "2026-11-22T10:05:00Z"
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    return {"metadata": meta(name, labels), "status": {"conditions": [condition]}}


def job(name: str, **status: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [{"name": "c"}]}}, **status.pop("spec", {})}
    return {"metadata": meta(name), "spec": spec, "status": status}


def service(name: str) -> dict[str, Any]:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"spec": {"containers": [{"name": "vllm"}]}},
    }
    return {"metadata": meta(name, {"component": "vllm"}), "spec": spec, "status": {}}


def halfway(api: Objects) -> None:
    """One service is ready, one waits for its graph, which is compiled."""
    failed = {"type": "Failed", "status": "True", "message": "Job has reached the limit"}
    indexed = {"completionMode": "Indexed", "completions": 4}
    waiting = container("fetch-artifact", RUNNING, started=True)
    compiling = {JOB_LABEL: "compile-qwen-sd-vllm-1a2b3c4d"}
    measures = container("llmperf", RUNNING, ready=True)
    ready = container("vllm", RUNNING, ready=True)
    api.lists = {
        "nodes": [
            node("s-0", {}),
            node("s-1", {}, ready=False),
            node("t-0", {"speculative-decoding/node-group": "trainium"}),
        ],
        "jobs": [
            job("download-1a2b3c4d", completionTime="2026-11-22T10:30:00Z"),
            job("compile-qwen-sd-vllm-1a2b3c4d", active=1),
            job("compile-qwen-vllm-1a2b3c4d", failed=4, conditions=[failed]),
            job("sweep-1a2b3c4d", spec=indexed, completedIndexes="0,2", failedIndexes="1"),
        ],
        "deployments": [service("qwen-vllm"), service("qwen-sd-vllm")],
        "pods": [
            pod("qwen-vllm-1", {"app": "qwen-vllm"}, "Running", ready),
            pod("qwen-sd-vllm-1", {"app": "qwen-sd-vllm"}, "Pending", init=(waiting,)),
            pod("compile-1", compiling, "Pending", init=(waiting,)),
            pod("qwen-llmperf", {"app": "qwen-llmperf"}, "Running", measures),
        ],
    }
    api.logs = {
        "qwen-sd-vllm-1/fetch-artifact": "waiting for s3://bucket/compiled/key/\n",
        "compile-1/fetch-artifact": "waiting for s3://bucket/models/draft/\n",
        "qwen-llmperf/llmperf": "[0/63] waiting for SD\n",
    }


def test_halfway(
    aws: FakeAws, deployment: Deployment, api: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.cloudformation.add("network")
    with_nodes(aws)
    until = guard.start(deployment, Kind.TRAINIUM, 1).at
    halfway(api)
    before = len(aws.calls)
    lines = screen_lines(deployment, capsys)
    for line in (
        "stacks network, cluster, trainium: complete",
        "nodes trainium 1 of 1 ready",
        "system 1 of 2 ready",
        "jobs download complete since 2026-11-22 10:30",
        "compile-qwen-sd-vllm fetch-artifact runs: waiting for s3://bucket/models/draft/",
        "compile-qwen-vllm failed: Job has reached the limit",
        "sweep complete: 0,2 of 4, failed: 1; waits for a pod",
        "services qwen-sd-vllm fetch-artifact runs: waiting for s3://bucket/compiled/key/",
        "qwen-vllm ready since 2026-11-22 10:20",
        "run qwen-llm [0/63] waiting for SD",
    ):
        today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} "
        assert line.replace(today, "") in lines, lines
    assert any(
        line.startswith("guard trainium to 0 at ") and f"{until:%H:%M}" in line for line in lines
    )
    assert not any(":Put" in call or ":Update" in call for call in aws.calls[before:])
    assert all(request.startswith("GET ") for request in api.requests)

    api.refused.add("jobs")
    lines = screen_lines(deployment, capsys)
    assert "jobs not known: Kubernetes: 403 Forbidden" in lines
    assert "run qwen-llm [0/63] waiting for SD" in lines
