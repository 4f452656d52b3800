"""What comes before anything costs: stacks in every state, and objects that are gone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import cdk8s
import pytest

from charts.manifests import charts
from charts.names import Deployed
from deployment import lifecycle
from deployment.account import Deployment, DeploymentError
from deployment.lifecycle import Stack
from deployment.preflight import Status
from deployment.preflight.table import CHECKS
from deployment.stages import setup
from deployment.stages.setup import Check, Restore
from deployment.stages.stage import Context
from rehearsal.aws.client import Aws
from tests.deployment import account
from tests.deployment.api import Objects
from tests.deployment.conftest import At, performed

APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
PLURALS: Final = {"NetworkPolicy": "networkpolicies"}
TEMPLATE: Final = {"Resources": {"Alarm": {"Description": "schneller als „Größe“ 🎉", "Value": 1}}}
(STACKS,) = (check for check in CHECKS if check.subject == "stacks")


def with_states(aws: Aws, at: At, states: Sequence[str]) -> Deployment:
    """Has the network's stack be in each of these states, look after look; the last one stays."""
    deployment = at("-".join(states).lower().replace("_", "-")[:20].rstrip("-"))
    account.stack(aws, deployment, "network")
    states_seen = itertools.chain(states, itertools.repeat(states[-1]))

    def tell(parsed: dict[str, Any], **_: Any) -> None:
        for stack in parsed.get("Stacks", []):
            stack["StackStatus"] = next(states_seen)

    events = deployment.client("cloudformation").meta.events
    events.register("after-call.cloudformation.DescribeStacks", tell)
    return deployment


