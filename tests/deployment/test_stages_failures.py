"""A stage that cannot reach its end says why, and ends only what is of no more use."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

import pytest
from botocore.awsrequest import AWSResponse

from charts.claims import DRIVER
from charts.indexes import NEVER
from charts.names import DEVICES, NODE_GROUP_LABEL, TRAINIUM_NODES
from deployment import guard, nodes
from deployment.console import Console
from deployment.nodes import Kind
from deployment.place import Place
from deployment.stages.prepare import Compile
from deployment.stages.serve import Serve
from deployment.stages.shown import Shown
from deployment.stages.stage import Stage, StageFailed, Way
from deployment.stages.standing import screen
from deployment.stages.start import Start
from deployment.stages.waiting import why_no_nodes
from rehearsal.aws.client import Aws
from tests.deployment import account
from tests.deployment.api import Objects
from tests.deployment.groups import sizes, stand
from tests.deployment.kube import container, ended

At = Callable[..., Place]
JOB: Final = "compile-qwen-vllm-1"
POD: Final = f"{JOB}-x"


def performed(stage: Stage) -> tuple[StageFailed, str]:
    """What a stage fails with, and what it has shown."""
    log = io.StringIO()
    console = Console(1, log)
    with console.stage(stage.name) as line, pytest.raises(StageFailed) as failure:
        stage.perform(Shown(console, line, poll_seconds=0))
    return failure.value, log.getvalue()


def place_with_nodes(aws: Aws, at: At, name: str, changes: dict[str, Any] | None = None) -> Place:
    place = at(name, changes)
    stand(aws, place)
    administrator = account.role(aws, f"{name}-administrator")
    account.stack(aws, place, "cluster", {"AdministratorRole": administrator})
    return place


def scaled_by_hand(aws: Aws, place: Place, size: int) -> None:
    aws.client("eks").update_nodegroup_config(
        clusterName=place.name, nodegroupName="its-nodes", scalingConfig={"desiredSize": size}
    )


def job(*, failed: bool) -> dict[str, Any]:
    """One that runs, or that Kubernetes has given up."""
    reason = {"reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
    given_up = [{"type": "Failed", "status": "True", **reason}] if failed else []
    labels = {"step": "compile"}
    return {"metadata": {"name": JOB, "labels": labels}, "status": {"conditions": given_up}}


class Changing(dict[str, list[dict[str, Any]]]):
    """Jobs that run when they are first looked at, and have failed later."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        if key == "jobs":
            self.looks += 1
            return [job(failed=self.looks > 3)]
        return super().get(key, default)


def pod(name: str, labels: dict[str, str], status: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "speculative-decoding", "uid": name, "labels": labels}
    metadata |= {"creationTimestamp": "2026-11-22T10:00:00Z"}
    spec = {"nodeName": "any", "containers": [{"name": "vllm", "image": "any"}]}
    return {"metadata": metadata, "spec": spec, "status": status}


def test_a_compile_that_failed_has_its_last_words_and_no_node(
    aws: Aws, at: At, api: Objects
) -> None:
    place = place_with_nodes(aws, at, "broken")
    died = container("compile", {"terminated": ended(1, finishedAt="2026-11-22T10:00:00Z")})
    labels = {"step": "compile", "batch.kubernetes.io/job-name": JOB}
    api.lists = Changing(pods=[pod(POD, labels, {"phase": "Failed", "containerStatuses": [died]})])
    api.logs[f"{POD}/compile"] = "loading\nthe compiler left no model.pt\n"

    failure, shown = performed(Compile(Way(place)))

    assert str(failure) == (f"{JOB} failed: BackoffLimitExceeded: Job has reached the limit")
    assert f"{POD}, container compile, ended with status 1" in shown
    assert "the compiler left no model.pt" in shown
    assert sizes(place) == {"trainium": 0, "compile": 0}


def activity(place: Place, status: str, said: str) -> None:
    """The newest of every Auto Scaling group."""
    newest = {"StatusCode": status, "StatusMessage": said}
    answer = (AWSResponse("", 200, {}, None), {"Activities": [newest]})
    event = "before-call.auto-scaling.DescribeScalingActivities"
    place.client("autoscaling").meta.events.register(event, lambda **_: answer)


def issue(place: Place, code: str) -> None:
    """Which EKS has told of since an attempt failed."""

    def add(parsed: dict[str, Any], **_: Any) -> None:
        parsed["nodegroup"]["health"] = {"issues": [{"code": code, "message": "it failed"}]}

    place.client("eks").meta.events.register("after-call.eks.DescribeNodegroup", add)


def test_nodes_that_can_never_start_are_not_left_to_start_later(
    aws: Aws, at: At, api: Objects
) -> None:
    assert api.url
    place = place_with_nodes(aws, at, "over-quota")
    activity(place, "Failed", "VcpuLimitExceeded: you have requested more vCPU capacity")
    failure, _ = performed(Start(Way(place)))
    assert str(failure).startswith("the trainium nodes cannot start: VcpuLimitExceeded")
    assert sizes(place)["trainium"] == 0


def test_who_does_not_wait_for_the_last_screen_still_gets_the_ways_on(
    aws: Aws, at: At, api: Objects
) -> None:
    assert api.url
    place = place_with_nodes(aws, at, "hasty")

    def again(**_: Any) -> None:
        raise KeyboardInterrupt

    place.client("eks").meta.events.register("before-call.eks.DescribeNodegroup", again)
    lines = [*screen(place)]
    assert "  nodes: not asked" in lines
    assert f"To end the nodes: make stop EXPERIMENT={place.file}" in lines


