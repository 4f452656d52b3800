"""CloudWatch metrics and the arithmetic on them, for dashboards and alarms alike."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from benchmark import metrics as catalogue
from benchmark import names
from benchmark.metrics import Metric
from benchmark.names import BASE, SPECULATIVE
from experiment.schema import Experiment, TestCase

MINUTE: Final = 1

# One colour a side everywhere, apart for colour-blind readers too (Okabe and Ito's palette).
COLOURS: Final = {BASE: "#0072B2", SPECULATIVE: "#D55E00"}


def measured(
    metric: Metric,
    variant: str,
    case: TestCase,
    *,
    statistic: str = "p50",
    label: str | None = None,
    period: Duration | None = None,
) -> cloudwatch.Metric:
    """What the benchmark published: every request's value, so percentiles are true ones."""
    return cloudwatch.Metric(
        namespace=names.NAMESPACE,
        metric_name=metric.name,
        dimensions_map={names.VARIANT_DIMENSION: variant, names.TEST_CASE_DIMENSION: case.name},
        statistic=statistic,
        period=period or Duration.minutes(MINUTE),
        label=label or f"{variant} {statistic}",
        color=COLOURS[variant] if label is None and statistic == "p50" else None,
    )


def speed_up(case: TestCase, *, period: Duration | None = None) -> cloudwatch.MathExpression:
    """Base's median time per output token over SD's: above 1, speculation is faster.

    Over five minutes unless told: both sides must have a request that ended in the same period,
    and one of the baseline's takes half a minute.
    """
    period = period or Duration.minutes(5)
    base, sd = _identifier("base", case), _identifier("sd", case)
    return cloudwatch.MathExpression(
        expression=f"{base} / {sd}",
        using_metrics={
            base: measured(catalogue.TIME_PER_OUTPUT_TOKEN, BASE, case, period=period),
            sd: measured(catalogue.TIME_PER_OUTPUT_TOKEN, SPECULATIVE, case, period=period),
        },
        label=case.name,
        period=period,
    )


def cost_per_million_tokens(
    experiment: Experiment, variant: str, case: TestCase
) -> cloudwatch.MathExpression:
    """USD per million output tokens of one service, at the benchmark's concurrency.

    The service is charged its share of the node, devices over devices. The load is closed-loop,
    so the service's throughput is a request's median throughput times the concurrency.
    """
    serving, capacity = experiment.serving, experiment.capacity
    usd_per_hour = capacity.price.usd_per_hour * serving.devices / capacity.instance.devices
    usd_per_million_seconds = usd_per_hour / 3600 * 1e6
    concurrency = experiment.benchmark.concurrency
    throughput = _identifier(f"throughput_{variant}", case)
    return cloudwatch.MathExpression(
        expression=f"{usd_per_million_seconds:.6g} / ({throughput} * {concurrency})",
        using_metrics={throughput: measured(catalogue.REQUEST_OUTPUT_THROUGHPUT, variant, case)},
        label=variant,
        color=COLOURS[variant],
        period=Duration.minutes(MINUTE),
    )


def _identifier(role: str, case: TestCase) -> str:
    """A name for metric math, unique in a graph of several cases."""
    return f"{role.lower()}_{case.name.replace('-', '_')}"


def node(
    experiment: Experiment, name: str, statistic: str, *, period: Duration | None = None
) -> cloudwatch.Metric:
    """A metric of Container Insights over all nodes; pod-level Neuron metrics do not know DRA."""
    return cloudwatch.Metric(
        namespace="ContainerInsights",
        metric_name=name,
        dimensions_map={"ClusterName": experiment.name},
        statistic=statistic,
        period=period or Duration.minutes(MINUTE),
        label=f"{name} ({statistic})",
    )
