"""Roles that GitHub's workflows assume by OIDC: one that only looks, and one that deploys.

Condition keys of the token: IAM User Guide, "Available keys for AWS OIDC federation"
(``aud``, ``sub``, ``ref``). Subjects: docs.github.com, "OpenID Connect reference".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import CfnOutput, Duration, Stack, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from charts.names import LOGS_PREFIX, bucket_name, stopper_name
from experiment.schema import Delivery, Experiment, Provider
from stacks.acknowledge import acknowledge
from stacks.regions import budget_region, budget_stack_name

ISSUER: Final = "token.actions.githubusercontent.com"
AUDIENCE: Final = "sts.amazonaws.com"
"""What ``aws-actions/configure-aws-credentials`` asks GitHub's token to be for."""

_QUALIFIER: Final = "hnb659fds"
"""The CDK's own (aws-cdk-lib, ``BOOTSTRAP_QUALIFIER``)."""
_DEPLOYING: Final = ("deploy", "file-publishing", "image-publishing", "lookup")
"""The bootstrap's roles that the CDK CLI assumes."""
STACKS: Final = ("network", "cluster", "model-store", "trainium", "serving", "observability")
"""Those of an experiment, but for its budget's."""
_JOB: Final = Duration.hours(6)
"""The longest that a job on a runner of GitHub's may take."""


