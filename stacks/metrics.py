"""Metrics of CloudWatch and the arithmetic on them, for dashboards and alarms alike."""

import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Cell:
    """A variant, a test case and a load point, with the metrics that the benchmark publishes of it.

    Curves have the variant's colour; those that need a ``label`` of their own have none.
    """

    variant: Variant
    case: TestCase
    point: LoadPoint

    def measured(
        self, metric: Metric, *, label: str | None = None, period: Duration = MINUTE
    ) -> cloudwatch.Metric:
        """The median over requests."""
        return self._published(
            metric,
            statistic=STATISTIC,
            period=period,
            label=label or self.named(f"{self.variant.name} {STATISTIC}"),
            color=None if label else self._colour,
        )

    def speed_up(
        self, *, label: str | None = None, period: Duration = SPEED_UP_PERIOD
    ) -> cloudwatch.MathExpression:
        """The baseline's median time per output token over the variant's: above 1, it is faster.

        The variant must not be a baseline.
        """
        variant = self.variant
        (baseline,) = (v for v in variants(variant.experiment) if v.name == variant.baseline)
        operands = {
            cell._identifier: cell.measured(metrics.TIME_PER_OUTPUT_TOKEN, period=period)
            for cell in (Cell(baseline, self.case, self.point), self)
        }
        return cloudwatch.MathExpression(
            expression=" / ".join(operands),
            using_metrics=operands,
            label=label or self.named(f"{variant.name} over {variant.baseline}"),
            color=None if label else self._colour,
            period=period,
        )

    def cost_per_million_tokens(self) -> cloudwatch.MathExpression:
        """USD per million output tokens: the report's formula (docs/decisions/0018).

        Both sums are of whole turns, so this holds in any period that cuts no turn in two. The
        point must be a concurrency: a service that waits for requests has no cost of a token.
        """
        assert self.point.concurrency, str(self.point)
        usd = cost(self.variant.experiment).usd_per_million_seconds / self.point.concurrency
        return self._of_totals(f"{usd:.6g} * {{time}} / {{tokens}}")

    def tokens_per_second_in_flight(self) -> cloudwatch.MathExpression:
        """Output tokens for each second that a request was in flight, over all requests."""
        return self._of_totals("{tokens} / {time}")

    def named(self, words: str) -> str:
        """The label ``words``, with the load point where there are several."""
        return f"{self.point.name}, {words}" if self._on_a_ladder else words

    def _of_totals(self, expression: str) -> cloudwatch.MathExpression:
        """An ``expression`` of the ``time`` that requests took and of their output ``tokens``."""
        time, tokens = f"{self._identifier}_time", f"{self._identifier}_tokens"
        return cloudwatch.MathExpression(
            expression=expression.format(time=time, tokens=tokens),
            using_metrics={
                name: self._published(total, statistic="Sum")
                for name, total in ((time, metrics.REQUEST_TIME), (tokens, metrics.SERVED_TOKENS))
            },
            label=self.named(self.variant.name),
            color=self._colour,
        )

    def _published(self, metric: Published, **settings: Any) -> cloudwatch.Metric:
        load = {names.LOAD_DIMENSION: self.point.name} if self._on_a_ladder else {}
        return cloudwatch.Metric(
            namespace=names.namespace(self.variant.experiment.models.target.id),
            metric_name=metric.name,
            dimensions_map={
                names.EXPERIMENT_DIMENSION: self.variant.experiment.name,
                names.VARIANT_DIMENSION: self.variant.name,
                names.TEST_CASE_DIMENSION: self.case.name,
                **load,
            },
            **settings,
        )

    @property
    def _on_a_ladder(self) -> bool:
        return len(self.variant.experiment.benchmark.listed_points) > 1

    @property
    def _colour(self) -> str:
        listed = variants(self.variant.experiment)
        return palette.of(each.name for each in listed)[self.variant.name].light

    @property
    def _identifier(self) -> str:
        """A name for metric math, unique in a widget. It begins with a lower-case letter.

        The variant's position keeps variant ``a-b``, case ``c`` apart from variant ``a``, case
        ``b-c``.
        """
        listed = [each.name for each in variants(self.variant.experiment)]
        parts = [self.case.name, *([self.point.name] if self._on_a_ladder else [])]
        return f"v{listed.index(self.variant.name)}_" + re.sub(r"\W", "_", "_".join(parts))


def node(
    experiment: Experiment, name: str, statistic: str, *, period: Duration = MINUTE
) -> cloudwatch.Metric:
    """A metric of Container Insights over all nodes: those of single pods do not know DRA."""
    return cloudwatch.Metric(
        namespace="ContainerInsights",
        metric_name=name,
        dimensions_map={"ClusterName": experiment.cluster_name},
        statistic=statistic,
        period=period,
        label=f"{name} ({statistic})",
    )
