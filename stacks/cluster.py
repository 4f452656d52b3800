"""The EKS cluster: control plane, add-ons, a small CPU node group, an administrator role."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from aws_cdk import ArnFormat, CfnResource, RemovalPolicies, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct, IDependable

from experiment.schema import Experiment
from stacks.acknowledge import acknowledge, managed_policy

KUBERNETES_VERSION: Final = "1.35"
"""In standard support until 2027-03-27, with DRA generally available (since 1.34). The kubectl
layer, cdk8s-plus and the version manifests are validated against must follow; tests hold them
together."""

SYSTEM_NODES: Final = 2
"""CoreDNS and the add-ons' controllers spread over two nodes, one a zone."""

_PUBLIC_ECR_POLICY: Final = {
    "Fn::If": [
        "ClusterKubectlProviderHandlerHasEcrPublic69E09706",
        {
            "Fn::Join": [
                "",
                [
                    "arn:",
                    {"Ref": "AWS::Partition"},
                    ":iam::aws:policy/AmazonElasticContainerRegistryPublicReadOnly",
                ],
            ]
        },
        {"Ref": "AWS::NoValue"},
    ]
}
_KUBECTL_FINDINGS: Final = (
    managed_policy("service-role/AWSLambdaBasicExecutionRole"),
    managed_policy("service-role/AWSLambdaVPCAccessExecutionRole"),
    managed_policy("AmazonEC2ContainerRegistryReadOnly"),
    f"AwsSolutions-IAM4[Policy::{json.dumps(_PUBLIC_ECR_POLICY, separators=(',', ':'))}]",
    "AwsSolutions-IAM5[Resource::<ClusterKubectlProviderHandler2E05C68A.Arn>:*]",
    "AwsSolutions-L1",
)


