"""The script that restarts the services, against what stands in for the API server."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from charts.benchmark import CONFIG_PATH
from charts.scripts.relaunch import Deployments, relaunch, services
from tests.operations.api import Objects, serving
from tests.synthesis import Vary, by_name, render

OLD: Final = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
NEW: Final = OLD | {"observedGeneration": 2}
STARTS: Final = NEW | {"readyReplicas": 0}


@pytest.fixture
def api() -> Iterator[Objects]:
    with serving() as objects:
        objects.refused.add("another")
        yield objects


@pytest.fixture
def deployments(api: Objects, tmp_path: Path) -> Deployments:
    for name, text in (("namespace", "qwen"), ("token", "sesame")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Deployments(api.url, tmp_path)


def tells(api: Objects, *statuses: dict[str, int]) -> None:
    """What the Deployment ``sd`` says when it is looked at, the last from then on."""
    told = itertools.chain(statuses, itertools.repeat(statuses[-1]))
    changed = {"metadata": {"generation": 2}, "spec": {"replicas": 1}}
    api.on_read = lambda _: api.named.update({"deployments/sd": changed | {"status": next(told)}})


def test_it_returns_once_new_pods_are_ready(api: Objects, deployments: Deployments) -> None:
    """At first, all that is told is of the old pod."""
    tells(api, OLD, STARTS, STARTS, NEW)
    assert relaunch(["sd"], deployments, poll_seconds=0.01) == []
    path = "/apis/apps/v1/namespaces/qwen/deployments/sd"
    assert api.requests == [f"{m} {path}" for m in ("PATCH", "GET", "GET", "GET", "GET")]
    assert api.authorizations == {"Bearer sesame"}
    (change,) = api.changes
    assert [*change["spec"]["template"]["metadata"]["annotations"]]


def test_it_says_what_was_not_restarted(api: Objects, deployments: Deployments) -> None:
    tells(api, STARTS)
    assert relaunch(["sd"], deployments, limit_seconds=0.1, poll_seconds=0.01) == [
        "sd: after 0 s: its new pod is not ready"
    ]
    (problem,) = relaunch(["another"], deployments)
    assert problem == "another was not restarted: HTTP Error 403: Forbidden"


def test_one_pod_alone_has_the_account_that_launches_services(variation: Vary) -> None:
    objects = by_name(render(variation({"benchmark.rounds": 6, "benchmark.launches": 3})))
    name = "qwen-llmperf"
    pod, settings = objects["Pod", name], objects["ConfigMap", name]["data"]
    assert json.loads(settings["config.json"])["load"]["launches"] == 3
    account = pod["spec"]["serviceAccountName"]
    others = [
        spec
        for (kind, of), manifest in objects.items()
        if kind in ("Pod", "Job", "Deployment") and of != name
        for spec in [manifest["spec"]["template"]["spec"]]
    ]
    assert account not in {spec["serviceAccountName"] for spec in others}
    assert {spec["automountServiceAccountToken"] for spec in others} == {False}
    (container,) = pod["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    command, _, path = (variables["RELAUNCH"] or "").partition(" ")
    folder, _, script = path.rpartition("/")
    assert (command, folder, script in settings) == ("python", CONFIG_PATH, True)
    assert services(json.loads(settings["config.json"])) == ["qwen-vllm", "qwen-sd-vllm"]