def test_what_failed_earlier_does_not_fail_a_start(aws: Aws, at: At) -> None:
    place = place_with_nodes(aws, at, "granted")
    activity(place, "InProgress", "")
    issue(place, "VcpuLimitExceeded")
    group = nodes.find(place, Kind.TRAINIUM)
    assert [*why_no_nodes(place, group)] == ["no node yet: VcpuLimitExceeded: it failed"]


def nodes_with_devices(devices: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """A Trainium node, and a service's pod on it whose container ``devices`` is like that."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    pool = {"name": "trainium-0", "generation": 1, "resourceSliceCount": 1}
    node = {
        "name": "trainium-0",
        "labels": {NODE_GROUP_LABEL: TRAINIUM_NODES},
        "creationTimestamp": "2026-11-23T10:00:00Z",
    }
    own = pod("qwen-vllm-1", {"app": "qwen-vllm"}, {"phase": "Pending"})
    own["spec"]["initContainers"] = [{"name": DEVICES, "image": "any"}]
    own["status"]["initContainerStatuses"] = [container(DEVICES, **devices)]
    return {
        "nodes": [{"metadata": node, "status": ready}],
        "resourceslices": [{"spec": {"driver": DRIVER, "nodeName": "trainium-0", "pool": pool}}],
        "pods": [own],
    }


@pytest.mark.parametrize("restarted", [False, True])
def test_devices_that_nobody_may_open_fail_the_start(
    aws: Aws, at: At, api: Objects, *, restarted: bool
) -> None:
    place = place_with_nodes(aws, at, f"closed-{restarted}".lower())
    refused = ended(NEVER, finishedAt="2026-11-22T10:00:00Z")
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    api.lists = nodes_with_devices(
        {"state": waits, "last": refused} if restarted else {"state": {"terminated": refused}}
    )
    previous = "/previous" if restarted else ""
    api.logs[f"qwen-vllm-1/{DEVICES}{previous}"] = (
        "neuron-ls\nuser 10001 cannot open 8 of 8 devices\n"
    )

    failure, _ = performed(Start(Way(place)))

    assert str(failure).splitlines()[-1].strip() == "user 10001 cannot open 8 of 8 devices"


def test_a_pod_that_opened_its_devices_does_not_hide_one_that_may_not(
    aws: Aws, at: At, api: Objects
) -> None:
    place = place_with_nodes(aws, at, "beside")
    api.lists = nodes_with_devices({"state": {"terminated": ended(NEVER)}})
    (refused,) = api.lists["pods"]
    (opened,) = nodes_with_devices({"state": {"terminated": ended(0)}})["pods"]
    opened["metadata"]["name"] = "qwen-base-vllm-1"
    api.lists["pods"] = [opened, refused]
    api.logs[f"qwen-vllm-1/{DEVICES}"] = "user 10001 cannot open 8 of 8 devices\n"

    failure, _ = performed(Start(Way(place)))

    assert str(failure).splitlines()[-1].strip() == "user 10001 cannot open 8 of 8 devices"


def test_nodes_are_started_once_a_pod_has_opened_its_devices(
    aws: Aws, at: At, api: Objects
) -> None:
    place = place_with_nodes(aws, at, "open")
    api.lists = nodes_with_devices({"state": {"running": {"startedAt": "2026-11-22T10:00:00Z"}}})
    guard.start(place, Kind.TRAINIUM, 1)
    assert Start(Way(place)).there() is None
    api.lists = nodes_with_devices({"state": {"terminated": ended(0)}})
    assert "1 x trn2.48xlarge" in (Start(Way(place)).there() or "")


def test_a_service_that_never_serves_is_given_up_and_its_node_stays(
    aws: Aws, at: At, api: Objects
) -> None:
    place = place_with_nodes(aws, at, "crashing")
    scaled_by_hand(aws, place, 1)
    died = ended(3, finishedAt="2026-11-22T10:00:00Z")
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashing = container("vllm", waits, last=died, restarts=3)
    status = {"phase": "Running", "containerStatuses": [crashing]}
    api.lists["pods"] = [pod("qwen-vllm-1", {"app": "qwen-vllm"}, status)]
    api.logs["qwen-vllm-1/vllm/previous"] = "nrt_init failed\n"

    failure, _ = performed(Serve(Way(place)))

    assert str(failure).splitlines() == [
        "qwen-vllm does not come to serve: 3 restarts",
        "qwen-vllm-1, container vllm, ended with status 3",
        "  nrt_init failed",
    ]
    assert sizes(place)["trainium"] == 1


def test_services_whose_nodes_are_gone_are_not_waited_for(aws: Aws, at: At, api: Objects) -> None:
    assert api.url
    failure, _ = performed(Serve(Way(place_with_nodes(aws, at, "fallen"))))
    assert "were scaled to 0 meanwhile" in str(failure)


def test_services_that_are_ready_are_there(aws: Aws, at: At, api: Objects) -> None:
    place = place_with_nodes(aws, at, "ready")
    ready = {"readyReplicas": 1, "observedGeneration": 2}

    def deployed(name: str, generation: int) -> dict[str, Any]:
        metadata = {"name": name, "generation": generation, "labels": {"component": "vllm"}}
        return {"metadata": metadata, "status": ready}

    api.lists["deployments"] = [deployed("qwen-vllm", 2), deployed("qwen-sd-vllm", 3)]
    assert Serve(Way(place)).there() is None  # a change of one is not carried out yet
    api.lists["deployments"] = [deployed("qwen-vllm", 2), deployed("qwen-sd-vllm", 2)]
    assert Serve(Way(place)).there() == "qwen-vllm, qwen-sd-vllm are ready"


def test_nodes_that_stand_unguarded_are_not_there_yet(aws: Aws, at: At, api: Objects) -> None:
    assert api.url
    place = place_with_nodes(aws, at, "loose")
    scaled_by_hand(aws, place, 1)
    assert Start(Way(place)).there() is None