class DeliveryStack(Stack):
    """No part of what is measured: it stays when the experiment is destroyed."""

    def __init__(
        self, scope: Construct, construct_id: str, *, experiment: Experiment, **kwargs: Any
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        assert experiment.delivery is not None
        self._experiment, self._delivery = experiment, experiment.delivery
        self._issuer = self._provider(self._delivery)
        self._add_diff()
        self._add_deploy()
        self._acknowledge()

    def _provider(self, delivery: Delivery) -> str:
        """ARN of the account's provider. STS checks GitHub's certificate by its own authorities."""
        if delivery.provider is Provider.THERE:
            return self._arn("iam", f"oidc-provider/{ISSUER}", region="")
        provider = iam.CfnOIDCProvider(
            self, "GitHub", url=f"https://{ISSUER}", client_id_list=[AUDIENCE]
        )
        return provider.attr_arn

    def _add_diff(self) -> None:
        """For pull requests of the repository itself: one of a fork gets no such token.

        It reads templates and may not make a change set: CloudFormation makes one as the role that
        deploys, and what a template of a pull request's own can read by that role is not known
        (docs/assumptions.md). Nor may it assume one of the bootstrap's roles: the narrowest of them
        reads all of the account. The CLI then goes on as this role (aws-cdk 2.1148.1,
        ``forEnvironment``).
        """
        role = self._role(
            "Diff",
            f"repo:{self._delivery.repository}:pull_request",
            {},
            "Pull requests: compares, and changes nothing",
            Duration.hours(1),
        )
        self._allow(
            role,
            "Read",
            ["cloudformation:DescribeStacks", "cloudformation:GetTemplate"],
            self._stacks(),
        )
        CfnOutput(
            self, "DiffRole", value=role.role_arn, description="Repository variable DIFF_ROLE"
        )

    def _add_deploy(self) -> None:
        """For jobs in the protected environment, of workflows of one branch.

        What it changes it changes as one of the bootstrap's roles, or as the commands on an
        experiment do: sizes, schedules, the cluster's own objects.
        """
        role = self._role(
            "Deploy",
            f"repo:{self._delivery.repository}:environment:{self._delivery.environment}",
            {f"{ISSUER}:ref": f"refs/heads/{self._delivery.branch}"},
            "Deploys and measures the experiment",
            _JOB,
        )
        name = self._experiment.name
        self._allow(
            role,
            "Cdk",
            ["sts:AssumeRole"],
            [self._bootstrap_role(each, region) for region in self._regions for each in _DEPLOYING],
        )
        self._allow(
            role,
            "Administer",
            ["sts:AssumeRole"],
            # CloudFormation names it.
            [self._arn("iam", f"role/{name}-cluster-Administrator*", region="")],
        )
        self._add_sizes(role, name)
        self._add_stopper(role)
        self._add_results(role)
        self._allow(role, "Bootstrap", ["ssm:GetParameter"], self._bootstrap_versions())
        self._allow(role, "Look", [*_LOOKS], ["*"])
        CfnOutput(
            self, "DeployRole", value=role.role_arn, description="Repository variable DEPLOY_ROLE"
        )

    def _acknowledge(self) -> None:
        """Every resource with a wildcard, as cdk-nag writes it, and why."""
        name, own = self._experiment.name, "In names that CloudFormation, EKS or the CLI choose."
        account = "<AWS::AccountId>" if Token.is_unresolved(self.account) else self.account
        wild = [arn.replace(self.account, account) for arn in self._wild(name)]
        acknowledge(
            self,
            {
                **{f"AwsSolutions-IAM5[Resource::{arn}]": own for arn in wild},
                "AwsSolutions-IAM5[Resource::*]": "What only looks: most of it knows no resources.",
            },
        )

    def _wild(self, name: str) -> list[str]:
        bucket = f"arn:{self.partition}:s3:::{bucket_name(self._experiment, self.account)}"
        return [
            *self._stacks(),
            self._arn("iam", f"role/{name}-cluster-Administrator*", region=""),
            self._guard_roles(name),
            self._arn("eks", f"nodegroup/{name}/*"),
            self._arn("scheduler", f"schedule/{name}-guard/*"),
            self._arn("states", f"execution:{stopper_name(self._experiment)}:*"),
            f"{bucket}/*",
            f"{bucket}/{LOGS_PREFIX}*",
        ]

    def _add_sizes(self, role: iam.Role, name: str) -> None:
        """What ``deployment.guard`` and ``deployment.nodes`` change."""
        self._allow(
            role,
            "Sizes",
            ["eks:UpdateNodegroupConfig"],
            [self._arn("eks", f"nodegroup/{name}/*")],
        )
        self._allow(
            role,
            "Guards",
            [f"scheduler:{action}Schedule" for action in ("Create", "Update")],
            [self._arn("scheduler", f"schedule/{name}-guard/*")],
        )
        self._allow(
            role,
            "ForGuards",
            ["iam:PassRole"],
            [self._guard_roles(name)],
            {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        )

    def _guard_roles(self, name: str) -> str:
        """CloudFormation cuts the stack's name in the names of roles, which may have 64 characters.

        Of a name as long as may be, no more than this is left.
        """
        return self._arn("iam", f"role/{name}-train*", region="")

    def _add_stopper(self, role: iam.Role) -> None:
        """What ``deployment.nodes`` looks at and cancels."""
        name = stopper_name(self._experiment)
        for action, resource in (
            ("ListExecutions", f"stateMachine:{name}"),
            ("StopExecution", f"execution:{name}:*"),
        ):
            self._allow(role, action, [f"states:{action}"], [self._arn("states", resource)])

    def _add_results(self, role: iam.Role) -> None:
        bucket = f"arn:{self.partition}:s3:::{bucket_name(self._experiment, self.account)}"
        self._allow(role, "List", ["s3:ListBucket", "s3:ListBucketVersions"], [bucket])
        self._allow(role, "Results", ["s3:GetObject"], [f"{bucket}/*"])
        self._allow(role, "Logs", ["s3:PutObject"], [f"{bucket}/{LOGS_PREFIX}*"])

    def _role(
        self,
        construct_id: str,
        subject: str,
        conditions: Mapping[str, str],
        description: str,
        longest: Duration,
    ) -> iam.Role:
        """A role for one subject of GitHub's tokens, compared as a whole."""
        told = {f"{ISSUER}:aud": AUDIENCE, f"{ISSUER}:sub": subject, **conditions}
        return iam.Role(
            self,
            construct_id,
            assumed_by=iam.WebIdentityPrincipal(self._issuer, {"StringEquals": told}),
            description=description,
            max_session_duration=longest,
        )

    def _allow(
        self,
        role: iam.Role,
        sid: str,
        actions: list[str],
        resources: list[str],
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        role.add_to_policy(
            iam.PolicyStatement(
                sid=sid, actions=actions, resources=resources, conditions=conditions
            )
        )

    @property
    def _regions(self) -> list[str]:
        region = self._experiment.aws.region
        return sorted({region, budget_region(region)})

    def _stacks(self) -> list[str]:
        """All of the experiment's, but for this one."""
        experiment = self._experiment
        region = experiment.aws.region
        names = {f"{experiment.name}-{part}": region for part in STACKS}
        names[budget_stack_name(experiment)] = budget_region(region)
        return [
            self._arn("cloudformation", f"stack/{name}/*", region=where)
            for name, where in names.items()
        ]

    def _bootstrap_role(self, kind: str, region: str) -> str:
        name = f"cdk-{_QUALIFIER}-{kind}-role-{self.account}-{region}"
        return self._arn("iam", f"role/{name}", region="")

    def _bootstrap_versions(self) -> list[str]:
        name = f"parameter/cdk-bootstrap/{_QUALIFIER}/version"
        return [self._arn("ssm", name, region=region) for region in self._regions]

    def _arn(self, service: str, resource: str, *, region: str | None = None) -> str:
        where = self._experiment.aws.region if region is None else region
        return f"arn:{self.partition}:{service}:{where}:{self.account}:{resource}"


_LOOKS: Final = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
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
    "ec2:DescribeVpcs",
    "ecr:DescribeImages",
    "eks:DescribeAddonVersions",
    "eks:DescribeCluster",
    "eks:DescribeClusterVersions",
    "eks:DescribeNodegroup",
    "eks:DescribeUpdate",
    "eks:ListClusters",
    "eks:ListUpdates",
    "logs:DescribeLogGroups",
    "scheduler:GetSchedule",
    "servicequotas:GetAWSDefaultServiceQuota",
    "servicequotas:GetServiceQuota",
)
"""What the commands on an account ask, in the order of the alphabet."""
