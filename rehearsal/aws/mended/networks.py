"""Parts of a network that moto's CloudFormation makes and never deletes.

With them a VPC could not be deleted either. What ends with another part (routes, attachments) needs
nothing of its own.
"""

from __future__ import annotations

from typing import Any

from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.elastic_ip_addresses import ElasticAddress
from moto.ec2.models.flow_logs import FlowLogs
from moto.ec2.models.internet_gateways import InternetGateway
from moto.ec2.models.nat_gateways import NatGateway
from moto.ec2.models.route_tables import RouteTable
from moto.ec2.models.vpcs import VPCEndPoint


def mend() -> None:
    """Gives moto's classes the method by which its CloudFormation deletes."""
    deleted: dict[Any, Any] = {
        ElasticAddress: lambda ec2, it: ec2.release_address(allocation_id=it.allocation_id),
        FlowLogs: lambda ec2, it: ec2.delete_flow_logs([it.id]),
        InternetGateway: _internet_gateway,
        NatGateway: lambda ec2, it: ec2.delete_nat_gateway(it.id),
        RouteTable: _route_table,
        VPCEndPoint: lambda ec2, it: ec2.delete_vpc_endpoints([it.id]),
    }
    for part, how in deleted.items():
        part.delete = _method(how)


def _method(how: Any) -> Any:
    def delete(self: Any, account: str, region: str) -> None:
        how(ec2_backends[account][region], self)

    return delete


def _internet_gateway(ec2: EC2Backend, gateway: InternetGateway) -> None:
    gateway.vpc = None
    ec2.delete_internet_gateway(gateway.id)


def _route_table(ec2: EC2Backend, table: RouteTable) -> None:
    table._associations.clear()
    ec2.delete_route_table(table.id)
