"""What a person sees: the variants side by side, and what the nodes do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from charts.llmperf import cost
from experiment.measurement import TestCase
from experiment.runtimes import Workload
from experiment.schema import Experiment
from experiment.variants import Variant, variants
from spectap import metrics
from spectap.load_points import LoadPoint
from spectap.metrics import Metric
from stacks import curves

# A dashboard is 24 units wide.
_QUARTER: Final = 6
_THIRD: Final = 8
_FULL: Final = 24
_HEIGHT: Final = 6

# Amazon CloudWatch User Guide, "CloudWatch service quotas". The other two, 500 metrics in a graph
# and 2,500 on a dashboard, are kept by experiment.rules.measurement.MOST_CELLS.
_WIDGETS_PER_DASHBOARD: Final = 500
_OVERVIEW_WIDGETS: Final = 5

_FIGURES: Final = (
    (3, metrics.END_TO_END_LATENCY),
    (4, metrics.TIME_PER_OUTPUT_TOKEN),
    (5, metrics.TTFT),
)
"""The article's figures, by number."""

_NODE_GRAPHS: Final = (
    ("NeuronCore utilization", "%", "Average", ("node_neuroncore_utilization",)),
    (
        "NeuronCore memory",
        "bytes",
        "Sum",
        tuple(
            f"node_neuroncore_memory_usage_{memory}"
            for memory in (
                "constants",
                "model_code",
                "model_shared_scratchpad",
                "runtime_memory",
                "tensors",
            )
        ),
    ),
    ("Neuron execution errors", "errors", "Sum", ("node_neuron_execution_errors_total",)),
    ("Neuron execution latency", "seconds", "Average", ("node_neuron_execution_latency",)),
    ("ECC events", "events", "Sum", ("node_neurondevice_hw_ecc_events_total",)),
    (
        "CPU, memory and disk of the busiest node",
        "%",
        "Maximum",
        tuple(f"node_{resource}_utilization" for resource in ("cpu", "memory", "filesystem")),
    ),
)

_ON_TOKENS: Final = (
    "*Time per output token* is what a user waits for each token. *Inter-token latency as "
    "published* is llmperf's figure. It divides by stream events, and a speculative server "
    "sends several tokens in one event, so it can call the faster server slower."
)


def comparison_dashboards(scope: Construct, experiment: Experiment) -> list[cloudwatch.Dashboard]:
    """The article's three figures, the speed-up in every case, then a section for each case.

    The sections continue on further dashboards where one cannot hold them all. Jobs have none: they
    publish no metric.
    """
    if experiment.workload is Workload.JOB:
        return []
    cases = experiment.benchmark.test_cases
    widgets = sum(len(row) for row in _section(experiment, cases[0]))
    most = (_WIDGETS_PER_DASHBOARD - _OVERVIEW_WIDGETS) // widgets
    pages = [
        [row for case in cases[start : start + most] for row in _section(experiment, case)]
        for start in range(0, len(cases), most)
    ]
    pages[0] = [*_overview(experiment), *pages[0]]
    return [
        cloudwatch.Dashboard(
            scope,
            f"Comparison{number if number > 1 else ''}",
            dashboard_name=f"{experiment.name}-comparison" + (f"-{number}" if number > 1 else ""),
            widgets=rows,
        )
        for number, rows in enumerate(pages, start=1)
    ]


def nodes_dashboard(scope: Construct, experiment: Experiment) -> cloudwatch.Dashboard:
    """Neuron and node telemetry of Container Insights."""
    graphs: list[cloudwatch.IWidget] = [
        _graph(
            title,
            [curves.node(experiment, name, statistic) for name in series],
            axis=axis,
            width=_THIRD,
            stacked=axis == "bytes",
        )
        for title, axis, statistic, series in _NODE_GRAPHS
    ]
    return cloudwatch.Dashboard(
        scope, "Nodes", dashboard_name=f"{experiment.name}-nodes", widgets=[graphs[:3], graphs[3:]]
    )