class ClusterStack(Stack):
    """An EKS cluster whose API is reachable from the VPC and the addresses the experiment names."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        experiment: Experiment,
        vpc: ec2.Vpc,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.cluster_name = experiment.name
        self.administrator = self._administrator()
        self.cluster = self._cluster(experiment, vpc)
        networking = self._networking_addons()
        nodes = self._system_nodes(networking)
        self._addons(nodes)

    def _administrator(self) -> iam.Role:
        """A role that whoever may assume roles in this account can use kubectl with."""
        return iam.Role(
            self,
            "Administrator",
            assumed_by=iam.AccountRootPrincipal(),
            description="Administrator of the experiment's Kubernetes cluster",
        )

    def _cluster(self, experiment: Experiment, vpc: ec2.Vpc) -> eks.ICluster:
        api_access = experiment.aws.api_access
        # An explicit group: one that EKS creates outlives the stack and blocks the next deploy.
        log_group = logs.LogGroup(
            self,
            "ControlPlaneLogs",
            log_group_name=f"/aws/eks/{self.cluster_name}/cluster",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=self.cluster_name,
            version=eks.KubernetesVersion.of(KUBERNETES_VERSION),
            vpc=vpc,
            vpc_subnets=[ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)],
            endpoint_access=(
                eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*api_access)
                if api_access
                else eks.EndpointAccess.PRIVATE
            ),
            # Left alone, the construct turns on Auto Mode, which cannot run the Neuron DRA driver.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_self_managed_addons=False,
            bootstrap_cluster_creator_admin_permissions=False,
            masters_role=self.administrator,
            output_config_command=False,
            secrets_encryption_key=kms.Key(
                self,
                "SecretsKey",
                description=f"Kubernetes secrets of cluster {self.cluster_name}",
                enable_key_rotation=True,
                removal_policy=RemovalPolicy.DESTROY,
            ),
            cluster_logging=[
                eks.ClusterLoggingTypes.API,
                eks.ClusterLoggingTypes.AUDIT,
                eks.ClusterLoggingTypes.AUTHENTICATOR,
                eks.ClusterLoggingTypes.CONTROLLER_MANAGER,
                eks.ClusterLoggingTypes.SCHEDULER,
            ],
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=KubectlV35Layer(self, "Kubectl")
            ),
        )
        cluster.node.add_dependency(log_group)
        # A plain resource, which the CDK's tags pass over.
        barrier = cast(CfnResource, cluster.node.find_child("KubectlReadyBarrier"))
        barrier.add_property_override("Tags", {"Experiment": self.cluster_name})
        acknowledge(
            cluster.role,
            {managed_policy("AmazonEKSClusterPolicy"): "What EKS needs to run a control plane."},
        )
        handler = cluster.node.find_child("KubectlProvider")
        # The logs of its functions would otherwise stay after every deploy and destroy.
        RemovalPolicies.of(handler).destroy()
        acknowledge(
            handler,
            dict.fromkeys(
                _KUBECTL_FINDINGS,
                "The CDK's own handler: its roles and its runtime come with aws-cdk-lib.",
            ),
        )
        # The class implements the interface, but its Python stub lacks one of the properties.
        return cast(eks.ICluster, cluster)

    def _networking_addons(self) -> list[eks.CfnAddon]:
        """What a node needs before it can become ready."""
        cni_role = self._addon_role("VpcCniRole")
        cni_role.add_managed_policy(
            iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKS_CNI_Policy")
        )
        acknowledge(
            cni_role,
            {managed_policy("AmazonEKS_CNI_Policy"): "Follows what each CNI version needs."},
        )
        return [
            self._addon(
                "vpc-cni",
                configuration={"enableNetworkPolicy": "true"},
                identity=("aws-node", cni_role),
            ),
            self._addon("kube-proxy"),
            self._addon("eks-pod-identity-agent"),
        ]

    def _addons(self, nodes: IDependable) -> None:
        """What needs a node to become active.

        The S3 CSI driver has no role of its own: a volume is mounted with the identity of the pod
        that mounts it.
        """
        for addon in (
            self._addon("coredns"),
            self._addon("aws-mountpoint-s3-csi-driver"),
            self._addon("eks-node-monitoring-agent"),
            self._observability_addon(),
        ):
            addon.node.add_dependency(nodes)

    def _observability_addon(self) -> eks.CfnAddon:
        """Container Insights with Neuron's metrics, and pod logs; no application tracing."""
        role = self._addon_role("CloudWatchAgentRole")
        prefix = f"/aws/containerinsights/{self.cluster_name}"
        groups = [
            logs.LogGroup(
                self,
                f"{kind.capitalize()}Logs",
                log_group_name=f"{prefix}/{kind}",
                retention=logs.RetentionDays.ONE_MONTH,
                removal_policy=RemovalPolicy.DESTROY,
            )
            for kind in ("application", "dataplane", "host", "performance")
        ]
        # Metrics travel as log events (embedded metric format), so the agent needs no
        # PutMetricData. CloudWatchAgentServerPolicy would allow these actions on every log group.
        group_arn = self.format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{prefix}/*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        role.add_to_policy(
            iam.PolicyStatement(
                sid="WriteLogs",
                actions=[
                    "logs:CreateLogGroup",
                    "logs:CreateLogStream",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                    "logs:PutRetentionPolicy",
                ],
                resources=[group_arn],
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(
                sid="DescribeNode",
                # None of these knows resource-level permissions.
                actions=["ec2:DescribeTags", "ec2:DescribeVolumes", "logs:DescribeLogGroups"],
                resources=["*"],
            )
        )
        acknowledge(
            role,
            {
                f"AwsSolutions-IAM5[Resource::arn:aws:logs:{self.region}:<AWS::AccountId>:"
                f"log-group:{prefix}/*]": "The log groups of this cluster, and their streams.",
                "AwsSolutions-IAM5[Resource::*]": "Describing knows no resources.",
            },
        )
        addon = self._addon(
            "amazon-cloudwatch-observability",
            configuration={
                "agent": {
                    "config": {
                        "logs": {
                            "metrics_collected": {
                                "kubernetes": {
                                    "enhanced_container_insights": True,
                                    "accelerated_compute_metrics": True,
                                }
                            }
                        }
                    }
                },
                # The agents must run on the tainted Trainium nodes above all.
                "tolerations": [{"operator": "Exists"}],
            },
            identity=("cloudwatch-agent", role),
        )
        addon.node.add_dependency(*groups)
        return addon

    def _addon_role(self, construct_id: str) -> iam.Role:
        return iam.Role(self, construct_id, assumed_by=pod_identity_principal())

    def _addon(
        self,
        name: str,
        *,
        configuration: Mapping[str, Any] | None = None,
        identity: tuple[str, iam.Role] | None = None,
    ) -> eks.CfnAddon:
        """An add-on in EKS's default version for the cluster's own version.

        ``identity`` is its service account and the role that account gets.
        """
        return eks.CfnAddon(
            self,
            name,
            addon_name=name,
            cluster_name=self.cluster.cluster_name,
            resolve_conflicts="OVERWRITE",
            configuration_values=json.dumps(configuration) if configuration else None,
            pod_identity_associations=[
                eks.CfnAddon.PodIdentityAssociationProperty(
                    service_account=identity[0], role_arn=identity[1].role_arn
                )
            ]
            if identity
            else None,
        )

    def _system_nodes(self, after: list[eks.CfnAddon]) -> eks.Nodegroup:
        """CPU nodes for add-ons, downloads and the load generator."""
        template = ec2.LaunchTemplate(
            self,
            "SystemNodeTemplate",
            http_tokens=ec2.LaunchTemplateHttpTokens.REQUIRED,
            http_put_response_hop_limit=1,
            block_devices=[
                ec2.BlockDevice(
                    device_name="/dev/xvda",
                    volume=ec2.BlockDeviceVolume.ebs(
                        100, encrypted=True, volume_type=ec2.EbsDeviceVolumeType.GP3
                    ),
                )
            ],
        )
        group = eks.Nodegroup(
            self,
            "SystemNodes",
            cluster=self.cluster,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            instance_types=[ec2.InstanceType("m7i.xlarge")],
            min_size=SYSTEM_NODES,
            max_size=SYSTEM_NODES + 1,
            subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
            node_role=node_role(self, "SystemNodeRole"),
            launch_template_spec=eks.LaunchTemplateSpec(
                id=str(template.launch_template_id), version=template.latest_version_number
            ),
            enable_node_auto_repair=True,
        )
        group.node.add_dependency(*after)
        return group


def pod_identity_principal() -> iam.IPrincipal:
    """Whom a role must trust for EKS Pod Identity to hand it to a pod."""
    return iam.SessionTagsPrincipal(iam.ServicePrincipal("pods.eks.amazonaws.com"))


def node_role(scope: Construct, construct_id: str) -> iam.Role:
    """A role for nodes. It lacks AmazonEKS_CNI_Policy, which the CNI gets by Pod Identity."""
    policies = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(p) for p in policies],
    )
    reason = "What EKS requires of a node, kept current by AWS."
    acknowledge(role, {managed_policy(policy): reason for policy in policies})
    return role
