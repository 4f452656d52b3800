"""A monthly budget for everything that carries the experiment's tag."""

from __future__ import annotations

from typing import Any

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_budgets as budgets
from constructs import Construct

from experiment.schema import Experiment
from stacks.observability import alarm_topic_name


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
