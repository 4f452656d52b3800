"""Roles that GitHub's workflows assume by OIDC: one that only looks, and one that deploys.

Condition keys of the token: IAM User Guide, "Available keys for AWS OIDC federation"
(``aud``, ``sub``, ``ref``). Subjects: docs.github.com, "OpenID Connect reference".
"""

from functools import cached_property, partial
from typing import Final

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_iam as iam
from constructs import Construct

from charts.names import LOGS_PREFIX, bucket_name, budget_region, budget_stack_name, stopper_name
from experiment.fields import Origin
from experiment.schema import Experiment
from stacks.security import allow
from stacks.stack import ExperimentStack

ISSUER: Final = "token.actions.githubusercontent.com"
AUDIENCE: Final = "sts.amazonaws.com"
"""Audience for which ``aws-actions/configure-aws-credentials`` asks GitHub's token."""

_DEPLOYING: Final = ("deploy", "file-publishing", "image-publishing", "lookup")
"""The bootstrap's roles that the CDK CLI assumes."""
STACKS: Final = ("network", "cluster", "model-store", "trainium", "serving", "observability")
"""Stacks in the experiment's region, after its name. A test compares them with the app's."""
_SCALING_GROUPS: Final = ("TrainiumNodes", "CompileNodes")
"""How the names of the node groups begin, which CloudFormation goes on with."""
_JOB: Final = Duration.hours(6)
"""The longest that a job on a runner of GitHub's may take."""
READ_ACTIONS: Final = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
    "autoscaling:DescribeScheduledActions",
    "cloudformation:DescribeStackEvents",
    "cloudformation:DescribeStacks",
    "cloudformation:GetTemplate",
    "cloudformation:ListStacks",  # without it no call describes all stacks
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcAttribute",
    "ec2:DescribeVpcs",
    "ecr:DescribeImages",
    "eks:DescribeAddon",
    "eks:DescribeAddonVersions",
    "eks:DescribeCluster",
    "eks:DescribeClusterVersions",
    "eks:DescribeNodegroup",
    "eks:DescribeUpdate",
    "eks:ListAddons",
    "eks:ListClusters",
    "eks:ListPodIdentityAssociations",
    "logs:DescribeLogGroups",
    "servicequotas:GetAWSDefaultServiceQuota",
    "servicequotas:GetServiceQuota",
)
"""Calls of the commands on an account, in the order of the alphabet."""

_allow: Final = partial(allow, wild="In names that CloudFormation, EKS or the CLI choose.")


def stack_regions(experiment: Experiment) -> dict[str, str]:
    """The region of each stack but this one, by the stack's name."""
    region = experiment.aws.region
    regions = {f"{experiment.name}-{stack}": region for stack in STACKS}
    return regions | {budget_stack_name(experiment): budget_region(region)}


