"""A stage that cannot reach its end says why, and ends only what is of no more use."""

import datetime
import signal
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final

import pytest

from charts.names import DEVICES, NODE_GROUP_LABEL, TRAINIUM_NODES
from charts.sweep_job import EXIT_PERMANENT
from operations import cluster, guard, nodes, pods, stages
from operations.account import Bucket, Deployment, DeploymentError
from operations.cluster import connected
from operations.nodes import Kind
from operations.stages.measure import Serve
from operations.stages.nodes import Start, closed_devices, why_no_nodes
from operations.stages.setup import Compile
from operations.stages.stage import Progress, Stage, StageFailed
from tests.experiment.files import REGION
from tests.operations.api import RUNNING, Objects, container, ended, meta, pod
from tests.operations.conftest import (
    at,
    called,
    performed,
    put,
    scale,
    sizes,
    with_cluster,
    with_nodes,
)
from tests.operations.fake_aws import FakeAws

JOB: Final = "compile-qwen-vllm-1"
POD: Final = f"{JOB}-x"
BACK_OFF: Final = {"waiting": {"reason": "CrashLoopBackOff"}}


def test_a_compile_that_failed_has_its_last_words_and_no_node(
    aws: FakeAws, deployment: Deployment, api: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    with_nodes(aws)
    died = container("compile", {"terminated": ended(1)})
    labels = {"step": "compile", "batch.kubernetes.io/job-name": JOB}
    status: dict[str, Any] = {}
    job = {"metadata": meta(JOB, {"step": "compile"}), "status": status}
    api.lists = {"pods": [pod(POD, labels, "Failed", died)], "jobs": [job]}
    looks = iter(range(100))

    def fail(kind: str) -> None:
        """It runs when it is first looked at."""
        if kind == "jobs" and next(looks) == 3:
            reason = {"reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
            status["conditions"] = [{"type": "Failed", "status": "True", **reason}]

    api.on_read = fail
    api.logs[f"{POD}/compile"] = "loading\nthe compiler left no model.pt\n"
    with pytest.raises(StageFailed, match=f"{JOB} failed: BackoffLimitExceeded"):
        performed(Compile(deployment), sys.stdout)
    output = capsys.readouterr().out
    assert f"{POD}, container compile, ended with status 1" in output
    assert "the compiler left no model.pt" in output
    assert sizes(aws) == [0, 0]


def test_nodes_that_can_never_start_are_not_left_to_start_later(
    aws: FakeAws, deployment: Deployment, api: Objects
) -> None:
    with_nodes(aws)
    reason = "VcpuLimitExceeded: you have requested more vCPU capacity"
    aws.facts.activities = [{"StatusCode": "Failed", "StatusMessage": reason}]
    with pytest.raises(StageFailed, match=f"the trainium nodes cannot start: {reason}"):
        performed(Start(deployment))
    assert (sizes(aws), api.created) == ([0, 0], [])


def test_what_failed_earlier_does_not_fail_a_start(
    aws: FakeAws, deployment: Deployment, api: Objects
) -> None:
    with_nodes(aws)
    aws.facts.activities = [{"StatusCode": "InProgress"}]
    aws.eks.groups["trainium-1"].issues = [{"code": "VcpuLimitExceeded", "message": "it failed"}]
    (group, _) = nodes.groups(deployment)
    # Nor what has run for less than 20 minutes.
    aws.facts.scaled = [{"InstanceId": "i-0", "LifecycleState": "InService"}]
    launched = aws.clock.now() - datetime.timedelta(minutes=19)
    aws.facts.instances = [{"InstanceId": "i-0", "LaunchTime": launched}]
    with connected(deployment) as client:
        why = [*why_no_nodes(client, group)]
    assert why == ["no node yet: VcpuLimitExceeded: it failed"]


@pytest.mark.parametrize(("stage", "kind"), [(Start, "trainium"), (Compile, "compile")])
def test_nodes_that_do_not_join_are_ended_with_the_reason(
    stage: type[Stage], kind: str, aws: FakeAws, deployment: Deployment, api: Objects
) -> None:
    """They run, but the cluster lacks what would make them ready."""
    with_nodes(aws)
    put(aws, "any")
    conditions = {"Ready": "False", "DiskPressure": "True"}.items()
    not_ready = {"conditions": [{"type": name, "status": value} for name, value in conditions]}
    labels = {NODE_GROUP_LABEL: kind}
    spec = {"providerID": f"aws:///{REGION}b/i-0"}
    api.lists["nodes"] = [{"metadata": meta(kind, labels), "spec": spec, "status": not_ready}]
    aws.facts.scaled = [{"InstanceId": "i-0", "LifecycleState": "InService"}]
    launched = aws.clock.now() - datetime.timedelta(minutes=21)
    aws.facts.instances = [{"InstanceId": "i-0", "LaunchTime": launched}]
    with pytest.raises(StageFailed, match=rf"i-0 of the {kind} nodes .* vpc-cni .* access entry"):
        performed(stage(deployment))
    assert sizes(aws) == [0, 0]


def nodes_with_devices(*states: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """A Trainium node, and pods on it whose containers for the devices are like these."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    labels = {NODE_GROUP_LABEL: TRAINIUM_NODES}
    pods = [
        pod(f"qwen-vllm-{number}", {"app": "qwen-vllm"}, "Pending", init=(status,))
        for number, status in enumerate(container(DEVICES, **state) for state in states)
    ]
    for each in pods:
        each["spec"]["initContainers"] = [{"name": DEVICES}]
    return {
        "nodes": [{"metadata": meta("trainium-0", labels), "status": ready}],
        "pods": pods,
    }


OPENED: Final = {"state": {"terminated": ended(0)}}


def test_nodes_are_started_once_a_pod_has_opened_their_devices_and_none_may_not(
    aws: FakeAws, deployment: Deployment, api: Objects
) -> None:
    with_nodes(aws, 1)
    api.lists = nodes_with_devices(OPENED)
    assert "1 x trn2.48xlarge, until " in performed(Start(deployment))
    assert guard.find(deployment, Kind.TRAINIUM)
    api.lists = nodes_with_devices({"state": RUNNING})
    with connected(deployment) as client:
        reason = closed_devices(client) or ""
    assert reason.startswith(f"qwen-vllm-0 is to open its devices: {DEVICES} runs")
    for states, log in (
        ([OPENED, {"state": {"terminated": ended(EXIT_PERMANENT)}}], f"qwen-vllm-1/{DEVICES}"),
        ([{"state": BACK_OFF, "last": ended(EXIT_PERMANENT)}], f"qwen-vllm-0/{DEVICES}/previous"),
    ):
        api.lists = nodes_with_devices(*states)
        api.logs = {log: "neuron-ls\nuser 10001 cannot open 8 of 8 devices\n"}
        with pytest.raises(StageFailed, match=r"user 10001 cannot open 8 of 8 devices$"):
            performed(Start(deployment))


def test_a_service_that_never_serves_is_given_up_and_its_node_stays(
    aws: FakeAws, deployment: Deployment, api: Objects
) -> None:
    with_nodes(aws, 1)
    crashed = container("vllm", BACK_OFF, last=ended(3), restarts=3)
    api.lists["pods"] = [pod("qwen-vllm-1", {"app": "qwen-vllm"}, "Running", crashed)]
    log = "[NCC_EOOM002] too much\n" + "another rank ends\n" * 60
    api.logs["qwen-vllm-1/vllm/previous"] = log
    with pytest.raises(StageFailed) as failure:
        performed(Serve(deployment))
    *lines, meaning = str(failure.value).splitlines()
    assert lines == [
        "qwen-vllm does not come to serve: 3 restarts",
        "qwen-vllm-1, container vllm, ended with status 3",
        *["  another rank ends"] * 10,
    ]
    assert meaning.startswith("NCC_EOOM002: weights, KV cache")
    with connected(deployment) as client:
        (crashing,) = cluster.pods(client)
        assert meaning in (pods.reason(client, crashing) or "")
    assert sizes(aws) == [1, 0]


def test_a_service_is_ready_once_its_newest_change_is_carried_out(
    aws: FakeAws, deployment: Deployment, api: Objects
) -> None:
    with_cluster(aws)

    def service(name: str, generation: int) -> dict[str, Any]:
        metadata = {"name": name, "generation": generation, "labels": {"component": "vllm"}}
        return {"metadata": metadata, "status": {"readyReplicas": 1, "observedGeneration": 2}}

    api.lists["deployments"] = [service("qwen-vllm", 2), service("qwen-sd-vllm", 2)]
    assert "qwen-vllm, qwen-sd-vllm are ready" in performed(Serve(deployment))
    api.lists["deployments"] = [service("qwen-vllm", 2), service("qwen-sd-vllm", 3)]
    with pytest.raises(StageFailed, match="were scaled to 0 meanwhile"):
        performed(Serve(deployment))
    assert api.created == []


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Performs one stage, which fails; returns the exit status."""

    def fails(deployment: Deployment, error: BaseException, *, terminal: bool = False) -> int:
        class Failing(Stage):
            name: ClassVar[str] = "serve"

            def perform(self, progress: Progress) -> str:
                raise error

        monkeypatch.setattr(stages, "stages", lambda deployment: [Failing(deployment)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal, raising=False)
        return stages.experiment(deployment, yes=True, again=False)

    return fails


def test_nodes_stay_only_for_somebody_who_wants_to_look(
    aws: FakeAws, api: Objects, fails: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    with_nodes(aws)
    api.refused.add("pods")  # logs that cannot be stored keep no node
    for after_failure, terminal, error, remaining in (
        ("stop", True, StageFailed, 0),
        ("keep", False, StageFailed, 0),
        ("keep", True, StageFailed, 1),
        # A run in the cluster goes on without who is out of reach, and ends its nodes itself.
        ("stop", False, DeploymentError, 1),
        # What nobody foresaw, such as of an object that a pod has written.
        ("stop", True, RecursionError, 0),
        ("keep", False, AttributeError, 0),
        ("keep", True, AttributeError, 1),
    ):
        scale(aws, 1)
        deployment = at({"capacity.after_failure": after_failure})
        assert fails(deployment, error("it never serves"), terminal=terminal) == 1
        assert sizes(aws) == [remaining, 0]
        printed = capsys.readouterr()
        assert "it never serves" in printed.err
        assert ("logs are not stored: " in printed.err) is (remaining == 0)


def test_ctrl_c_leaves_the_nodes(aws: FakeAws, api: Objects, fails: Callable[..., int]) -> None:
    with_nodes(aws, 1)
    assert fails(at({}), KeyboardInterrupt()) == 130
    assert sizes(aws) == [1, 0]


def test_the_logs_are_in_the_bucket_first(
    aws: FakeAws,
    api: Objects,
    deployment: Deployment,
    fails: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_nodes(aws, 1)
    put(aws, "any")
    again = container("vllm", RUNNING, last=ended(3), restarts=1)
    api.lists["pods"] = [pod("qwen-vllm-1", {"app": "qwen-vllm"}, "Running", again)]
    api.logs["qwen-vllm-1/vllm"] = "starts\n"
    api.logs["qwen-vllm-1/vllm/previous"] = "nrt_init failed: Größe\n"

    assert fails(deployment, StageFailed("it never serves\n  a\x1b[2J\rb")) == 1

    bucket = Bucket(deployment)
    stored = {entry["Key"] for entry in bucket.entries("logs/")}
    assert {key.partition("/qwen")[2]: bucket.read(key) for key in stored} == {
        "-vllm-1/vllm.log": b"starts\n",
        "-vllm-1/vllm.previous.log": "nrt_init failed: Größe\n".encode(),
    }
    error = capsys.readouterr().err
    assert error.startswith("it never serves\n  a\ufffd[2J\ufffdb\nlogs of all pods: s3://")
    assert sizes(aws) == [0, 0]


def test_without_a_terminal_no_node_is_started_unasked(
    aws: FakeAws, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    with_nodes(aws)
    assert called("start", deployment.file) == 1
    printed = capsys.readouterr()
    assert "1 x trn2.48xlarge: 35.76 USD an hour, for 4.0 hours at most" in printed.out
    assert printed.err == "there is no terminal to ask on; YES=1 begins without asking\n"
    assert sizes(aws) == [0, 0]
    assert not any(call.startswith("autoscaling:Put") for call in aws.calls)
    assert f"make stop EXPERIMENT={deployment.file}" in printed.out


def test_stop_asks_for_the_stack_once(aws: FakeAws, deployment: Deployment) -> None:
    with_nodes(aws, 1)
    assert called("stop", deployment.file) == 0
    assert sizes(aws) == [0, 0]
    requests = zip(aws.calls, aws.requests, strict=True)
    stacks = [r["StackName"] for call, r in requests if call == "cloudformation:DescribeStacks"]
    assert stacks.count(f"{deployment.name}-trainium") == 1
