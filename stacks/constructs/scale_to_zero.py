"""A state machine that scales a node group to 0, by which a run ends its own nodes.

No function of ours takes part: Step Functions calls EKS itself. What ends nodes when nothing else
does is not part of a stack: whoever starts them puts it on their Auto Scaling group
(``operations/guard.py``).
"""

from typing import Final

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from stacks.security import acknowledge

UPDATE_NODE_GROUP: Final = "eks:UpdateNodegroupConfig"


class ScaleToZero(Construct):
    """A stopper: a pod that may start it can end the nodes that it runs on.

    A pod that could call EKS itself could also start nodes.
    """

    stopper: sfn.StateMachine
    """Scales the group to 0, a minute after it is started. It takes no input."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        nodes: eks.Nodegroup,
        state_machine_name: str,
    ) -> None:
        """``nodes`` of cluster ``cluster_name``; the name is unique in account and region."""
        super().__init__(scope, construct_id)
        place = Construct(self, "Stopper")
        # An index that ends at the same moment on these nodes merges and uploads once more.
        first = sfn.Wait(place, "Wait", time=sfn.WaitTime.duration(Duration.minutes(1)))
        task = tasks.CallAwsService(
            place,
            "Stop",
            service="eks",
            action="updateNodegroupConfig",
            parameters={
                "ClusterName": cluster_name,
                "NodegroupName": nodes.nodegroup_name,
                # The least that EKS takes as the most, so that an autoscaler starts no more.
                "ScalingConfig": {"MinSize": 0, "DesiredSize": 0, "MaxSize": 1},
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
            resource_name=state_machine_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        # When it acts for this state machine, and for no other account's.
        source = {"aws:SourceAccount": Stack.of(self).account, "aws:SourceArn": arn}
        states = iam.ServicePrincipal("states.amazonaws.com", conditions={"StringEquals": source})
        role = iam.Role(
            place,
            "Role",
            assumed_by=states,
            description="Scales one node group to 0",
        )
        body = sfn.DefinitionBody.from_chainable(first.next(task))
        self.stopper = sfn.StateMachine(
            place, "Machine", state_machine_name=state_machine_name, definition_body=body, role=role
        )
        reasons = {
            "AwsSolutions-SF1": "Step Functions keeps what an execution did for 90 days.",
            "AwsSolutions-SF2": "It has one step, and nothing to trace.",
        }
        acknowledge(self.stopper, reasons)
