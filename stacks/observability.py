"""Alarms, a budget, and the dashboards of ``stacks.dashboards``.

It refers to all metrics by name (``spectap.names``, Container Insights). So this stack needs no
other stack, and can be deployed and changed alone.
"""

import math
from typing import Any, Final

from aws_cdk import ArnFormat, Aws, CfnOutput, Duration
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from charts.names import budget_region, budget_stack_name
from experiment.cost import guard_hours
from experiment.schema import Experiment
from experiment.variants import variants
from spectap.inputs.config import Structure
from stacks import metrics
from stacks.dashboards import comparison_dashboards, nodes_dashboard
from stacks.metrics import Cell
from stacks.security import key
from stacks.stack import ExperimentStack

IDLE_PERIOD_MINUTES: Final = 5
_WEEK: Final = Duration.days(7)
"""The most over which an alarm may look, and a day if its periods are below an hour (CloudWatch API
reference, PutMetricAlarm)."""
_BELOW: Final = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD


def alarm_topic_name(experiment: Experiment) -> str:
    """The topic that alarms and the budget publish to."""
    return f"{experiment.name}-alarms"


class ObservabilityStack(ExperimentStack):
    """Dashboards for a person, and alarms for when nobody is looking."""

    def __init__(self, scope: Construct, experiment: Experiment, account: str | None) -> None:
        super().__init__(scope, f"{experiment.name}-observability", experiment, account)
        dashboards = [*comparison_dashboards(self, experiment), nodes_dashboard(self, experiment)]
        self._topic = self._alarm_topic(experiment)
        self._alarms(experiment)
        # The variants of a sweep are measured once; nothing of them stands that could lose it.
        if not experiment.isolated:
            self._alarm_on_lost_benefit(experiment)
        for dashboard in dashboards:
            CfnOutput(
                self,
                f"{dashboard.node.id}Dashboard",
                value=f"https://{self.region}.console.aws.amazon.com/cloudwatch/home"
                f"?region={self.region}#dashboards/dashboard/{dashboard.dashboard_name}",
            )

    def _alarm_topic(self, experiment: Experiment) -> sns.Topic:
        """An encrypted topic. AWS's own key would not let alarms and budgets publish to it."""
        encryption = key(self, "AlarmKey", f"Alarms of experiment {experiment.name}")
        name = alarm_topic_name(experiment)
        topic = sns.Topic(self, "Alarms", topic_name=name, master_key=encryption, enforce_ssl=True)
        ours = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        for service in ("cloudwatch", "budgets"):
            # Grants the use of the key, too.
            topic.grant_publish(iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=ours))
        for email in experiment.alerts.emails:
            topic.add_subscription(subscriptions.EmailSubscription(email))
        return topic

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        comparison: cloudwatch.ComparisonOperator,
        threshold: float,
        periods: int = 1,
        **settings: Any,
    ) -> None:
        """An alarm that stays quiet without data: there is no node, or no benchmark runs."""
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            comparison_operator=comparison,
            threshold=threshold,
            evaluation_periods=periods,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            **settings,
        )
        alarm.add_alarm_action(actions.SnsAction(self._topic))

    def _alarms(self, experiment: Experiment) -> None:
        name = experiment.name
        price = experiment.capacity.price.usd_per_hour * experiment.capacity.nodes
        period = Duration.minutes(IDLE_PERIOD_MINUTES)
        self._alarm(
            "NodeIdle",
            metrics.node(experiment, "node_neuroncore_utilization", "Maximum", period=period),
            _BELOW,
            1,
            experiment.alerts.idle_minutes // IDLE_PERIOD_MINUTES,
            alarm_name=f"{name}-node-idle",
            alarm_description=f"No NeuronCore has worked for {experiment.alerts.idle_minutes} "
            f"minutes, at {price:.2f} USD an hour ({experiment.price_description}). End the nodes "
            f"of experiment {name} (make stop EXPERIMENT=its file), or destroy it.",
        )
        if not experiment.aws.cluster:  # whose own Neuron nodes would count
            self._alarm_on_late_guard(experiment)
        self._alarm(
            "MemoryErrors",
            metrics.node(experiment, "node_neurondevice_hw_ecc_events_total", "Sum"),
            cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            0,
            alarm_name=f"{name}-ecc-errors",
            alarm_description="A Neuron device reports ECC errors. Uncorrectable ones replace the "
            "node after ten minutes (node auto repair); measurements around them are suspect.",
        )

    def _alarm_on_late_guard(self, experiment: Experiment) -> None:
        """Makes an alarm on nodes that report for longer than a guard leaves them.

        Nothing tells that a guard has not acted. Where one start follows another within a period,
        this takes the two for one.
        """
        name, minutes = experiment.name, guard_hours(experiment) * 60
        period = Duration.minutes(15 if minutes < 23 * 60 else 60)
        # They may begin and end within a period, and end some minutes after the guard.
        periods = math.ceil(minutes / period.to_minutes()) + 3
        if periods * period.to_minutes() > _WEEK.to_minutes():
            return
        self._alarm(
            "GuardLate",
            metrics.node(experiment, "node_neuroncore_utilization", "SampleCount", period=period),
            cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            0,
            periods,
            alarm_name=f"{name}-guard-late",
            alarm_description=f"Trainium nodes of experiment {name} have run for longer than the "
            f"{minutes / 60:.1f} hours that their guard leaves them. Unless they were started anew "
            "meanwhile, it has not acted. End them: make stop EXPERIMENT=its file.",
        )

    def _alarm_on_lost_benefit(self, experiment: Experiment) -> None:
        """Makes alarms on the case that should gain most, at the first load point."""
        cases, (point, *later_points) = experiment.benchmark.test_cases, experiment.benchmark.points
        headlines = [c for c in cases if c.headline and c.structure is Structure.STRUCTURED]
        case, *_ = headlines or cases
        why = ", which a draft model should predict," if headlines else ","
        at = f" at {point}" if later_points else ""
        minimum = experiment.alerts.minimum_speedup
        for variant in variants(experiment):
            if variant.baseline is None:
                continue
            self._alarm(
                f"SpeculationLostItsBenefit{variant.name}",
                Cell(variant, case, point).speed_up(period=Duration.minutes(15)),
                _BELOW,
                minimum,
                alarm_name=f"{experiment.name}-speculation-lost-its-benefit-{variant.name}",
                alarm_description=f"On {case.name}{at}{why} {variant.name} decodes less than "
                f"{minimum:g}x as fast as {variant.baseline}. Accuracy tests do not see this: look "
                "at tokens per step, and at which artifact is served.",
            )


