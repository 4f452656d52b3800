"""The VPC: private nodes, one NAT gateway, S3 without NAT."""

from collections.abc import Mapping
from typing import Final, cast

from aws_cdk import ArnFormat, CfnOutput, CfnResource
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from charts.names import zones
from experiment.schema import Experiment
from stacks.security import HANDLER, acknowledge, key, log_group, skip
from stacks.stack import ExperimentStack

VPC_CIDR: Final = "10.0.0.0/16"


class NetworkStack(ExperimentStack):
    """A VPC in the availability zones that the experiment names.

    Bulk traffic (checkpoints, compiled graphs, image layers in ECR) goes through the S3 gateway
    endpoint, which is free. Interface endpoints cost by the hour and zone. So there are only three,
    all in the Trainium zone: two for ECR, which is asked before S3 sends layers, and one for
    CloudWatch Logs, to which the nodes write all the time.
    """

    def __init__(self, scope: Construct, experiment: Experiment, account: str | None) -> None:
        super().__init__(scope, f"{experiment.name}-network", experiment, account)
        self._zones = list(experiment.aws.availability_zones)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(VPC_CIDR),
            availability_zones=self._zones,
            nat_gateways=1,
            # The zone with most of the traffic: images of tens of gigabytes.
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
                # Every pod has an address of the VPC, and so has every EFA interface.
                ec2.SubnetConfiguration(
                    name="Private",
                    subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
                    cidr_mask=18,
                ),
            ],
        )
        reason = "The experiment names zones, for few have trn2."
        acknowledge(self.vpc, {"CloudFormation-Validate::W3010": reason})
        self._adopt_handler(experiment.tags)
        self._flow_logs()
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        self._interface_endpoints(experiment.capacity.availability_zone)
        CfnOutput(self, "Zones", value=zones(experiment), description="Other zones need a destroy")

    @property
    def availability_zones(self) -> list[str]:
        """The zones that the experiment names. A stack with a known account would look them up."""
        return self._zones

    def _adopt_handler(self, tags: Mapping[str, str]) -> None:
        """Tags the function that closes the default security group, and gives it a log group.

        The CDK does neither. Lambda would make a log group that outlives the stack.
        """
        handler = self.node.find_child("Custom::VpcRestrictDefaultSGCustomResourceProvider")
        group = log_group(self, "HandlerLogs")
        encrypted = "CloudWatch Logs encrypts it. It says that the default group was closed."
        skip(group, "AWS::Logs::LogGroup", {"CKV_AWS_158": encrypted})
        resources = {s: cast(CfnResource, handler.node.find_child(s)) for s in ("Role", "Handler")}
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        for resource in resources.values():
            resource.add_property_override("Tags", listed)
        resources["Handler"].add_property_override("LoggingConfig.LogGroup", group.log_group_name)
        reason = "It calls EC2's API only, at a deploy; in the VPC it would need the NAT gateway."
        skip(handler, "AWS::Lambda::Function", {**HANDLER, "CKV_AWS_117": reason})

    def _flow_logs(self) -> None:
        # Only CloudWatch Logs of this account may use it: it goes with the stack.
        encryption = key(self, "LogsKey", f"Flow logs of {self.stack_name}")
        groups = self.format_arn(
            service="logs",
            resource="log-group",
            resource_name="*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        uses = ("Decrypt", "Describe", "Encrypt", "GenerateDataKey", "ReEncrypt")
        encryption.add_to_resource_policy(
            iam.PolicyStatement(
                sid="FlowLogs",
                principals=[iam.ServicePrincipal(f"logs.{self.region}.amazonaws.com")],
                actions=[f"kms:{use}*" for use in uses],
                # Of the key that has this policy.
                resources=["*"],
                conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
            )
        )
        # An explicit group. One that AWS creates outlives the stack and blocks the next deploy.
        group = log_group(self, "FlowLogs", encryption_key=encryption)
        destination = ec2.FlowLogDestination.to_cloud_watch_logs(group)
        self.vpc.add_flow_log("FlowLog", destination=destination)

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
            reason = "Open to the VPC's own addresses. The rule sees a token."
            acknowledge(endpoint, {"AwsSolutions-EC23": reason})
