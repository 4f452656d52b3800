"""Dashboards: the variants side by side, and the nodes meanwhile."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from charts.benchmark import cost
from charts.names import dashboard_name
from experiment.measurement import TestCase
from experiment.runtimes import Workload
from experiment.schema import Experiment
from experiment.variants import Variant, variants
from spectap import wording
from spectap.metrics import (
    END_TO_END_LATENCY,
    METRICS,
    TIME_PER_OUTPUT_TOKEN,
    TOKENS_PER_STEP,
    TTFT,
)
from stacks import metrics
from stacks.metrics import Cell

# A dashboard is 24 units wide.
_QUARTER: Final = 6
_THIRD: Final = 8
_FULL: Final = 24
_HEIGHT: Final = 6

_FIGURES: Final = (
    (3, END_TO_END_LATENCY),
    (4, TIME_PER_OUTPUT_TOKEN),
    (5, TTFT),
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
    """Makes the article's figures, all speed-ups, a section a case. Jobs publish nothing."""
    if experiment.workload is Workload.JOB:
        return []
    sections = (_section(experiment, case) for case in experiment.benchmark.test_cases)
    name, rows = dashboard_name(experiment, "comparison"), chain(_overview(experiment), *sections)
    return [cloudwatch.Dashboard(scope, "Comparison", dashboard_name=name, widgets=[*rows])]


def nodes_dashboard(scope: Construct, experiment: Experiment) -> cloudwatch.Dashboard:
    """Neuron and node telemetry of Container Insights."""
    graphs: list[cloudwatch.IWidget] = [
        _graph(
            title,
            [metrics.node(experiment, name, statistic) for name in series],
            axis=axis,
            width=_THIRD,
            stacked=axis == "bytes",
        )
        for title, axis, statistic, series in _NODE_GRAPHS
    ]
    name, rows = dashboard_name(experiment, "nodes"), [graphs[:3], graphs[3:]]
    return cloudwatch.Dashboard(scope, "Nodes", dashboard_name=name, widgets=rows)


def _overview(experiment: Experiment) -> Iterator[list[cloudwatch.IWidget]]:
    """Widgets of several test cases; the article's figures are at the first load point."""
    cases, points = experiment.benchmark.test_cases, experiment.benchmark.points
    compared = variants(experiment)
    introduction = _introduction(experiment)
    yield [cloudwatch.TextWidget(markdown=introduction, width=_FULL, height=6 + len(compared))]
    if headlines := [case for case in cases if case.headline]:
        at = f", at {points[0]}" if len(points) > 1 else ""
        yield [
            _graph(
                f"Figure {number}. {metric.title}{at}",
                [
                    Cell(variant, case, points[0]).measured(
                        metric, label=f"{case.structure}, {variant.name}"
                    )
                    for case in headlines
                    for variant in compared
                ],
                axis=metric.axis,
                width=_THIRD,
                bars=experiment.isolated,
            )
            for number, metric in _FIGURES
        ]
    yield [
        _graph(
            "Decoding speed-up of every test case: time per output token, baseline over variant",
            [
                cell.speed_up(label=cell.named(f"{cell.case.name}, {cell.variant.name}"))
                for case in cases
                for cell in _cells(case, experiment)
                if cell.variant.baseline is not None
            ],
            axis="times",
            width=_FULL,
            break_even=1,
            bars=_over_range(experiment),
        )
    ]


def _cells(case: TestCase, experiment: Experiment) -> list[Cell]:
    points, compared = experiment.benchmark.points, variants(experiment)
    return [Cell(variant, case, point) for point in points for variant in compared]


def _over_range(experiment: Experiment) -> bool:
    """Whether graphs are bars over the time range: what they compare is not of the same time."""
    return len(experiment.benchmark.points) > 1 or experiment.isolated


def _section(experiment: Experiment, case: TestCase) -> Iterator[list[cloudwatch.IWidget]]:
    """Yields a test case's rows: each metric of the catalogue, the speed-up, and the cost.

    Curves over time at a single load point. At several, and in a sweep, cells are measured one
    after another: a bar for each.
    """
    cells, bars = _cells(case, experiment), _over_range(experiment)
    graphs: list[cloudwatch.IWidget] = [
        *(
            _graph(
                metric.title,
                [cell.measured(metric) for cell in cells],
                axis=metric.axis,
                width=_QUARTER,
                bars=bars,
            )
            for metric in METRICS
            if metric is not TOKENS_PER_STEP or experiment.shows_steps(case)
        ),
        _graph(
            "Decoding speed-up over the baseline",
            [cell.speed_up() for cell in cells if cell.variant.baseline is not None],
            axis="times",
            width=_QUARTER,
            break_even=1,
            bars=bars,
        ),
    ]
    for title, curve, at_a_rate in (
        ("USD per million output tokens", Cell.cost_per_million_tokens, False),
        ("Output tokens per second in flight", Cell.tokens_per_second_in_flight, True),
    ):
        if values := [curve(cell) for cell in cells if bool(cell.point.rate) is at_a_rate]:
            # Over the whole range, as the report has it; a graph would show each turn.
            numbers = cloudwatch.SingleValueWidget(
                title=f"{title}, over the time range",
                metrics=[*values],
                set_period_to_time_range=True,
                width=_QUARTER,
                height=_HEIGHT,
            )
            graphs.append(numbers)
    # No word of the prompts: whoever may look at dashboards need not be who may read them.
    kind = case.structure or case.set or case.file
    yield [cloudwatch.TextWidget(markdown=f"## {case.name} ({kind})", width=_FULL, height=1)]
    yield from (graphs[start : start + 4] for start in range(0, len(graphs), 4))


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
        view=cloudwatch.GraphWidgetView.BAR if bars else None,
        set_period_to_time_range=bars or None,
    )


def _introduction(experiment: Experiment) -> str:
    """The comparison, its load, and the meaning of the figures. Markdown."""
    price = cost(experiment)
    at = ", ".join(map(str, experiment.benchmark.points))
    listed = "\n".join(f"- {_described(variant)}" for variant in variants(experiment))
    hint = (
        " Each variant was measured by itself: choose a time range that holds the whole sweep."
        if experiment.isolated
        else ""
    )
    return f"""# {experiment.name}: does speculative decoding pay?
**{experiment.models.target.id}** at {at}. Every figure but the cost is the median of single \
requests in the time range.{hint}

{listed}

{_ON_TOKENS}

*Cost* is at {wording.price(price.usd_per_hour)} per hour and node ({price.price_source}), of \
which each service is charged {price.denominator}: the price of the time that requests took, \
divided by the load point's concurrency and by their output tokens. Over the time range of one run \
it is the report's figure. At a request rate no token has a cost: waiting is paid for, too."""


def _described(variant: Variant) -> str:
    batch = f"at batch {variant.batch}"
    if variant.baseline is None:
        without = f", without {variant.without}; it decides nothing" if variant.matched else ""
        return f"**{variant.name}**: plain decoding {batch}{without}"
    draft = f", draft {variant.draft.id}" if variant.draft else ""
    return (
        f"**{variant.name}**: {variant.mode}, window {variant.window}{draft}, {batch}; "
        f"compared with {variant.baseline}"
    )
