"""Logs of what runs, or of what is named, with the container that crashed before."""

from __future__ import annotations

import pytest

from deployment import logs
from deployment.account import Deployment, DeploymentError
from tests.deployment.api import Objects
from tests.deployment.conftest import with_cluster
from tests.deployment.fake_aws import FakeAws
from tests.deployment.kube import RUNNING, container, ended, pod


def test_what_goes_on(
    aws: FakeAws, deployment: Deployment, api: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    with_cluster(aws)
    download = container("download", {"terminated": ended(0)})
    crashed = container("vllm", RUNNING, restarts=1, last=ended(1), started=False)
    measures = container("llmperf", RUNNING, ready=True)
    api.lists["pods"] = [
        pod("download-1", {"step": "download", "component": "prepare"}, "Succeeded", download),
        pod("qwen-vllm-1", {"app": "qwen-vllm", "component": "vllm"}, "Running", crashed),
        pod("qwen-llmperf", {"app": "qwen-llmperf"}, "Running", measures),
    ]
    api.logs = {
        "download-1/download": "Qwen3-32B is complete\n",
        "qwen-vllm-1/vllm": "loading\n40 %\n",
        "qwen-vllm-1/vllm/previous": "nrt_init failed\n",
        "qwen-llmperf/llmperf": "".join(f"[{n}/63] round\n" for n in range(1, 40)),
    }
    assert logs.show(deployment, None) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == [
        "qwen-vllm-1/vllm (before its restart) | nrt_init failed",
        "qwen-vllm-1/vllm | loading",
        "qwen-vllm-1/vllm | 40 %",
    ]
    assert printed[3].startswith("qwen-vllm-1: vllm starts: 40 %: restarted 1 times, before ended")
    assert printed[4] == "qwen-llmperf/llmperf | [20/63] round"
    assert printed[-1] == "qwen-llmperf/llmperf | [39/63] round"
    assert not any("download" in line for line in printed)

    for name in ("download", "prepare", "download-1", "downl"):
        assert logs.show(deployment, name) == 0
        assert capsys.readouterr().out == "download-1/download | Qwen3-32B is complete\n"
    with pytest.raises(DeploymentError, match=r"there is download, .*, qwen-vllm"):
        logs.show(deployment, "nothing")

    api.logs["download-1/download"] = "a\x1b[2J\bqwen-vllm-1/vllm | b\nc\n"
    assert logs.show(deployment, "download") == 0
    assert capsys.readouterr().out.splitlines() == [
        "download-1/download | a\ufffd[2J\ufffdqwen-vllm-1/vllm | b",
        "download-1/download | c",
    ]

    api.lists["pods"] = api.lists["pods"][:1]
    with pytest.raises(DeploymentError, match="no pod runs or waits"):
        logs.show(deployment, None)
    assert all(request.startswith("GET ") for request in api.requests)
