"""What scales nodes to 0 without a laptop: schedules for when nothing else does, and the stopper.

No function of ours takes part: EventBridge Scheduler and Step Functions call EKS themselves.
"""

from collections.abc import Mapping
from typing import Final

from aws_cdk import ArnFormat, Duration, Stack, Tags
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from stacks.acknowledge import acknowledge
from stacks.roles import allow

UPDATE_NODE_GROUP: Final = "eks:UpdateNodegroupConfig"
TAG: Final = "Guarded"
"""Key of the tag that each node group gets, so that the role of its guard knows it."""


class ScaleToZero(Construct):
    """An empty group of schedules with a role for each node group, and a stopper for one of them.

    Whoever starts nodes first makes a schedule in ``schedule_group`` that calls
    ``arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig`` as the group's role, with sizes 0
    (``deployment/guard.py`` does). Deleting the stack deletes the schedules. The node groups are
    made after all of that and deleted before: a deletion that fails half-way leaves no node without
    its guard. So a role knows its node group by a tag, not by its ARN.
    """

    schedule_group: scheduler.CfnScheduleGroup
    """Where the schedules belong."""
    roles: Mapping[str, iam.Role]
    """Of the schedules of each node group, by its tag. Each may change the sizes of that group."""
    stopper: sfn.StateMachine
    """Scales ``stopped`` to 0, a minute after it is started. It takes no input."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        schedule_group_name: str,
        node_groups: Mapping[str, eks.Nodegroup],
        stopped: eks.Nodegroup,
        state_machine_name: str,
    ) -> None:
        """``node_groups`` of cluster ``cluster_name``, by the value that each gets for ``TAG``.

        The names of the schedule group and of the state machine are unique in account and region.
        """
        super().__init__(scope, construct_id)
        self._cluster = cluster_name
        guard = Construct(self, "Guard")
        self.schedule_group = scheduler.CfnScheduleGroup(
            guard, "Schedules", name=schedule_group_name
        )
        self.roles = {tag: self._role(guard, tag) for tag in node_groups}
        for tag, nodes in node_groups.items():
            Tags.of(nodes).add(TAG, tag)
            nodes.node.add_dependency(guard)
        self.stopper = self._stopper(stopped, state_machine_name)

    def _role(self, scope: Construct, tag: str) -> iam.Role:
        """Of schedules that may change the sizes of one node group, and do nothing else."""
        role = iam.Role(
            scope,
            f"{tag.capitalize()}Role",
            assumed_by=_called_for(self, "scheduler.amazonaws.com", self.schedule_group.attr_arn),
            description="Schedules that scale one node group to 0",
        )
        stack = Stack.of(self)
        groups = stack.format_arn(
            service="eks", resource="nodegroup", resource_name=f"{self._cluster}/*"
        )
        tagged = {"StringEquals": {f"aws:ResourceTag/{TAG}": tag}}
        allow(role, "ScaleToZero", [UPDATE_NODE_GROUP], [groups], tagged)
        arn = f"arn:aws:eks:{stack.region}:<AWS::AccountId>:nodegroup/{self._cluster}/*"
        reason = "One node group, by its tag: it is made later."
        acknowledge(role, {f"AwsSolutions-IAM5[Resource::{arn}]": reason})
        return role

    def _stopper(self, nodes: eks.Nodegroup, name: str) -> sfn.StateMachine:
        """A state machine that scales one node group to 0.

        A pod that may start it can end the nodes that it runs on. A pod that could call EKS itself
        could also start nodes.
        """
        scope = Construct(self, "Stopper")
        # An index that ends at the same moment on these nodes merges and uploads once more.
        first = sfn.Wait(scope, "Wait", time=sfn.WaitTime.duration(Duration.minutes(1)))
        task = tasks.CallAwsService(
            scope,
            "Stop",
            service="eks",
            action="updateNodegroupConfig",
            parameters={
                "ClusterName": self._cluster,
                "NodegroupName": nodes.nodegroup_name,
                "ScalingConfig": {"MinSize": 0, "DesiredSize": 0},
            },
            iam_action=UPDATE_NODE_GROUP,
            iam_resources=[nodes.nodegroup_arn],
        )
        # EKS refuses while another update of the group is going on.
        task.add_retry(
            errors=["States.ALL"],
            interval=Duration.seconds(30),
            max_attempts=20,
            backoff_rate=1.5,
            max_delay=Duration.minutes(5),
        )
        arn = Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        role = iam.Role(
            scope,
            "Role",
            assumed_by=_called_for(self, "states.amazonaws.com", arn),
            description="Scales one node group to 0",
        )
        body = sfn.DefinitionBody.from_chainable(first.next(task))
        machine = sfn.StateMachine(
            scope, "Machine", state_machine_name=name, definition_body=body, role=role
        )
        reasons = {
            "AwsSolutions-SF1": "Step Functions keeps what an execution did for 90 days.",
            "AwsSolutions-SF2": "It has one step, and nothing to trace.",
        }
        acknowledge(machine, reasons)
        return machine


def _called_for(scope: Construct, service: str, source_arn: str) -> iam.IPrincipal:
    """``service``, when it acts for one resource of this account and for no other's."""
    source = {"aws:SourceAccount": Stack.of(scope).account, "aws:SourceArn": source_arn}
    return iam.ServicePrincipal(service, conditions={"StringEquals": source})
