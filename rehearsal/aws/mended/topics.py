"""Subscriptions to topics of SNS in CloudFormation."""

from __future__ import annotations

from moto.cloudformation.parsing import get_model_map
from moto.sns.models import sns_backends

from rehearsal.aws.mended.base import Resource


def mend() -> None:
    """Adds the type."""
    get_model_map()[Subscription.type] = Subscription  # type: ignore[assignment]


class Subscription(Resource):
    """One in moto's own SNS."""

    type = "AWS::SNS::Subscription"

    def make(self) -> None:
        """Subscribes. The physical name is the subscription's ARN."""
        sns = sns_backends[self.where.account][self.where.region]
        told = self.told
        self.name = sns.subscribe(told["TopicArn"], told["Endpoint"], told["Protocol"]).arn
