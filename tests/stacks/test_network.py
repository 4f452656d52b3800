from __future__ import annotations

import json
from typing import Any

from tests.synthesis import Synthesised


def test_spans_the_zones_the_experiment_names(synthesised: Synthesised) -> None:
    subnets = [subnet for _, subnet in synthesised.resources("AWS::EC2::Subnet")]
    zones = {subnet["Properties"]["AvailabilityZone"] for subnet in subnets}
    assert zones == set(synthesised.experiment.aws.availability_zones)
    assert len(subnets) == 2 * len(zones)


def test_no_subnet_hands_out_public_addresses(synthesised: Synthesised) -> None:
    for _, subnet in synthesised.resources("AWS::EC2::Subnet"):
        assert subnet["Properties"]["MapPublicIpOnLaunch"] is False


def test_has_one_nat_gateway(synthesised: Synthesised) -> None:
    synthesised.assertions("network").resource_count_is("AWS::EC2::NatGateway", 1)


def test_reaches_s3_by_gateway_from_every_private_subnet(synthesised: Synthesised) -> None:
    (endpoint,) = _endpoints(synthesised, "Gateway")
    assert ".s3" in json.dumps(endpoint["ServiceName"])
    assert len(endpoint["RouteTableIds"]) >= len(synthesised.experiment.aws.availability_zones)


def test_interface_endpoints_stand_in_the_trainium_zone_only(synthesised: Synthesised) -> None:
    endpoints = _endpoints(synthesised, "Interface")
    services = {json.dumps(endpoint["ServiceName"]).rpartition("2.")[2] for endpoint in endpoints}
    assert services == {'ecr.api"', 'ecr.dkr"', 'logs"'}
    template = synthesised.template("network")["Resources"]
    for endpoint in endpoints:
        (subnet,) = (template[reference["Ref"]] for reference in endpoint["SubnetIds"])
        zone = synthesised.experiment.capacity.availability_zone
        assert subnet["Properties"]["AvailabilityZone"] == zone
        assert endpoint["PrivateDnsEnabled"] is True


def test_logs_flows_to_a_group_that_goes_with_the_stack(synthesised: Synthesised) -> None:
    network = synthesised.assertions("network")
    network.has_resource_properties(
        "AWS::EC2::FlowLog", {"ResourceType": "VPC", "LogDestinationType": "cloud-watch-logs"}
    )
    network.has_resource(
        "AWS::Logs::LogGroup",
        {"DeletionPolicy": "Delete", "Properties": {"RetentionInDays": 30}},
    )


def _endpoints(synthesised: Synthesised, kind: str) -> list[dict[str, Any]]:
    return [
        endpoint["Properties"]
        for _, endpoint in synthesised.resources("AWS::EC2::VPCEndpoint")
        if endpoint["Properties"]["VpcEndpointType"] == kind
    ]