def _overview(experiment: Experiment) -> Iterator[list[cloudwatch.IWidget]]:
    """What concerns several test cases."""
    cases = experiment.benchmark.test_cases
    yield [_text(_introduction(experiment), height=6 + len(variants(experiment)))]
    if headlines := [case for case in cases if case.headline]:
        yield [_figure(number, metric, experiment, headlines) for number, metric in _FIGURES]
    yield [
        _graph(
            "Decoding speed-up of every test case: time per output token, baseline over variant",
            [
                curves.speed_up(
                    variant,
                    case,
                    point,
                    label=curves.named(variant, point, f"{case.name}, {variant.name}"),
                )
                for case in cases
                for point in experiment.benchmark.points
                for variant in variants(experiment)
                if variant.baseline is not None
            ],
            axis="times",
            width=_FULL,
            break_even=1,
            bars=_over_range(experiment),
        )
    ]


def _figure(
    number: int, metric: Metric, experiment: Experiment, headlines: Sequence[TestCase]
) -> cloudwatch.GraphWidget:
    """One of the article's figures: each variant in each headline case, at the first load point."""
    first, *later_points = experiment.benchmark.points
    return _graph(
        f"Figure {number}. {metric.title}" + (f", at {first}" if later_points else ""),
        [
            curves.measured(metric, variant, case, first, label=f"{case.structure}, {variant.name}")
            for case in headlines
            for variant in variants(experiment)
        ],
        axis=metric.axis,
        width=_THIRD,
        bars=experiment.isolated,
    )


def _over_range(experiment: Experiment) -> bool:
    """Whether graphs are bars over the time range: what they compare is not of the same time."""
    return len(experiment.benchmark.points) > 1 or experiment.isolated


def _section(experiment: Experiment, case: TestCase) -> Iterator[list[cloudwatch.IWidget]]:
    """One test case: each metric of the catalogue, the speed-up, and the cost.

    Over time at a single load point. At several, whose turns take turns, and in a sweep, whose
    variants do, a bar for each.
    """
    points = experiment.benchmark.points
    cells = [(variant, point) for point in points for variant in variants(experiment)]
    bars = _over_range(experiment)
    graphs: list[cloudwatch.IWidget] = [
        *(
            _graph(
                metric.title,
                [curves.measured(metric, variant, case, point) for variant, point in cells],
                axis=metric.axis,
                width=_QUARTER,
                bars=bars,
            )
            for metric in metrics.METRICS
            if metric is not metrics.TOKENS_PER_STEP or experiment.shows_steps(case)
        ),
        _graph(
            "Decoding speed-up over the baseline",
            [
                curves.speed_up(variant, case, point)
                for variant, point in cells
                if variant.baseline is not None
            ],
            axis="times",
            width=_QUARTER,
            break_even=1,
            bars=bars,
        ),
    ]
    if _closed(points):
        graphs.append(
            _numbers(
                "USD per million output tokens, over the time range",
                [
                    curves.cost_per_million_tokens(variant, case, point)
                    for variant, point in cells
                    if point.rate is None
                ],
            )
        )
    if len(_closed(points)) < len(points):
        graphs.append(
            _numbers(
                "Output tokens per second in flight, over the time range",
                [
                    curves.tokens_per_second_in_flight(variant, case, point)
                    for variant, point in cells
                    if point.rate is not None
                ],
            )
        )
    # No word of the prompts: whoever may look at dashboards need not be who may read them.
    kind = case.structure or case.set or case.file
    yield [_text(f"## {case.name} ({kind})", height=1)]
    yield from (graphs[start : start + 4] for start in range(0, len(graphs), 4))


