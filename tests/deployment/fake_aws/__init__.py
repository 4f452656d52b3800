"""A small AWS that takes its time: EKS, EventBridge Scheduler, Step Functions and CloudFormation.

In memory, at the boundary of boto3's clients, with one clock that moves only when somebody waits or
calls. It does late what AWS does late, refuses what AWS refuses, and fails where it is told to.
"""

from tests.deployment.fake_aws.account import FakeAws, Lost, action
from tests.deployment.fake_aws.clock import HOUR, MINUTE
from tests.deployment.fake_aws.eks import Pace
from tests.deployment.fake_aws.facts import ACCOUNT, REGION

__all__ = ["ACCOUNT", "HOUR", "MINUTE", "REGION", "FakeAws", "Lost", "Pace", "action"]