@pytest.mark.parametrize(
    "states",
    [
        ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_COMPLETE"],
        ["CREATE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS", "ROLLBACK_COMPLETE"],
    ],
)
def test_a_deploy_that_goes_on_is_waited_for(
    aws: Aws, at: At, states: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = with_states(aws, at, states)
    monkeypatch.setattr(setup, "checks", STACKS.findings)
    shown = performed(Check(Context(deployment)))
    assert f"{deployment.name}-network is {states[0]} (" in shown
    assert "1 checks" in shown


@pytest.mark.parametrize(
    ("state", "status", "words"),
    [
        ("REVIEW_IN_PROGRESS", Status.OK, "1 of 7 exist"),
        ("UPDATE_ROLLBACK_COMPLETE", Status.OK, "1 of 7 exist"),
        ("ROLLBACK_COMPLETE", Status.WARNING, "a deploy deletes it and makes it anew"),
        ("UPDATE_FAILED", Status.REFUSED, "cdk rollback"),
        ("UPDATE_ROLLBACK_FAILED", Status.REFUSED, "cdk rollback"),
        ("DELETE_IN_PROGRESS", Status.REFUSED, "wait until the destroy has ended, then begin"),
        ("DELETE_FAILED", Status.REFUSED, "make destroy EXPERIMENT="),
    ],
)
def test_any_other_state_is_said_at_once(
    aws: Aws, at: At, state: str, status: Status, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = with_states(aws, at, [state])
    (finding,) = STACKS.findings(deployment)
    assert finding.status is status
    assert words in f"{finding.text}; {finding.remedy}"
    monkeypatch.setattr(setup, "checks", lambda _: [finding])
    if status is Status.REFUSED:
        with pytest.raises(DeploymentError, match="1 of 1 checks refuse"):
            performed(Check(Context(deployment)))
    else:
        assert "1 checks" in performed(Check(Context(deployment)))


class CloudFormation:
    """Keeps ASCII, as the real one does of a template's body."""

    def get_template(self, **_: Any) -> dict[str, Any]:
        text = json.dumps(TEMPLATE, ensure_ascii=False)
        return {"TemplateBody": json.loads("".join(c if c.isascii() else "?" for c in text))}


@pytest.mark.parametrize(
    ("status", "field", "same"),
    [
        ("UPDATE_COMPLETE", {}, True),  # text beyond ASCII is not deployed each time
        ("UPDATE_COMPLETE", {"Description": "langsamer als „Größe“ 🎉"}, False),
        ("UPDATE_COMPLETE", {"Value": 2}, False),
        ("ROLLBACK_COMPLETE", {}, False),
        (None, {}, False),
    ],
)
def test_a_stack_is_unchanged_only_at_rest_with_the_same_template(
    at: At,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: str | None,
    field: dict[str, Any],
    same: bool,
) -> None:
    article = at("article")
    clients = {("cloudformation", article.region): CloudFormation()}
    deployment = Deployment(article.experiment, article.file, article.account, clients)
    monkeypatch.setattr(lifecycle, "ASSEMBLY", tmp_path)
    wanted = {"Resources": {"Alarm": TEMPLATE["Resources"]["Alarm"] | field}}
    (tmp_path / "a.template.json").write_text(json.dumps(wanted, ensure_ascii=False))
    assert lifecycle.unchanged(deployment, Stack("a", article.region, status)) is same


@pytest.fixture
def deployment(
    aws: Aws,
    at: At,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Deployment:
    """With the article's manifests in its assembly."""
    number = request.session.items.index(request.node)
    deployment = at(f"restored-{number}")
    account.cluster(aws, deployment)
    rendered = [
        manifest
        for chart in charts(cdk8s.App(), deployment.experiment, Deployed("bucket", "image:1"))
        for manifest in chart.to_json()
    ]
    resource = {
        "Type": "Custom::AWSCDK-EKS-KubernetesResource",
        "Properties": {"Manifest": json.dumps(rendered)},
    }
    others = {"Type": "AWS::EKS::PodIdentityAssociation", "Properties": {}}
    template = json.dumps({"Resources": {"Identity": others, "Everything": resource}})
    (tmp_path / f"{deployment.name}-serving.template.json").write_text(template)
    monkeypatch.setattr(lifecycle, "ASSEMBLY", tmp_path)
    return deployment


@pytest.fixture
def manifests(deployment: Deployment, api: Objects) -> list[dict[str, Any]]:
    """All of them, which are in the cluster."""
    manifests = lifecycle.manifests(deployment)
    for manifest in manifests:
        kind = manifest["kind"]
        plural = PLURALS.get(kind, f"{kind.lower()}s")
        api.named[f"{plural}/{manifest['metadata']['name']}"] = manifest
    return manifests


def test_a_pod_that_is_gone_is_made_again_as_the_deploy_made_it(
    deployment: Deployment, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    stage = Restore(Context(deployment))
    assert stage.existing() == f"all {len(manifests)} exist"
    assert "nothing was missing" in performed(stage)
    assert api.made == []

    api.named["pods/qwen-llmperf"] = None
    (wanted,) = (m for m in manifests if m["kind"] == "Pod")
    assert stage.existing() is None
    assert "Pod qwen-llmperf made again" in performed(stage)
    (pod,) = api.made
    assert json.loads(pod["metadata"]["annotations"][APPLIED]) == wanted
    assert pod["spec"] == wanted["spec"]
    assert stage.existing() is not None


def test_every_kind_can_be_made(
    deployment: Deployment, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    api.named = dict.fromkeys(api.named)
    performed(Restore(Context(deployment)))
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
    deployment: Deployment, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    (policy,) = (m for m in manifests if m["metadata"]["name"] == "default-deny")
    ending = {**policy["metadata"], "deletionTimestamp": "2026-11-22T10:00:00Z"}
    api.named = Going(api.named)
    api.named["networkpolicies/default-deny"] = {**policy, "metadata": ending}
    assert Restore(Context(deployment)).existing() is None
    assert "still being deleted: NetworkPolicy default-deny" in performed(
        Restore(Context(deployment))
    )
    assert [made["kind"] for made in api.made] == ["NetworkPolicy"]
