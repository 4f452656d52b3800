"""CloudWatch metrics and the arithmetic on them, for dashboards and alarms alike."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from benchmark import metrics, names, palette
from benchmark.metrics import Metric
from charts.llmperf import cost
from experiment.schema import Experiment, TestCase
from experiment.variants import Variant, services

MINUTE: Final = 1
SPEED_UP_MINUTES: Final = 5
"""A variant and its baseline must both have finished a request in the same period. A request to the
article's baseline takes half a minute."""

STATISTIC: Final = "p50"
"""A true percentile, because the benchmark publishes the value of every request."""


def measured(
    metric: Metric,
    variant: Variant,
    case: TestCase,
    *,
    label: str | None = None,
    period: Duration | None = None,
) -> cloudwatch.Metric:
    """The median over requests of what the benchmark published.

    It has the variant's colour, unless a ``label`` tells it from other curves of that variant.
    """
    return cloudwatch.Metric(
        namespace=names.NAMESPACE,
        metric_name=metric.name,
        dimensions_map={
            names.EXPERIMENT_DIMENSION: variant.experiment.name,
            names.VARIANT_DIMENSION: variant.name,
            names.TEST_CASE_DIMENSION: case.name,
        },
        statistic=STATISTIC,
        period=period or Duration.minutes(MINUTE),
        label=label or f"{variant.name} {STATISTIC}",
        color=None if label else _colour(variant),
    )


def speed_up(
    variant: Variant, case: TestCase, *, label: str | None = None, period: Duration | None = None
) -> cloudwatch.MathExpression:
    """The baseline's median time per output token over the variant's: above 1, it is faster.

    ``variant`` must not be a baseline.
    """
    period = period or Duration.minutes(SPEED_UP_MINUTES)
    (baseline,) = (v for v in services(variant.experiment) if v.name == variant.baseline)
    operands = {
        _identifier(each, case): measured(metrics.TIME_PER_OUTPUT_TOKEN, each, case, period=period)
        for each in (baseline, variant)
    }
    return cloudwatch.MathExpression(
        expression=" / ".join(operands),
        using_metrics=operands,
        label=label or f"{variant.name} over {variant.baseline}",
        color=None if label else _colour(variant),
        period=period,
    )


def cost_per_million_tokens(variant: Variant, case: TestCase) -> cloudwatch.MathExpression:
    """USD per million output tokens of one variant, at the benchmark's concurrency.

    The load is a closed loop, so a variant's throughput is the median throughput of a request times
    the concurrency.
    """
    usd = cost(variant.experiment).usd_per_million_seconds
    throughput = _identifier(variant, case)
    return cloudwatch.MathExpression(
        expression=f"{usd:.6g} / ({throughput} * {variant.experiment.benchmark.concurrency})",
        using_metrics={throughput: measured(metrics.REQUEST_OUTPUT_THROUGHPUT, variant, case)},
        label=variant.name,
        color=_colour(variant),
        period=Duration.minutes(MINUTE),
    )


def node(
    experiment: Experiment, name: str, statistic: str, *, period: Duration | None = None
) -> cloudwatch.Metric:
    """A metric of Container Insights over all nodes.

    Its Neuron metrics of single pods know device plugins only, and not DRA.
    """
    return cloudwatch.Metric(
        namespace="ContainerInsights",
        metric_name=name,
        dimensions_map={"ClusterName": experiment.name},
        statistic=statistic,
        period=period or Duration.minutes(MINUTE),
        label=f"{name} ({statistic})",
    )


def _position(variant: Variant) -> int:
    return [each.name for each in services(variant.experiment)].index(variant.name)


def _colour(variant: Variant) -> str:
    return palette.of(each.name for each in services(variant.experiment))[variant.name].light


def _identifier(variant: Variant, case: TestCase) -> str:
    """A name for metric math, unique in a graph. It begins with a lower-case letter.

    The variant's position keeps variant ``a-b``, case ``c`` apart from variant ``a``, case ``b-c``.
    """
    return f"v{_position(variant)}_{case.name.replace('-', '_')}"
