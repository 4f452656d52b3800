"""What a deploy does to nodes, cluster and bucket: read off templates, and what the CLI says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.diff.resources import consequences
from scripts.diff.stacks import Assembly, compare, impacts
from tests.diff.assemblies import Stacks, assembly
from tests.synthesis import Synthesised

Template = dict[str, Any]


def stacks(synthesised: Synthesised) -> dict[str, Template]:
    prefix = synthesised.experiment.name
    return {f"{prefix}-{name}": synthesised.template(name) for name in synthesised.stacks}


def said(old: dict[str, Template], new: dict[str, Template]) -> list[str]:
    return [*consequences(Assembly({}, old), Assembly({}, new), {})]


def found(template: Template, type_: str, begin: str = "") -> Any:
    """The properties of the one resource of that type whose logical id begins so."""
    (properties,) = (
        resource["Properties"]
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == type_ and logical_id.startswith(begin)
    )
    return properties


@pytest.fixture
def old(synthesised: Synthesised) -> dict[str, Template]:
    """The article's stacks."""
    return stacks(synthesised)


@pytest.fixture
def new(old: dict[str, Template]) -> dict[str, Template]:
    """The same, to be changed."""
    return copy.deepcopy(old)


Both = tuple[dict[str, Template], dict[str, Template]]


@pytest.fixture
def both(old: dict[str, Template], new: dict[str, Template]) -> Both:
    return old, new


def test_nothing_follows_from_nothing(both: Both) -> None:
    assert said(*both) == []


def test_nothing_runs_where_nothing_was(both: Both) -> None:
    assert said({}, both[1]) == []


def test_another_image_replaces_trainium_nodes_without_a_further_one(both: Both) -> None:
    _, new = both
    found(new["article-trainium"], "AWS::EKS::Nodegroup", "Nodes")["ReleaseVersion"] = "1.35.9-1"
    assert said(*both) == [
        "the Trainium nodes that stand are replaced, one at a time, each ended before the next "
        "starts"
    ]


