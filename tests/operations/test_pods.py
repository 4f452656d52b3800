"""Why a pod is not ready, in the words of the scheduler and of kubelets, its logs, and what is said
of a compiler's error in them.

What kubelets write is modelled on Kubernetes 1.35.4. ``tests/cluster`` asks a real scheduler.
"""

from typing import Final

import pytest
from kubernetes.client import CoreV1Event, V1Pod
from syrupy.assertion import SnapshotAssertion

from operations import pods
from operations.account import Deployment, DeploymentError
from operations.pods import meaning, why, working
from tests.operations import api as kube
from tests.operations.api import RUNNING, Objects, container, ended, event, typed_pod
from tests.operations.conftest import with_cluster
from tests.operations.fake_aws import FakeAws
from tests.snapshots import TextSnapshot, filled

WAITING = {"waiting": {"reason": "PodInitializing"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}}
CRASHED = ended(1, message="Traceback\nRuntimeError: nrt_init failed")
FETCHED = container("fetch-artifact", {"terminated": ended(0)}, ready=True)
KEEPING = container("keep-cache", RUNNING, started=True, ready=True)
FETCHING = container("fetch-artifact", RUNNING, started=True)
LOADING = container("vllm", RUNNING, started=False)
UNSCHEDULED = "0/2 nodes are available: 1 Insufficient memory. preemption: none."


def test_what_has_no_node_says_the_schedulers_newest_event() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": UNSCHEDULED}
    pod = typed_pod("Pending", node=None, conditions=[condition])
    assert why(pod) == UNSCHEDULED
    claim = event("FailedResourceClaimCreation", 'template "xl-trn2": not found', 1)
    for events in ([event("FailedScheduling", "an older one"), claim], [claim]):
        assert why(pod, events) == f"FailedResourceClaimCreation: {claim.message}"
    assert why(pod, [event("FailedScheduling", "of another pod", uid="u-2")]) == UNSCHEDULED


READY_POD: Final = container(ready=True)
STARTED: Final = (FETCHED, KEEPING)
CASES: Final[dict[str, tuple[V1Pod, list[CoreV1Event], str]]] = {
    "volume": (
        typed_pod("Pending", init=(container("fetch-artifact", WAITING),)),
        [event("Scheduled", "assigned"), event("FailedMount", "no mount-s3", 1)],
        "",
    ),
    "graph": (
        typed_pod("Pending", container("vllm", WAITING), init=(FETCHING,)),
        [],
        "waiting for s3://bucket/",
    ),
    "crash loop": (
        typed_pod("Running", container("vllm", BACK_OFF, last=CRASHED, restarts=4), init=STARTED),
        [],
        "",
    ),
    "starts": (
        typed_pod("Running", LOADING, init=STARTED),
        [event("Unhealthy", "Startup probe failed: refused")],
        "Loading weights: 40 %",
    ),
    "sidecar": (
        typed_pod(
            "Running", READY_POD, init=(FETCHED, container("keep-cache", RUNNING, started=True))
        ),
        [],
        "uploads graph 3 of 9",
    ),
    "evicted": (
        typed_pod("Failed", reason="Evicted", message="The node was low on resource: disk. "),
        [],
        "",
    ),
    "failed": (
        typed_pod("Failed", init=(container("fetch-artifact", {"terminated": ended(69)}),)),
        [],
        "",
    ),
}
"""Pods, their events, and the last line of a log."""


def test_what_is_on_a_node_says_how_its_container_is(snapshot: SnapshotAssertion) -> None:
    reasons = (filled(f"{name}: {why(*case)}") for name, case in CASES.items())
    assert "\n".join([*reasons, ""]) == snapshot(extension_class=TextSnapshot)