def _numbers(title: str, series: Sequence[cloudwatch.IMetric]) -> cloudwatch.SingleValueWidget:
    """Over the whole range, because that is what the report says; a graph would show each turn."""
    return cloudwatch.SingleValueWidget(
        title=title,
        metrics=list(series),
        set_period_to_time_range=True,
        width=_QUARTER,
        height=_HEIGHT,
    )


def _text(markdown: str, *, height: int) -> cloudwatch.TextWidget:
    return cloudwatch.TextWidget(markdown=markdown, width=_FULL, height=height)


def _graph(
    title: str,
    series: Sequence[cloudwatch.IMetric],
    *,
    axis: str,
    width: int,
    stacked: bool = False,
    break_even: float | None = None,
    bars: bool = False,
) -> cloudwatch.GraphWidget:
    """Curves over time or, with ``bars``, a bar for each over the whole time range."""
    over_range: dict[str, Any] = {
        "view": cloudwatch.GraphWidgetView.BAR,
        "set_period_to_time_range": True,
    }
    return cloudwatch.GraphWidget(
        title=title,
        left=list(series),
        left_y_axis=cloudwatch.YAxisProps(label=axis, min=0, show_units=False),
        left_annotations=(
            [cloudwatch.HorizontalAnnotation(value=break_even, label="break-even", color="#888888")]
            if break_even
            else None
        ),
        stacked=stacked,
        width=width,
        height=_HEIGHT,
        **(over_range if bars else {}),
    )


def _introduction(experiment: Experiment) -> str:
    """What is compared, at which load, and what the figures mean. Markdown."""
    points = experiment.benchmark.points
    *earlier_points, last = map(str, points)
    at = f"{', '.join(earlier_points)} and {last}" if earlier_points else last
    sums = "cost" if _closed(points) else "tokens per second in flight"
    over = ", of those in the time range at that load" if earlier_points else ""
    listed = "\n".join(f"- {_described(variant)}" for variant in variants(experiment))
    return f"""# {experiment.name}: does speculative decoding pay?
**{experiment.models.target.id}** at {at}. Every figure but the {sums} is the median of \
single requests{over}.{_measured(experiment)}

{listed}

{_ON_TOKENS}

{_on_cost(experiment)}"""


def _measured(experiment: Experiment) -> str:
    """How, where the variants did not stand side by side."""
    if not experiment.isolated:
        return ""
    hint = "Choose a time range that holds the whole sweep."
    return f"\n\nEach variant was measured by itself. {hint}"


def _on_cost(experiment: Experiment) -> str:
    """How a cost is made, and where there is none."""
    price, points = cost(experiment), experiment.benchmark.points
    loops = _closed(points)
    at_once = f"{loops[0].concurrency}" if len(loops) == 1 else "as many as the load point says"
    text = f"""*Cost* is {price.usd_per_hour:.2f} USD per hour and node ({price.price}), of which \
each service is charged {price.denominator}. It is the price of the time that requests took, \
{at_once} at once, divided by their output tokens, over the time range shown. Over the time range \
of one run it is the report's figure."""
    none = """At a request rate no token has a cost: a service that waits for requests is paid \
for, too. Shown instead are output tokens per second that requests were in flight."""
    if not loops:
        return none
    return text if len(loops) == len(points) else f"{text}\n\n{none}"


def _closed(points: Sequence[LoadPoint]) -> list[LoadPoint]:
    """The closed loops among ``points``: those at which a token has a cost."""
    return [point for point in points if point.rate is None]


def _described(variant: Variant) -> str:
    batch = f"at batch {variant.batch}"
    if variant.matched:
        without = f"without {variant.without}, as speculation"
        return f"**{variant.name}**: plain decoding {batch}, {without}; it decides nothing"
    if variant.baseline is None:
        return f"**{variant.name}**: plain decoding {batch}"
    draft = f", draft {variant.draft.id}" if variant.draft else ""
    return (
        f"**{variant.name}**: {variant.mode}, window {variant.window}{draft}, {batch}; "
        f"compared with {variant.baseline}"
    )