class DeliveryStack(ExperimentStack):
    """No part of what is measured: it stays when the experiment is destroyed."""

    def __init__(self, scope: Construct, experiment: Experiment, account: str | None) -> None:
        super().__init__(scope, f"{experiment.name}-delivery", experiment, account)
        assert experiment.delivery is not None
        self._delivery = experiment.delivery
        self._add_diff()
        self._add_deploy()

    @cached_property
    def _issuer(self) -> str:
        """The ARN of GitHub's identity provider, made here unless the account has one."""
        if self._delivery.provider is Origin.EXISTING:
            return self._arn("iam", f"oidc-provider/{ISSUER}", region="")
        # STS checks GitHub's certificate by its own authorities.
        return iam.CfnOIDCProvider(
            self, "GitHub", url=f"https://{ISSUER}", client_id_list=[AUDIENCE]
        ).attr_arn

    def _add_diff(self) -> None:
        """Makes the role for pull requests of the repository itself: a fork's get no such token.

        It may not make a change set, which CloudFormation makes as the role that deploys
        (docs/assumptions.md), nor assume a role of the bootstrap, the narrowest of which reads all
        of the account. The CLI then goes on as this role (aws-cdk 2.1148.1, ``forEnvironment``).
        """
        purpose = "Pull requests: compares, and changes nothing"
        role = self._role("Diff", "pull_request", purpose, Duration.hours(1))
        actions = ["cloudformation:DescribeStacks", "cloudformation:GetTemplate"]
        regions = stack_regions(self.experiment).items()
        stacks = [self._arn("cloudformation", f"stack/{s}/*", region=r) for s, r in regions]
        _allow(role, "Read", actions, stacks)

    def _add_deploy(self) -> None:
        """Makes the role for jobs in the protected environment, of workflows of one branch.

        What it changes it changes as one of the bootstrap's roles, or as the commands on an
        experiment do: sizes, guards, the cluster's own objects.
        """
        role = self._role(
            "Deploy",
            f"environment:{self._delivery.environment}",
            "Deploys and measures the experiment",
            _JOB,
            ref=f"refs/heads/{self._delivery.branch}",
        )
        name, region, account = self.experiment.name, self.experiment.aws.region, self.account
        qualifier, cluster = self.synthesizer.bootstrap_qualifier, self.experiment.cluster_name
        regions = sorted({region, budget_region(region)})
        bootstrap = [
            self._arn("iam", f"role/cdk-{qualifier}-{kind}-role-{account}-{each}", region="")
            for each in regions
            for kind in _DEPLOYING
        ]
        # CloudFormation names it, unless the file does.
        administrator = self.experiment.aws.administrator_role or self._arn(
            "iam", f"role/{name}-cluster-Administrator*", region=""
        )
        scaling_groups = [
            self._arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/eks-{group}*")
            for group in _SCALING_GROUPS
        ]
        stopper = stopper_name(self.experiment)
        bucket = f"arn:{self.partition}:s3:::{bucket_name(self.experiment, account)}"
        version = f"parameter/cdk-bootstrap/{qualifier}/version"
        _allow(role, "Cdk", ["sts:AssumeRole"], bootstrap)
        _allow(role, "Administer", ["sts:AssumeRole"], [administrator])
        # What ``operations.guard`` and ``operations.nodes`` change.
        # Others may have node groups in the cluster.
        groups = [self._arn("eks", f"nodegroup/{cluster}/*")]
        ours = {"StringEquals": {"aws:ResourceTag/Experiment": name}}
        _allow(role, "Sizes", ["eks:UpdateNodegroupConfig"], groups, ours)
        guards = ["PutScheduledUpdateGroupAction", "UpdateAutoScalingGroup"]
        of_cluster = {"StringEquals": {"aws:ResourceTag/eks:cluster-name": cluster}}
        changes = [f"autoscaling:{action}" for action in guards]
        _allow(role, "Guards", changes, scaling_groups, of_cluster)
        machine = [self._arn("states", f"stateMachine:{stopper}")]
        _allow(role, "ListExecutions", ["states:ListExecutions"], machine)
        executions = [self._arn("states", f"execution:{stopper}:*")]
        _allow(role, "StopExecution", ["states:StopExecution"], executions)
        _allow(role, "List", ["s3:ListBucket", "s3:ListBucketVersions"], [bucket])
        _allow(role, "Results", ["s3:GetObject"], [f"{bucket}/*"])
        _allow(role, "Logs", ["s3:PutObject"], [f"{bucket}/{LOGS_PREFIX}*"])
        versions = [self._arn("ssm", version, region=each) for each in regions]
        _allow(role, "Bootstrap", ["ssm:GetParameter"], versions)
        allow(
            role,
            "Look",
            READ_ACTIONS,
            ["*"],
            wild="What only looks: most of it knows no resources.",
        )

    def _role(
        self, construct_id: str, subject: str, description: str, longest: Duration, **claims: str
    ) -> iam.Role:
        """A role for one subject of GitHub's tokens, compared as a whole; and its output."""
        subjects = {"aud": AUDIENCE, "sub": f"repo:{self._delivery.repository}:{subject}"}
        conditions = {f"{ISSUER}:{claim}": v for claim, v in (subjects | claims).items()}
        role = iam.Role(
            self,
            construct_id,
            assumed_by=iam.WebIdentityPrincipal(self._issuer, {"StringEquals": conditions}),
            description=description,
            max_session_duration=longest,
        )
        CfnOutput(
            self,
            f"{construct_id}Role",
            value=role.role_arn,
            description=f"Repository variable {construct_id.upper()}_ROLE",
        )
        return role

    def _arn(self, service: str, resource: str, *, region: str | None = None) -> str:
        effective_region = self.experiment.aws.region if region is None else region
        return f"arn:{self.partition}:{service}:{effective_region}:{self.account}:{resource}"
