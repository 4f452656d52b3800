"""A monthly budget for everything that carries the experiment's tag."""

from __future__ import annotations

from typing import Any, Final

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_budgets as budgets
from constructs import Construct

from experiment.schema import Experiment
from stacks.observability import alarm_topic_name

# Budgets are global, but CloudFormation can create them in these regions only. A test compares the
# list with cfn-lint's copy of the resource registry.
REGIONS: Final = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ca-central-1",
        "eu-central-1",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
        "me-south-1",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
    }
)
ELSEWHERE: Final = "us-east-1"


def budget_region(region: str) -> str:
    """The region of the budget stack of an experiment in ``region``."""
    return region if region in REGIONS else ELSEWHERE


def budget_stack_name(experiment: Experiment) -> str:
    """The stack's name. It contains the region if budgets of several regions share one region."""
    region = experiment.aws.region
    where = "" if budget_region(region) == region else f"{region}-"
    return f"{experiment.name}-{where}budget"


class BudgetStack(Stack):
    """Works once the payer account has activated the tag ``Experiment`` for cost allocation.

    It does not count a prepaid Capacity Block, which carries no tag. Its price is known before.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, experiment: Experiment, **kwargs: Any
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        topic = self.format_arn(
            service="sns",
            region=experiment.aws.region,
            resource=alarm_topic_name(experiment),
            arn_format=ArnFormat.NO_RESOURCE_NAME,
        )
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                # The names of budgets must differ over all regions.
                budget_name=f"{experiment.name}-{experiment.aws.region}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(
                    amount=experiment.alerts.budget_usd_per_month, unit="USD"
                ),
                cost_filters={"TagKeyValue": [f"user:Experiment${experiment.name}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(address=topic, subscription_type="SNS")
                    ],
                )
                for kind, percent in (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
            ],
            resource_tags=[
                budgets.CfnBudget.ResourceTagProperty(key="Experiment", value=experiment.name)
            ],
        )
