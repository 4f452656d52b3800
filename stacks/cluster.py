"""The EKS cluster: control plane, add-ons, a small CPU node group, an administrator role.

Or an existing one, in which this makes what applies manifests, and gives it access.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from aws_cdk import CfnOutput, CfnResource, RemovalPolicies
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct, IConstruct

from experiment.aws import Aws
from experiment.schema import Experiment
from stacks.addons import networking_addons, node_addons
from stacks.network import VPC_CIDR
from stacks.nodes import system_node_group
from stacks.security import (
    HANDLER,
    acknowledge,
    allow,
    key,
    log_group,
    managed_policy,
    node_role,
    skip,
)
from stacks.stack import ExperimentStack

KUBERNETES_VERSION: Final = "1.35"
"""In standard support until 2027-03-27. DRA is generally available since 1.34. The kubectl layer,
cdk8s-plus and the version that manifests are validated against must be the same; tests check it."""

CLUSTER_OUTPUT: Final = "ClusterName"

_KUBECTL_FINDINGS: Final = (
    managed_policy("service-role/AWSLambdaBasicExecutionRole"),
    managed_policy("service-role/AWSLambdaVPCAccessExecutionRole"),
    managed_policy("AmazonEC2ContainerRegistryReadOnly"),
    'AwsSolutions-IAM4[Policy::{"Fn::If":["ClusterKubectlProviderHandlerHasEcrPublic69E09706",'
    '{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":iam::aws:policy/'
    'AmazonElasticContainerRegistryPublicReadOnly"]]},{"Ref":"AWS::NoValue"}]}]',
    "AwsSolutions-IAM5[Resource::<ClusterKubectlProviderHandler2E05C68A.Arn>:*]",
    "AwsSolutions-L1",
)


class ClusterStack(ExperimentStack):
    """An EKS cluster. Its API is reachable from the VPC and from the addresses that are allowed."""

    def __init__(
        self, scope: Construct, experiment: Experiment, account: str | None, vpc: ec2.IVpc | None
    ) -> None:
        """``vpc``: the one that was made; None if the experiment names one."""
        super().__init__(scope, f"{experiment.name}-cluster", experiment, account)
        aws = experiment.aws
        self.cluster_name = experiment.cluster_name
        vpc = vpc or _existing_vpc(self, aws)
        if aws.administrator_role:
            named = aws.administrator_role
            self.administrator = iam.Role.from_role_arn(self, "Administrator", named, mutable=False)
        else:
            # Anyone who may assume roles in this account can assume it.
            self.administrator = iam.Role(
                self,
                "Administrator",
                assumed_by=iam.AccountRootPrincipal(),
                description="Administrator of the experiment's Kubernetes cluster",
            )
        if aws.cluster:
            self.cluster = self._existing_cluster(aws, vpc)
        else:
            self.cluster = self._cluster(aws, vpc, experiment.tags)
            # Always, though only nodes with EFA name it: CloudFormation refuses to take away an
            # export that the nodes of an earlier deploy still use.
            self.export_value(self.cluster.cluster_security_group_id)
            networking = networking_addons(self, self.cluster)
            role = self._system_node_role()
            nodes = system_node_group(self, self.cluster, KUBERNETES_VERSION, role)
            nodes.node.add_dependency(*networking)
            node_addons(self, self.cluster, after=nodes)
        CfnOutput(self, CLUSTER_OUTPUT, value=self.cluster_name, description="Where nodes join")
        arn = self.administrator.role_arn
        CfnOutput(self, "AdministratorRole", value=arn, description="Role for kubectl")
        CfnOutput(
            self,
            "Command1Kubeconfig",
            value=f"aws eks update-kubeconfig --name {self.cluster_name} --region {self.region} "
            f"--role-arn {arn}",
            description="First: kubectl for this cluster",
        )

    def _existing_cluster(self, aws: Aws, vpc: ec2.IVpc) -> eks.ICluster:
        """The cluster by its names. Of it, the stack has and deletes access entries alone.

        The handler is in the VPC with the cluster's own security group, which reaches a private
        API. The DRA driver's chart makes cluster roles, which only a cluster's administrator may.
        """
        # Where the construct of a new cluster has it, so that findings have the same names.
        scope = Construct(self, "Cluster")
        attributes: dict[str, Any] = {
            "cluster_name": self.cluster_name,
            "cluster_security_group_id": aws.cluster_security_group,
            "vpc": vpc,
        }
        unmanaged = eks.Cluster.from_cluster_attributes(scope, "Unmanaged", **attributes)
        handler = eks.KubectlProvider(
            scope,
            "KubectlProvider",
            cluster=unmanaged,
            kubectl_layer=KubectlV35Layer(self, "Kubectl"),
            private_subnets=vpc.private_subnets,
        )
        _accept(handler)
        assert handler.role
        principals = {"HandlerAccess": handler.role.role_arn}
        if aws.administrator_role is None:
            principals["AdministratorAccess"] = self.administrator.role_arn
        policy = eks.AccessPolicy.from_access_policy_name(
            "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
        )
        entry: dict[str, Any] = {"cluster": unmanaged, "access_policies": [policy]}
        for construct_id, principal in principals.items():
            eks.AccessEntry(scope, construct_id, principal=principal, **entry)
        return eks.Cluster.from_cluster_attributes(
            scope, "Existing", **attributes, kubectl_provider=handler
        )

    def _cluster(self, aws: Aws, vpc: ec2.IVpc, tags: Mapping[str, str]) -> eks.ICluster:
        public = [block for block in aws.api_access if block not in aws.private_access]
        group = log_group(self, "ControlPlaneLogs", f"/aws/eks/{self.cluster_name}/cluster")
        # EKS's own group admits only its members.
        description = "Kubernetes API, from within the VPC"
        from_vpc = ec2.SecurityGroup(self, "ApiSecurityGroup", vpc=vpc, description=description)
        for block in aws.private_access if aws.vpc else [VPC_CIDR]:
            from_vpc.add_ingress_rule(ec2.Peer.ipv4(block), ec2.Port.tcp(443), "kubectl in the VPC")
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=self.cluster_name,
            version=eks.KubernetesVersion.of(KUBERNETES_VERSION),
            vpc=vpc,
            vpc_subnets=[ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)],
            security_group=from_vpc,
            endpoint_access=(
                eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public)
                if public
                else eks.EndpointAccess.PRIVATE
            ),
            # The construct's default is Auto Mode, which cannot run the Neuron DRA driver.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_self_managed_addons=False,
            bootstrap_cluster_creator_admin_permissions=False,
            masters_role=self.administrator,
            output_config_command=False,
            secrets_encryption_key=key(
                self, "SecretsKey", f"Kubernetes secrets of cluster {self.cluster_name}"
            ),
            cluster_logging=[*eks.ClusterLoggingTypes],
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=KubectlV35Layer(self, "Kubectl")
            ),
        )
        cluster.node.add_dependency(group)
        # The construct has no property for it. Otherwise EKS keeps the version past its standard
        # support, for 0.50 USD an hour more (docs/decisions/0003).
        resource = cast(eks.CfnCluster, cluster.node.default_child)
        resource.add_property_override("UpgradePolicy.SupportType", "STANDARD")
        # A plain resource, which the CDK does not tag.
        barrier = cast(CfnResource, cluster.node.find_child("KubectlReadyBarrier"))
        barrier.add_property_override("Tags", tags)
        reason = "EKS needs it to run a control plane."
        acknowledge(cluster.role, {managed_policy("AmazonEKSClusterPolicy"): reason})
        _accept(cluster.node.find_child("KubectlProvider"))
        # The class implements the interface, but its Python stub lacks one of the properties.
        return cast(eks.ICluster, cluster)

    def _system_node_role(self) -> iam.Role:
        """A node's role that also lets Session Manager forward a port to the private API.

        AmazonSSMManagedInstanceCore would also allow it to read every parameter of the account.
        """
        role = node_role(self, "SystemNodeRole")
        instances = self.format_arn(service="ec2", resource="instance", resource_name="*")
        unknown = "A node's name is not known before it starts."
        allow(role, "Register", ["ssm:UpdateInstanceInformation"], [instances], wild=unknown)
        # None of these supports resource-level permissions.
        unconfined = "Session Manager's channels are not resources."
        channels = [
            f"ssmmessages:{action}{channel}Channel"
            for action in ("Create", "Open")
            for channel in ("Control", "Data")
        ]
        allow(role, "Sessions", channels, ["*"], wild=unconfined)
        return role


def _accept(handler: IConstruct) -> None:
    """Accepts what the linters find in the CDK's own functions; their logs go with the stack."""
    # Otherwise the logs of its functions would stay after every destroy.
    RemovalPolicies.of(handler).destroy()
    reason = "The CDK's own handler: aws-cdk-lib defines its roles and its runtime."
    acknowledge(handler, dict.fromkeys(_KUBECTL_FINDINGS, reason))
    skip(handler, "AWS::Lambda::Function", HANDLER)
    encrypted = (
        "CloudWatch Logs encrypts it. It has the manifests, and so each test case's line, but "
        "no file of prompts and no secret."
    )
    skip(handler, "AWS::Logs::LogGroup", {"CKV_AWS_158": encrypted})
    for construct in handler.node.find_all():
        if isinstance(construct, logs.CfnLogGroup):
            construct.retention_in_days = 30  # as ours have


def _existing_vpc(scope: Construct, aws: Aws) -> ec2.IVpc:
    """The VPC by its ids, for a synthesis that asks no account."""
    assert aws.vpc
    vpc = ec2.Vpc.from_vpc_attributes(
        scope,
        "Vpc",
        vpc_id=aws.vpc,
        availability_zones=[*aws.availability_zones],
        private_subnet_ids=[*aws.subnets],
    )
    untouched = "Nothing here routes in it, and no service has a load balancer."
    rules = ("aws-ec2:noSubnetRouteTableId", "aws-eks:clusterMustManuallyTagSubnet")
    acknowledge(scope, {f"Annotation::@aws-cdk/{rule}": untouched for rule in rules})
    return vpc
