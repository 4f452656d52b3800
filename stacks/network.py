"""The VPC: private nodes, one NAT gateway, S3 without NAT."""

from __future__ import annotations

from typing import Any, Final, cast

from aws_cdk import CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from experiment.schema import Experiment
from stacks.acknowledge import acknowledge

VPC_CIDR: Final = "10.0.0.0/16"


class NetworkStack(Stack):
    """A VPC over the zones the experiment names.

    Bulk traffic (checkpoints, compiled graphs, image layers in ECR) goes through the S3 gateway
    endpoint, which is free. Interface endpoints cost by the hour and zone, so there are three,
    in the Trainium zone only: the two ECR needs before S3 is asked for layers, and CloudWatch
    Logs, the one steady stream of the nodes.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, experiment: Experiment, **kwargs: Any
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self._zones = list(experiment.aws.availability_zones)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(VPC_CIDR),
            availability_zones=self._zones,
            nat_gateways=1,
            # Where the bulk of the traffic is: images of tens of gigabytes.
            nat_gateway_subnets=ec2.SubnetSelection(
                subnet_type=ec2.SubnetType.PUBLIC,
                availability_zones=[experiment.capacity.availability_zone],
            ),
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=24,
                    map_public_ip_on_launch=False,
                ),
                # Every pod has an address of the VPC, every EFA interface one more.
                ec2.SubnetConfiguration(
                    name="Private",
                    subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
                    cidr_mask=18,
                ),
            ],
        )
        acknowledge(
            self.vpc,
            {"CloudFormation-Validate::W3010": "The experiment names the zones that have trn2."},
        )
        self._tag_handler(experiment.name)
        self._flow_logs()
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        self._interface_endpoints(experiment.capacity.availability_zone)

    @property
    def availability_zones(self) -> list[str]:
        """The zones the experiment names. A stack that knows its account would look them up."""
        return self._zones

    def _tag_handler(self, name: str) -> None:
        """Tags the function that closes the default security group: the CDK's tags pass it over."""
        handler = self.node.find_child("Custom::VpcRestrictDefaultSGCustomResourceProvider")
        for part in ("Role", "Handler"):
            resource = cast(CfnResource, handler.node.find_child(part))
            resource.add_property_override("Tags", [{"Key": "Experiment", "Value": name}])

    def _flow_logs(self) -> None:
        # An explicit group: one that AWS creates outlives the stack and blocks the next deploy.
        group = logs.LogGroup(
            self,
            "FlowLogs",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.vpc.add_flow_log(
            "FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group)
        )

    def _interface_endpoints(self, zone: str) -> None:
        services = ec2.InterfaceVpcEndpointAwsService
        for name, service in (
            ("EcrApi", services.ECR),
            ("EcrDocker", services.ECR_DOCKER),
            ("Logs", services.CLOUDWATCH_LOGS),
        ):
            endpoint = self.vpc.add_interface_endpoint(
                name,
                service=service,
                subnets=ec2.SubnetSelection(
                    subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, availability_zones=[zone]
                ),
            )
            acknowledge(
                endpoint,
                {"AwsSolutions-EC23": "Open to the VPC's own addresses, a token to the rule."},
            )