RANKS: Final = "ERROR [multiproc_executor.py:962] Traceback (most recent call last):\n" * 60
# After reports: vllm-neuron b3a5a71f (README.md of Qwen3.5), aws-neuron-sdk 706, 1222 and 1369.
LOGS: Final = {
    "HBM": "[NCC_EVRF009] Size of total input and output tensors exceeds HBM limit of TRN2 [...] "
    "Needed 27,029,780,748 bytes (25 GB) vs. available 25,769,803,776 bytes (24 GB)\n" + RANKS,
    "activations": "ERROR: [NCC_EOOM002] The combined memory needed\n",
    "level": "[NCC_IINAR001] ISA validation failed: Copy;\n"
    "inst failed assertion check: 'start_addr_active_channels'\n" + RANKS,
    "barrier": "RuntimeError: neuronx-cc compilation failed with 70. Check compiler logs.\n"
    '  File "vllm_neuron/parallel/neuron_parallel_state.py", line 1318, in tp_barrier\n'
    "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer\n",
    "host": "INFO:Neuron:generating HLO: context_encoding_model\nKilled\n",
    "host, by the trace": "RuntimeError: neuronx-cc failed with -9\n",
    "host, of the plugin": "RuntimeError: neuronx-cc compilation failed with -9. "
    "Check compiler logs.\n",
    "host, by bash": "compile.sh: line 12: 41 Killed                  inference_demo run\n",
    "crash of NxDI": "Command '['neuronx-cc', 'compile']' returned non-zero exit status 70.\n",
    "defect": "[NCC_INLA001] Unhandled exception\nneuronx-cc compilation failed with 70.\n",
    "load": "Failure: NRT_RESOURCE in nrt_load()\n",
    "another": "nrt_init failed; the watchdog: Killed 3 workers\n",
}


def test_the_most_telling_error_has_its_meaning(snapshot: SnapshotAssertion) -> None:
    meanings = (filled(f"{name}: {meaning(text)}") for name, text in LOGS.items())
    assert "\n".join([*meanings, ""]) == snapshot(extension_class=TextSnapshot)


def test_what_is_ready_or_has_ended_well_has_no_reason() -> None:
    for pod in (typed_pod("Succeeded"), typed_pod("Running", READY_POD)):
        assert why(pod, [event("Unhealthy", "an old one")]) is None


def test_the_container_whose_log_says_more() -> None:
    waits = container("vllm", WAITING)
    assert working(typed_pod("Pending", waits, init=(FETCHING,))) == "fetch-artifact"
    assert working(typed_pod("Pending", waits, init=STARTED)) is None
    assert working(typed_pod("Pending", LOADING, init=STARTED)) == "vllm"


def test_logs_of_what_goes_on_or_is_named(
    aws: FakeAws, deployment: Deployment, api: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    with_cluster(aws)
    download = container("download", {"terminated": ended(0)})
    crashed = container("vllm", RUNNING, restarts=1, last=ended(1), started=False)
    measures = container("llmperf", RUNNING, ready=True)
    api.lists["pods"] = [
        kube.pod("download-1", {"step": "download", "component": "prepare"}, "Succeeded", download),
        kube.pod("qwen-vllm-1", {"app": "qwen-vllm", "component": "vllm"}, "Running", crashed),
        kube.pod("qwen-llmperf", {"app": "qwen-llmperf"}, "Running", measures),
    ]
    api.logs = {
        "download-1/download": "Qwen3-32B is complete\n",
        "qwen-vllm-1/vllm": "loading\n40 %\n",
        "qwen-vllm-1/vllm/previous": "nrt_init failed\n",
        "qwen-llmperf/llmperf": "".join(f"[{n}/63] round\n" for n in range(1, 40)),
    }
    assert pods.show_logs(deployment, None) == 0
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
        assert pods.show_logs(deployment, name) == 0
        assert capsys.readouterr().out == "download-1/download | Qwen3-32B is complete\n"
    with pytest.raises(DeploymentError, match=r"there is download, .*, qwen-vllm"):
        pods.show_logs(deployment, "nothing")

    api.logs["download-1/download"] = "a\x1b[2J\bqwen-vllm-1/vllm | b\nc\n"
    assert pods.show_logs(deployment, "download") == 0
    assert capsys.readouterr().out.splitlines() == [
        "download-1/download | a\ufffd[2J\ufffdqwen-vllm-1/vllm | b",
        "download-1/download | c",
    ]

    api.lists["pods"] = api.lists["pods"][:1]
    with pytest.raises(DeploymentError, match="no pod runs or waits"):
        pods.show_logs(deployment, None)
    assert all(request.startswith("GET ") for request in api.requests)
