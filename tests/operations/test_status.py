"""How everything is on one screen; test_killed.py looks at it half-way."""

import pytest

from operations import status
from operations.account import Deployment
from tests.operations.api import Objects, container, ended, meta, pod
from tests.operations.conftest import with_nodes
from tests.operations.fake_aws import FakeAws


def screen(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert status.show(deployment) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]]


def test_a_cluster_that_cannot_be_reached(
    aws: FakeAws,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = screen(deployment, capsys)
    assert lines == ["stacks nothing is deployed"]
    monkeypatch.setenv("KUBERNETES_API", "http://127.0.0.1:9")
    with_nodes(aws, 1)
    printed = "\n".join(screen(deployment, capsys))
    assert "cluster not known (docs/runbook.md, Reach a private API): Kubernetes: the" in printed
    assert "nodes trainium 1 asked for" in printed
    assert "guard trainium none: its nodes run until `make stop" in printed


def test_what_failed_and_what_may_not_be_asked(
    aws: FakeAws, deployment: Deployment, api: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    with_nodes(aws)
    gone = {"type": "Failed", "status": "True", "message": "Job has reached the limit"}
    indexed = {"completionMode": "Indexed", "completions": 4}
    died = container("vllm", {"terminated": ended(3)})
    api.lists = {
        "jobs": [
            {"metadata": meta("compile-1a2b"), "spec": {}, "status": {"conditions": [gone]}},
            {
                "metadata": meta("sweep-1a2b"),
                "spec": indexed,
                "status": {"completedIndexes": "0,2", "failedIndexes": "1"},
            },
        ],
        "pods": [pod("qwen-llmperf", {"app": "qwen-llmperf"}, "Failed", died)],
    }
    for manifest in api.lists["jobs"]:
        manifest["spec"] |= {"template": {"spec": {"containers": [{"name": "c"}]}}}
    lines = screen(deployment, capsys)
    assert "jobs compile failed: Job has reached the limit" in lines
    assert "sweep complete: 0,2 of 4, failed: 1; waits for a pod" in lines
    assert "run qwen-llm failed: vllm ended with status 3 (Error)" in lines
    api.refused.add("jobs")
    lines = screen(deployment, capsys)
    assert "jobs not known: Kubernetes: 403 Forbidden" in lines
    assert "run qwen-llm failed: vllm ended with status 3 (Error)" in lines
    assert all(request.startswith("GET ") for request in api.requests)
