"""Logs of what goes on, or of what is named, with the container that crashed before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deployment import logs
from deployment.errors import DeploymentError
from deployment.place import Place
from rehearsal.aws.client import Aws
from tests.deployment.account import cluster
from tests.deployment.api import Objects, serving
from tests.deployment.kube import container, ended

RUNNING = {"running": {"startedAt": "2026-11-22T10:00:00Z"}}


def pod(name: str, labels: dict[str, str], phase: str, *statuses: dict[str, Any]) -> dict[str, Any]:
    ready = "True" if phase == "Running" and all(each["ready"] for each in statuses) else "False"
    return {
        "metadata": {
            "name": name,
            "namespace": "speculative-decoding",
            "uid": f"uid-{name}",
            "labels": labels,
            "creationTimestamp": "2026-11-22T10:00:00Z",
        },
        "spec": {"nodeName": "n", "containers": [{"name": "x"}]},
        "status": {
            "phase": phase,
            "containerStatuses": [*statuses],
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    with serving() as objects:
        monkeypatch.setenv("KUBERNETES_API", objects.url)
        objects.lists["pods"] = [
            pod(
                "download-1",
                {"step": "download", "component": "prepare"},
                "Succeeded",
                container("download", {"terminated": ended(0)}),
            ),
            pod(
                "qwen-vllm-1",
                {"app": "qwen-vllm", "component": "vllm"},
                "Running",
                container("vllm", RUNNING, restarts=1, last=ended(1), started=False),
            ),
            pod(
                "qwen-llmperf",
                {"app": "qwen-llmperf", "component": "benchmark"},
                "Running",
                container("llmperf", RUNNING, ready=True),
            ),
        ]
        objects.logs = {
            "download-1/download": "Qwen3-32B is complete\n",
            "qwen-vllm-1/vllm": "loading\n40 %\n",
            "qwen-vllm-1/vllm/previous": "nrt_init failed\n",
            "qwen-llmperf/llmperf": "".join(f"[{n}/63] round\n" for n in range(1, 40)),
        }
        yield objects


def test_what_goes_on(
    aws: Aws,
    at: Callable[..., Place],
    objects: Objects,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = at("logs")
    cluster(aws, place)
    assert logs.show(place, None, follow=False) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [
        "qwen-vllm-1/vllm (before its restart) | nrt_init failed",
        "qwen-vllm-1/vllm | loading",
        "qwen-vllm-1/vllm | 40 %",
    ]
    assert said[3].startswith("qwen-vllm-1: vllm starts: 40 %; restarted once, the last one ended")
    assert said[4] == "qwen-llmperf/llmperf | [20/63] round"
    assert said[-1] == "qwen-llmperf/llmperf | [39/63] round"
    assert not any("download" in line for line in said)

    for name in ("download", "prepare", "download-1", "downl"):
        assert logs.show(place, name, follow=False) == 0
        assert capsys.readouterr().out == "download-1/download | Qwen3-32B is complete\n"
    with pytest.raises(DeploymentError, match=r"there is benchmark, download, .*, qwen-vllm"):
        logs.show(place, "nothing", follow=False)

    assert logs.show(place, "download", follow=True) == 0
    assert "Qwen3-32B is complete" in capsys.readouterr().out

    objects.logs["download-1/download"] = "a\x1b[2J\bqwen-vllm-1/vllm | b\nc\n"
    for follow in (False, True):
        assert logs.show(place, "download", follow=follow) == 0
        assert capsys.readouterr().out.splitlines() == [
            "download-1/download | a\ufffd[2J\ufffdqwen-vllm-1/vllm | b",
            "download-1/download | c",
        ]

    objects.lists["pods"] = objects.lists["pods"][:1]
    with pytest.raises(DeploymentError, match="no pod runs or waits"):
        logs.show(place, None, follow=False)
    assert all(asked.startswith("GET ") for asked in objects.asked)
