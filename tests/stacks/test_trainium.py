from __future__ import annotations

import json
import re
from email import message_from_string
from typing import Any

import pytest
from ruamel.yaml import YAML

from experiment.runtimes import RUNTIMES, Runtime
from experiment.schema import Purchase
from stacks.cluster import KUBERNETES_VERSION
from tests.matrix import MATRIX
from tests.stacks.templates import node_group, sized
from tests.synthesis import Synthesised


def test_each_purchase_option_is_in_the_matrix() -> None:
    named = {changes.get("capacity.purchase", "on-demand") for changes in MATRIX.values()}
    assert named == set(Purchase)


def test_capacity_is_bought_as_the_experiment_says(every: Synthesised) -> None:
    purchase = every.experiment.capacity.purchase
    template, group = _template(every), _group(every)
    assert (
        group["CapacityType"]
        == {
            "on-demand": "ON_DEMAND",
            "reservation": "ON_DEMAND",
            "spot": "SPOT",
            "capacity-block": "CAPACITY_BLOCK",
        }[purchase]
    )
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}
    assert template.get("CapacityReservationSpecification") == (
        target if purchase.reserved else None
    )
    assert template.get("InstanceMarketOptions") == (
        {"MarketType": "capacity-block"} if purchase == "capacity-block" else None
    )


def test_placement_group_unless_the_capacity_is_reserved(each: Synthesised) -> None:
    is_reserved = each.experiment.capacity.purchase.reserved
    assert ("Placement" in _template(each)) is not is_reserved
    each.assertions("trainium").resource_count_is(
        "AWS::EC2::PlacementGroup", 0 if is_reserved else 1
    )


def test_ami_and_instance_type_stand_where_eks_takes_them(each: Synthesised) -> None:
    group = _group(each)
    assert group["AmiType"] == "AL2023_x86_64_NEURON"
    assert "InstanceTypes" not in group
    assert group["ReleaseVersion"] == each.experiment.serving_runtime.ami_release
    assert _template(each)["InstanceType"] == "trn2.48xlarge"


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_the_ami_is_of_the_clusters_kubernetes(runtime: Runtime) -> None:
    assert re.fullmatch(rf"{re.escape(KUBERNETES_VERSION)}\.\d+-\d{{8}}", runtime.ami_release)


def test_an_update_ends_the_old_node_before_it_asks_for_a_new_one(synthesised: Synthesised) -> None:
    assert _group(synthesised)["UpdateConfig"] == {"MaxUnavailable": 1, "UpdateStrategy": "MINIMAL"}


def test_nodes_stand_in_the_one_zone_that_has_capacity(synthesised: Synthesised) -> None:
    (subnet,) = _group(synthesised)["Subnets"]
    exported = json.dumps(subnet)
    resources = synthesised.template("network")["Resources"]
    zones = {
        resource["Properties"]["AvailabilityZone"]
        for logical_id, resource in resources.items()
        if resource["Type"] == "AWS::EC2::Subnet" and logical_id in exported
    }
    assert zones == {synthesised.experiment.capacity.availability_zone}


def test_one_efa_interface_a_card_with_the_clusters_security_group(
    synthesised: Synthesised,
) -> None:
    interfaces = _template(synthesised)["NetworkInterfaces"]
    assert [interface["NetworkCardIndex"] for interface in interfaces] == list(range(16))
    assert [interface["DeviceIndex"] for interface in interfaces] == [0] + [1] * 15
    for interface in interfaces:
        assert interface["InterfaceType"] == "efa"
        assert interface["AssociatePublicIpAddress"] is False
        assert "ClusterSecurityGroup" in json.dumps(interface["Groups"][0])


def test_fabric_security_group_is_open_to_itself_both_ways(synthesised: Synthesised) -> None:
    trainium = synthesised.assertions("trainium")
    for direction in ("Ingress", "Egress"):
        trainium.has_resource_properties(
            f"AWS::EC2::SecurityGroup{direction}", {"IpProtocol": "-1"}
        )


def test_metadata_needs_a_token_and_reaches_no_pod(synthesised: Synthesised) -> None:
    assert _template(synthesised)["MetadataOptions"] == {
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }


def test_root_volume_is_encrypted_gp3(synthesised: Synthesised) -> None:
    (mapping,) = _template(synthesised)["BlockDeviceMappings"]
    assert mapping["Ebs"]["VolumeType"] == "gp3"
    assert mapping["Ebs"]["Encrypted"] is True


def test_user_data_makes_one_file_system_of_the_nvme_disks(synthesised: Synthesised) -> None:
    message = message_from_string(_template(synthesised)["UserData"]["Fn::Base64"])
    parts = [part for part in message.walk() if not part.is_multipart()]
    assert [part.get_content_type() for part in parts] == ["application/node.eks.aws"]
    config = YAML(typ="safe").load(str(parts[0].get_payload()))
    assert config["apiVersion"] == "node.eks.aws/v1alpha1"
    assert config["spec"]["instance"]["localStorage"] == {"strategy": "RAID0"}
    # EKS adds its own part with the cluster's address.
    assert "cluster" not in config["spec"]


def test_nodes_are_tainted_labelled_and_repaired(synthesised: Synthesised) -> None:
    group = _group(synthesised)
    assert group["Taints"] == [
        {"Key": "aws.amazon.com/neuron", "Value": "present", "Effect": "NO_SCHEDULE"}
    ]
    assert group["Labels"] == {"speculative-decoding/node-group": "trainium"}
    assert group["NodeRepairConfig"] == {"Enabled": True}


def test_no_trainium_node_stands_after_a_deploy(each: Synthesised) -> None:
    """And an update takes away none that stands, if whoever deploys says that one does."""
    size = _group(each)["ScalingConfig"]
    most = each.experiment.capacity.nodes
    assert sized(each, size, "KeepTrainiumNodes", keep=False) == {
        "MinSize": 0,
        "DesiredSize": 0,
        "MaxSize": most,
    }
    assert sized(each, size, "KeepTrainiumNodes", keep=True) == {"MinSize": 0, "MaxSize": most}


def test_dra_driver_without_the_device_plugin(synthesised: Synthesised) -> None:
    ((_, chart),) = synthesised.resources("Custom::AWSCDK-EKS-HelmChart")
    values = json.loads(chart["Properties"]["Values"])
    assert values["draDriver"] == {"enabled": True}
    assert values["devicePlugin"] == {"enabled": False}
    assert chart["Properties"]["Version"] == "1.10.0"
    assert "CreateNamespace" not in chart["Properties"]
    assert chart["Properties"].get("Wait") in (None, False)
    assert chart["Properties"]["Timeout"] == "600s"
    assert any("Nodes" in dependency for dependency in chart["DependsOn"])


def _template(synthesised: Synthesised) -> dict[str, Any]:
    ((_, template),) = (
        (logical_id, resource)
        for logical_id, resource in synthesised.resources("AWS::EC2::LaunchTemplate")
        if "NetworkInterfaces" in resource["Properties"]["LaunchTemplateData"]
    )
    data: dict[str, Any] = template["Properties"]["LaunchTemplateData"]
    return data


def _group(synthesised: Synthesised) -> dict[str, Any]:
    return node_group(synthesised, "trainium")