class BudgetStack(ExperimentStack):
    """A budget, which works once the payer account has activated the tag ``Experiment``.

    It does not count a prepaid Capacity Block, which carries no tag. Its price is known before.
    """

    def __init__(self, scope: Construct, experiment: Experiment, account: str | None) -> None:
        region = budget_region(experiment.aws.region)
        super().__init__(scope, budget_stack_name(experiment), experiment, account, region)
        topic = self.format_arn(
            service="sns",
            region=experiment.aws.region,
            resource=alarm_topic_name(experiment),
            arn_format=ArnFormat.NO_RESOURCE_NAME,
        )
        budget = budgets.CfnBudget
        budget(
            self,
            "Budget",
            budget=budget.BudgetDataProperty(
                # The names of budgets must differ over all regions.
                budget_name=f"{experiment.name}-{experiment.aws.region}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budget.SpendProperty(
                    amount=experiment.alerts.budget_usd_per_month, unit="USD"
                ),
                cost_filters={"TagKeyValue": [f"user:Experiment${experiment.name}"]},
            ),
            notifications_with_subscribers=[
                budget.NotificationWithSubscribersProperty(
                    notification=budget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[budget.SubscriberProperty(address=topic, subscription_type="SNS")],
                )
                for kind, percent in (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
            ],
            resource_tags=[
                budget.ResourceTagProperty(key=key, value=value)
                for key, value in experiment.tags.items()
            ],
        )
