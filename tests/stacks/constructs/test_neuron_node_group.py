"""How Neuron nodes are bought, reach each other and start, in any cluster."""

from typing import Any

import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.assertions import Template

from tests.stacks.constructs.cluster import imported, neuron_nodes

RESERVATION = "cr-0123456789abcdef0"
RESERVED = {"CapacityReservationTarget": {"CapacityReservationId": RESERVATION}}


def _template(**changes: Any) -> Template:
    stack, cluster = imported()
    neuron_nodes(stack, cluster, **changes)
    return Template.from_stack(stack)


def _properties(template: Template, type_: str) -> dict[str, Any]:
    (resource,) = template.find_resources(type_).values()
    return dict(resource["Properties"])


@pytest.mark.parametrize(
    ("capacity", "reservation", "market"),
    [
        ("ON_DEMAND", None, None),
        ("SPOT", None, None),
        ("ON_DEMAND", RESERVATION, None),
        ("CAPACITY_BLOCK", RESERVATION, {"MarketType": "capacity-block"}),
    ],
)
def test_capacity_is_bought_as_it_is_said(
    capacity: str, reservation: str | None, market: dict[str, str] | None
) -> None:
    capacity_type = eks.CapacityType[capacity]
    template = _template(capacity_type=capacity_type, reservation_id=reservation)
    assert _properties(template, "AWS::EKS::Nodegroup")["CapacityType"] == capacity
    launch = _properties(template, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert launch.get("CapacityReservationSpecification") == (RESERVED if reservation else None)
    assert launch.get("InstanceMarketOptions") == market
    # A Capacity Block accepts no placement group, and a reservation only its own.
    assert ("Placement" in launch) == (reservation is None)


@pytest.mark.parametrize(("capacity", "reservation"), [("CAPACITY_BLOCK", None), ("SPOT", "cr-1")])
def test_capacity_that_cannot_be_is_refused(capacity: str, reservation: str | None) -> None:
    with pytest.raises(ValueError, match=capacity):
        _template(capacity_type=eks.CapacityType[capacity], reservation_id=reservation)


def test_each_network_card_has_an_efa_interface_in_both_security_groups() -> None:
    template = _template(network_cards=3)
    interfaces = _properties(template, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"][
        "NetworkInterfaces"
    ]
    cards = [(i["NetworkCardIndex"], i["DeviceIndex"], i["InterfaceType"]) for i in interfaces]
    assert cards == [(0, 0, "efa"), (1, 1, "efa"), (2, 1, "efa")]
    (fabric,) = template.find_resources("AWS::EC2::SecurityGroup")
    group_id = {"Fn::GetAtt": [fabric, "GroupId"]}
    assert all(interface["Groups"] == ["sg-1", group_id] for interface in interfaces)
    ingress = _properties(template, "AWS::EC2::SecurityGroupIngress")
    egress = _properties(template, "AWS::EC2::SecurityGroupEgress")
    assert ingress["SourceSecurityGroupId"] == egress["DestinationSecurityGroupId"] == group_id


def test_nodes_start_tainted_on_their_own_disks_and_one_ends_before_another_starts() -> None:
    template = _template()
    group = _properties(template, "AWS::EKS::Nodegroup")
    assert (group["ClusterName"], group["Subnets"]) == ("theirs", ["subnet-0123456789abcdef0"])
    ami = group["AmiType"], group["ReleaseVersion"]
    assert ami == ("AL2023_x86_64_NEURON", "1.35.6-20260714")
    assert group["ScalingConfig"] == {"MinSize": 0, "DesiredSize": 0, "MaxSize": 2}
    assert group["UpdateConfig"] == {"MaxUnavailable": 1, "UpdateStrategy": "MINIMAL"}
    assert [taint["Key"] for taint in group["Taints"]] == ["a-taint"]
    launch = _properties(template, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert "strategy: RAID0" in launch["UserData"]["Fn::Base64"]
