"""What scales nodes to 0 without a laptop: schedules for when nothing else does, and the stopper.

No function of ours takes part: EventBridge Scheduler and Step Functions call EKS themselves.
"""

from __future__ import annotations

from typing import Final

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from charts.names import stopper_name
from experiment.schema import Experiment
from stacks.acknowledge import acknowledge
from stacks.roles import allow

UPDATE_NODE_GROUP: Final = "eks:UpdateNodegroupConfig"
TAG: Final = "Guarded"
"""Key of the tag that a node group has, with its kind, so that the role of its guard knows it."""


def schedule_group_name(experiment: str) -> str:
    """The group that has an experiment's guards."""
    return f"{experiment}-guard"


class Guard(Construct):
    """An empty group of schedules, and roles for them.

    Whoever starts nodes makes the schedule that will end them (``deployment/guard.py``). Deleting
    the group, so the stack, deletes its schedules. Node groups are made after all of it and deleted
    before: a deletion that fails half-way leaves no node without its guard. So a role knows its
    node group by a tag, not by its ARN.
    """

    def __init__(self, scope: Construct, construct_id: str, *, name: str, cluster: str) -> None:
        super().__init__(scope, construct_id)
        self._cluster = cluster
        self.group = scheduler.CfnScheduleGroup(self, "Schedules", name=schedule_group_name(name))

    def role(self, construct_id: str, kind: str) -> iam.Role:
        """The role of schedules that may change the size of one node group, and do nothing else.

        It is the group of this cluster that has ``TAG`` with the value ``kind``.
        """
        role = iam.Role(
            self,
            construct_id,
            assumed_by=_called_for(self, "scheduler.amazonaws.com", self.group.attr_arn),
            description="Schedules that scale one node group to 0",
        )
        stack = Stack.of(self)
        groups = stack.format_arn(
            service="eks", resource="nodegroup", resource_name=f"{self._cluster}/*"
        )
        tagged = {"StringEquals": {f"aws:ResourceTag/{TAG}": kind}}
        allow(role, "ScaleToZero", [UPDATE_NODE_GROUP], [groups], tagged)
        arn = f"arn:aws:eks:{stack.region}:<AWS::AccountId>:nodegroup/{self._cluster}/*"
        reason = "One node group, by its tag: it is made later."
        acknowledge(role, {f"AwsSolutions-IAM5[Resource::{arn}]": reason})
        return role


class Stopper(Construct):
    """A state machine that scales one node group to 0.

    A pod that may start it can end the nodes that it runs on. A pod that could call EKS itself
    could also start nodes.
    """

    def __init__(
        self, scope: Construct, construct_id: str, experiment: Experiment, nodes: eks.CfnNodegroup
    ) -> None:
        super().__init__(scope, construct_id)
        name = stopper_name(experiment)
        task = tasks.CallAwsService(
            self,
            "Stop",
            service="eks",
            action="updateNodegroupConfig",
            parameters={
                "ClusterName": experiment.cluster_name,
                "NodegroupName": nodes.attr_nodegroup_name,
                "ScalingConfig": {"MinSize": 0, "DesiredSize": 0},
            },
            iam_action=UPDATE_NODE_GROUP,
            iam_resources=[nodes.attr_arn],
        )
        # An index that ends at the same moment on these nodes merges and uploads once more.
        first = sfn.Wait(self, "Wait", time=sfn.WaitTime.duration(Duration.minutes(1)))
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
            self,
            "Role",
            assumed_by=_called_for(self, "states.amazonaws.com", arn),
            description="Scales one node group to 0",
        )
        body = sfn.DefinitionBody.from_chainable(first.next(task))
        machine = sfn.StateMachine(
            self, "Machine", state_machine_name=name, definition_body=body, role=role
        )
        acknowledge(
            machine,
            {
                "AwsSolutions-SF1": "Step Functions keeps what an execution did for 90 days.",
                "AwsSolutions-SF2": "It has one step, and nothing to trace.",
            },
        )
        self.arn = machine.state_machine_arn


def _called_for(scope: Construct, service: str, source_arn: str) -> iam.IPrincipal:
    """``service``, when it acts for one resource of this account and for no other's."""
    source = {"aws:SourceAccount": Stack.of(scope).account, "aws:SourceArn": source_arn}
    return iam.ServicePrincipal(service, conditions={"StringEquals": source})
