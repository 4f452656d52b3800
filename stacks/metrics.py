"""CloudWatch metrics and the arithmetic on them, for dashboards and alarms alike."""

import re
from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from charts.benchmark import cost
from experiment.measurement import TestCase
from experiment.schema import Experiment
from experiment.variants import Variant, variants
from spectap import metrics, names
from spectap.inputs.load_points import LoadPoint
from spectap.metrics import Metric, Published
from spectap.report import palette

MINUTE: Final = Duration.minutes(1)
SPEED_UP_PERIOD: Final = Duration.minutes(5)
"""A variant and its baseline must both have finished a request in the same period."""

STATISTIC: Final = "p50"
"""A true percentile, because the benchmark publishes the value of every request."""


def measured(
    metric: Metric,
    variant: Variant,
    case: TestCase,
    point: LoadPoint,
    *,
    label: str | None = None,
    period: Duration | None = None,
) -> cloudwatch.Metric:
    """The median over requests of what the benchmark published.

    It has the variant's colour, unless a ``label`` tells it from other curves of that variant.
    """
    return _published(
        metric,
        variant,
        case,
        point,
        statistic=STATISTIC,
        period=period or MINUTE,
        label=label or named(variant, point, f"{variant.name} {STATISTIC}"),
        color=None if label else _colour(variant),
    )


def speed_up(
    variant: Variant,
    case: TestCase,
    point: LoadPoint,
    *,
    label: str | None = None,
    period: Duration | None = None,
) -> cloudwatch.MathExpression:
    """The baseline's median time per output token over the variant's: above 1, it is faster.

    ``variant`` must not be a baseline.
    """
    period = period or SPEED_UP_PERIOD
    (baseline,) = (v for v in variants(variant.experiment) if v.name == variant.baseline)
    operands = {
        _identifier(each, case, point): measured(
            metrics.TIME_PER_OUTPUT_TOKEN, each, case, point, period=period
        )
        for each in (baseline, variant)
    }
    return cloudwatch.MathExpression(
        expression=" / ".join(operands),
        using_metrics=operands,
        label=label or named(variant, point, f"{variant.name} over {variant.baseline}"),
        color=None if label else _colour(variant),
        period=period,
    )


def cost_per_million_tokens(
    variant: Variant, case: TestCase, point: LoadPoint
) -> cloudwatch.MathExpression:
    """USD per million output tokens of one variant: the report's formula (docs/decisions/0018).

    Both sums are of whole turns, so this holds in any period that cuts no turn in two. ``point``
    must be a concurrency: a service that waits for requests has no cost of a token.
    """
    assert point.concurrency, str(point)
    usd = cost(variant.experiment).usd_per_million_seconds / point.concurrency
    return _of_totals(variant, case, point, f"{usd:.6g} * {{time}} / {{tokens}}")


def tokens_per_second_in_flight(
    variant: Variant, case: TestCase, point: LoadPoint
) -> cloudwatch.MathExpression:
    """Output tokens for each second that a request was in flight, over all requests."""
    return _of_totals(variant, case, point, "{tokens} / {time}")


def _of_totals(
    variant: Variant, case: TestCase, point: LoadPoint, expression: str
) -> cloudwatch.MathExpression:
    """An ``expression`` of the ``time`` that requests took and of their output ``tokens``."""
    identifier = _identifier(variant, case, point)
    time, tokens = f"{identifier}_time", f"{identifier}_tokens"
    return cloudwatch.MathExpression(
        expression=expression.format(time=time, tokens=tokens),
        using_metrics={
            name: _published(total, variant, case, point, statistic="Sum")
            for name, total in ((time, metrics.REQUEST_TIME), (tokens, metrics.SERVED_TOKENS))
        },
        label=named(variant, point, variant.name),
        color=_colour(variant),
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
        dimensions_map={"ClusterName": experiment.cluster_name},
        statistic=statistic,
        period=period or MINUTE,
        label=f"{name} ({statistic})",
    )


def _published(
    metric: Published, variant: Variant, case: TestCase, point: LoadPoint, **settings: Any
) -> cloudwatch.Metric:
    """The benchmark's metric of one variant and test case at one load point."""
    load = {names.LOAD_DIMENSION: point.name} if _on_a_ladder(variant) else {}
    return cloudwatch.Metric(
        namespace=names.namespace(variant.experiment.models.target.id),
        metric_name=metric.name,
        dimensions_map={
            names.EXPERIMENT_DIMENSION: variant.experiment.name,
            names.VARIANT_DIMENSION: variant.name,
            names.TEST_CASE_DIMENSION: case.name,
            **load,
        },
        **settings,
    )


def _on_a_ladder(variant: Variant) -> bool:
    return len(variant.experiment.benchmark.listed_points) > 1


def named(variant: Variant, point: LoadPoint, words: str) -> str:
    """The label ``words``, with the load point where there are several."""
    return f"{point.name}, {words}" if _on_a_ladder(variant) else words


def _colour(variant: Variant) -> str:
    return palette.of(each.name for each in variants(variant.experiment))[variant.name].light


def _identifier(variant: Variant, case: TestCase, point: LoadPoint) -> str:
    """A name for metric math, unique in a dashboard's widget. It begins with a lower-case letter.

    The variant's position keeps variant ``a-b``, case ``c`` apart from variant ``a``, case ``b-c``.
    """
    position = [each.name for each in variants(variant.experiment)].index(variant.name)
    parts = [case.name, *([point.name] if _on_a_ladder(variant) else [])]
    return f"v{position}_" + re.sub(r"\W", "_", "_".join(parts))