def test_another_disk_replaces_them_as_well(both: Both) -> None:
    _, new = both
    template = found(new["article-trainium"], "AWS::EC2::LaunchTemplate", "LaunchTemplate")
    template["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] = 600
    assert said(*both) == [
        "the Trainium nodes that stand are replaced, one at a time, each ended before the next "
        "starts"
    ]


def test_by_the_usual_strategy_a_second_node_stands_meanwhile(both: Both) -> None:
    _, new = both
    group = found(new["article-trainium"], "AWS::EKS::Nodegroup", "Nodes")
    group["ReleaseVersion"] = "1.35.9-1"
    del group["UpdateConfig"]["UpdateStrategy"]
    assert said(*both) == [
        "the Trainium nodes that stand are replaced, one at a time: a second node for the length "
        "of the update"
    ]


def test_of_two_system_nodes_a_third_stands_meanwhile(both: Both) -> None:
    _, new = both
    template = found(new["article-cluster"], "AWS::EC2::LaunchTemplate")
    template["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] = 200
    assert said(*both) == [
        "the system nodes that stand are replaced, one at a time: a third node for the length of "
        "the update"
    ]


def test_more_nodes_may_stand(both: Both) -> None:
    _, new = both
    group = found(new["article-trainium"], "AWS::EKS::Nodegroup", "Nodes")
    group["ScalingConfig"]["MaxSize"] = 2
    assert said(*both) == ["there are at most 2 Trainium nodes in place of 1"]


def test_compiling_elsewhere_takes_a_group_away(both: Both) -> None:
    old, new = both
    resources = new["article-trainium"]["Resources"]
    (group,) = (
        logical_id
        for logical_id, its in resources.items()
        if its["Type"] == "AWS::EKS::Nodegroup" and logical_id.startswith("Compile")
    )
    del resources[group]
    assert said(old, new) == ["a group of compile nodes is deleted, with its nodes"]
    assert said(new, old) == ["a group of compile nodes is made"]


@pytest.mark.parametrize(
    ("stack", "type_", "begin", "field", "sentence"),
    [
        (
            "cluster",
            "AWS::EKS::Cluster",
            "",
            "Version",
            "the control plane of article goes from Kubernetes 1.35 to 1.99",
        ),
        (
            "trainium",
            "Custom::AWSCDK-EKS-HelmChart",
            "",
            "Version",
            "the Helm release neuron goes from 1.10.0 to 1.99",
        ),
    ],
)
def test_versions_are_said(
    both: Both, stack: str, type_: str, begin: str, field: str, sentence: str
) -> None:
    _, new = both
    found(new[f"article-{stack}"], type_, begin)[field] = "1.99"
    assert said(*both) == [sentence]


def test_versions_of_add_ons_are_said(both: Both) -> None:
    old, new = both
    pairs = (
        (its["Properties"], old["article-cluster"]["Resources"][logical_id]["Properties"])
        for logical_id, its in new["article-cluster"]["Resources"].items()
        if its["Type"] == "AWS::EKS::Addon"
    )
    changed, before = next((new, old) for new, old in pairs if "AddonVersion" in new)
    changed["AddonVersion"] = "v9"
    assert said(*both) == [
        f"the add-on {changed['AddonName']} goes from {before['AddonVersion']} to v9"
    ]


def test_the_bucket_stays_whatever_changes_of_it(both: Both) -> None:
    old, new = both
    bucket = found(new["article-model-store"], "AWS::S3::Bucket")
    bucket["LifecycleConfiguration"] = {"Rules": []}
    assert said(*both) == ["the bucket stays, with all that is in it"]
    for logical_id, its in [*new["article-model-store"]["Resources"].items()]:
        if its["Type"] == "AWS::S3::Bucket":
            del new["article-model-store"]["Resources"][logical_id]
    assert said(old, new) == ["the bucket stays, though no stack has it any more"]


def test_a_stack_that_goes_stays_as_it_is(both: Both) -> None:
    old, new = both
    del new["article-budget"]
    assert said(old, new) == [
        "the stack article-budget stays as it is, since a deploy deletes none"
    ]
    assert said(new, old) == ["the stack article-budget is new"]


def test_what_is_retained_stays_without_a_stack(both: Both) -> None:
    _, new = both
    resources = new["article-cluster"]["Resources"]
    (logs,) = (key for key, its in resources.items() if key.startswith("ControlPlaneLogs"))
    del resources[logs]
    assert said(*both) == [f"AWS::Logs::LogGroup {logs} stays, though no stack has it any more"]


GROUP: Final = {
    "ClusterName": "c",
    "NodeRole": "arn:aws:iam::123456789012:role/r",
    "Subnets": ["subnet-1"],
    "AmiType": "AL2023_x86_64_NEURON",
    "ScalingConfig": {"MinSize": 0, "MaxSize": 1},
    "Labels": {"speculative-decoding/node-group": "trainium"},
}
CLUSTER: Final = {"Name": "c", "RoleArn": "arn:aws:iam::123456789012:role/r", "Version": "1.35"}


def _stacks(**names: str) -> Stacks:
    """One of each, with properties of which another value replaces the resource."""
    kept = {"UpdateReplacePolicy": "Retain", "DeletionPolicy": "Retain"}
    return {
        "stack": {
            "Group": {
                "Type": "AWS::EKS::Nodegroup",
                "Properties": GROUP | {"AmiType": names["ami"]},
            },
            "Cluster": {
                "Type": "AWS::EKS::Cluster",
                "Properties": CLUSTER | {"Name": names["name"]},
            },
            "Kept": _bucket(names["name"]) | kept,
            "Lost": _bucket(f"lost-{names['name']}"),
            "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": names["name"]}},
        }
    }


def _bucket(name: str) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}}


def test_what_the_cli_says_is_replaced_is_said_in_words(tmp_path: Path) -> None:
    before = assembly(tmp_path / "base", _stacks(ami="AL2_x86_64", name="one"))
    after = assembly(tmp_path / "head", _stacks(ami="AL2023_x86_64_NEURON", name="two"))
    impact = impacts(compare(before, after, tmp_path / "cdk", colour=False))
    assert [*consequences(before, after, impact)] == [
        "the group of Trainium nodes is replaced: a new one is made, then the old one deleted",
        "the cluster is replaced: everything that runs in it ends",
        "the bucket is replaced by an empty one; the old one stays",
        "the bucket is replaced by an empty one; what is in the old one is lost",
        "AWS::SQS::Queue Queue is replaced",
    ]
    coloured = impacts(compare(before, after, tmp_path / "colour", colour=True))
    assert coloured == impact
