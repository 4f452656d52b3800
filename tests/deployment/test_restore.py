"""Objects that are gone are made again from the manifests, before any node is paid for."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cdk8s
import pytest

from charts.deployed import Deployed
from charts.manifests import charts
from deployment import lifecycle
from deployment.console import Console
from deployment.place import Place
from deployment.stages.order import stages
from deployment.stages.restore import Restore
from deployment.stages.shown import Shown
from deployment.stages.stage import Way
from experiment.schema import CompileNode
from rehearsal.aws.client import Aws
from tests.deployment.api import Objects
from tests.deployment.test_stages_failures import place_with_nodes

At = Callable[..., Place]
APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


PLURALS: Final = {"NetworkPolicy": "networkpolicies"}


@pytest.fixture
def place(
    aws: Aws,
    at: At,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    """With the article's manifests in its assembly."""
    number = request.session.items.index(request.node)
    place = place_with_nodes(aws, at, f"restored-{number}")
    deployed = Deployed("bucket", "image:1")
    rendered = [
        manifest
        for chart in charts(cdk8s.App(), place.experiment, deployed)
        for manifest in chart.to_json()
    ]
    resource = {
        "Type": "Custom::AWSCDK-EKS-KubernetesResource",
        "Properties": {"Manifest": json.dumps(rendered)},
    }
    others = {"Type": "AWS::EKS::PodIdentityAssociation", "Properties": {}}
    template = json.dumps({"Resources": {"Identity": others, "Everything": resource}})
    (tmp_path / f"{place.name}-serving.template.json").write_text(template)
    monkeypatch.setattr(lifecycle, "ASSEMBLY", tmp_path)
    return place


@pytest.fixture
def manifests(place: Place, api: Objects) -> list[dict[str, Any]]:
    """All of them, which are in the cluster."""
    found = lifecycle.manifests(place)
    api.named |= {_key(m["kind"], m["metadata"]["name"]): m for m in found}
    return found


def _key(kind: str, name: str) -> str:
    return f"{PLURALS.get(kind, f'{kind.lower()}s')}/{name}"


def performed(place: Place) -> str:
    log = io.StringIO()
    console = Console(1, log)
    with console.stage("objects") as line:
        line.found = Restore(Way(place)).perform(Shown(console, line, poll_seconds=0.01))
    return log.getvalue()


def test_objects_are_looked_for_before_any_node(at: At) -> None:
    place = at("article")
    names = [stage.name for stage in stages(Way(place))]
    assert place.experiment.compile_node is CompileNode.CPU
    assert names.index("deploy") < names.index("objects") < names.index("compile")


def test_where_none_is_gone_none_is_made(
    place: Place, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    assert Restore(Way(place)).there() == f"all {len(manifests)} exist"
    assert "nothing was missing" in performed(place)
    assert api.made == []


def test_a_pod_that_is_gone_is_made_again_as_the_deploy_made_it(
    place: Place, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    api.named["pods/qwen-llmperf"] = None
    (wanted,) = (m for m in manifests if m["kind"] == "Pod")
    assert Restore(Way(place)).there() is None
    assert "Pod qwen-llmperf" in performed(place)
    (pod,) = api.made
    assert json.loads(pod["metadata"]["annotations"][APPLIED]) == wanted
    assert pod["spec"] == wanted["spec"]
    assert Restore(Way(place)).there() is not None


def test_every_kind_can_be_made(
    place: Place, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    api.named = dict.fromkeys(api.named)
    performed(place)
    assert [made["kind"] for made in api.made] == [m["kind"] for m in manifests]
    assert "POST /api/v1/namespaces" in api.asked
    assert "POST /api/v1/namespaces/speculative-decoding/pods" in api.asked


class Going(dict[str, dict[str, Any] | None]):
    """Where an object is still there when it is first looked at, and then is not."""

    looks = 0

    def __getitem__(self, key: str) -> dict[str, Any] | None:
        if key == "networkpolicies/default-deny":
            self.looks += 1
            if self.looks == 3:
                self[key] = None
        return super().__getitem__(key)


def test_one_that_is_being_deleted_is_waited_for(
    place: Place, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    (policy,) = (m for m in manifests if m["metadata"]["name"] == "default-deny")
    ending = {**policy["metadata"], "deletionTimestamp": "2026-11-22T10:00:00Z"}
    api.named = Going(api.named)
    api.named["networkpolicies/default-deny"] = {**policy, "metadata": ending}
    assert Restore(Way(place)).there() is None
    assert "still being deleted: NetworkPolicy default-deny" in performed(place)
    assert [made["kind"] for made in api.made] == ["NetworkPolicy"]
