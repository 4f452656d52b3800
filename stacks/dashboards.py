"""What a person sees: Base and SD side by side, and what the nodes do meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from benchmark import metrics as catalogue
from benchmark.metrics import Metric
from benchmark.names import VARIANTS
from experiment.schema import Experiment, TestCase
from stacks import metrics

# A dashboard is 24 units wide.
_QUARTER: Final = 6
_THIRD: Final = 8
_FULL: Final = 24
_HEIGHT: Final = 6

_PER_CASE: Final = (
    catalogue.END_TO_END_LATENCY,
    catalogue.TIME_PER_OUTPUT_TOKEN,
    catalogue.INTER_TOKEN_LATENCY,
    catalogue.TTFT,
    catalogue.REQUEST_OUTPUT_THROUGHPUT,
    catalogue.TOKENS_PER_STEP,
)
_AXES: Final = {"Seconds": "seconds", "Count/Second": "tokens per second", "Count": "tokens"}

_NODE_GRAPHS: Final = (
    ("NeuronCore utilization", "%", "Average", ("node_neuroncore_utilization",)),
    (
        "NeuronCore memory",
        "bytes",
        "Sum",
        tuple(
            f"node_neuroncore_memory_usage_{part}"
            for part in (
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
        tuple(f"node_{part}_utilization" for part in ("cpu", "memory", "filesystem")),
    ),
)


def comparison_dashboard(scope: Construct, experiment: Experiment) -> cloudwatch.Dashboard:
    """The article's three figures, the speed-up of every case, then a section per case."""
    cases = experiment.benchmark.test_cases
    headlines = [case for case in cases if case.headline]
    figures = (
        (3, catalogue.END_TO_END_LATENCY),
        (4, catalogue.TIME_PER_OUTPUT_TOKEN),
        (5, catalogue.TTFT),
    )
    return cloudwatch.Dashboard(
        scope,
        "Comparison",
        dashboard_name=f"{experiment.name}-comparison",
        widgets=[
            [_text(_introduction(experiment), height=5)],
            [_figure(number, metric, headlines) for number, metric in figures],
            [
                _graph(
                    "Speed-up of every test case: time per output token, Base over SD",
                    [metrics.speed_up(case) for case in cases],
                    axis="times",
                    width=_FULL,
                    break_even=1,
                )
            ],
            *(row for case in cases for row in _section(experiment, case)),
        ],
    )


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
    return cloudwatch.Dashboard(
        scope, "Nodes", dashboard_name=f"{experiment.name}-nodes", widgets=[graphs[:3], graphs[3:]]
    )


def _introduction(experiment: Experiment) -> str:
    models, speculation = experiment.models, experiment.speculation[0]
    draft = speculation.draft or models.draft
    assert draft
    return f"""# {experiment.name}: does speculative decoding pay?
**{models.target.id}**, plain (Base) and with **{draft.id}** as draft (SD: \
{speculation.mode}, {speculation.num_speculative_tokens} tokens), at concurrency \
{experiment.benchmark.concurrency}. Every figure is the median of single requests.

*Time per output token* is what a user waits for each token. *Inter-token latency as published* is \
llmperf's figure: it divides by stream events, and a speculative server sends several tokens in \
one, so that it can call the faster server slower.

*Cost* is {experiment.capacity.price.usd_per_hour:.2f} USD per hour and node \
(as of {experiment.capacity.price.as_of}, {experiment.price_of}), of which each service is charged \
{experiment.serving.devices} of {experiment.capacity.instance.devices} devices."""


def _figure(number: int, metric: Metric, headlines: Sequence[TestCase]) -> cloudwatch.GraphWidget:
    """One of the article's figures: four curves, Base and SD on both headline cases."""
    return _graph(
        f"Figure {number}. {metric.title}",
        [
            metrics.measured(metric, variant, case, label=f"{case.structure}, {variant}")
            for case in headlines
            for variant in VARIANTS
        ],
        axis=_AXES[metric.unit],
        width=_THIRD,
    )


def _section(experiment: Experiment, case: TestCase) -> list[list[cloudwatch.IWidget]]:
    """All there is on one test case, Base beside SD in each graph."""
    graphs: list[cloudwatch.IWidget] = [
        _graph(
            metric.title,
            [metrics.measured(metric, variant, case) for variant in VARIANTS],
            axis=_AXES[metric.unit],
            width=_QUARTER,
        )
        for metric in _PER_CASE
    ]
    graphs.append(
        _graph(
            "Speed-up (Base over SD)",
            [metrics.speed_up(case)],
            axis="times",
            width=_QUARTER,
            break_even=1,
        )
    )
    graphs.append(
        _graph(
            "USD per million output tokens",
            [metrics.cost_per_million_tokens(experiment, variant, case) for variant in VARIANTS],
            axis="USD",
            width=_QUARTER,
        )
    )
    prompt = case.line.strip() if case.line else "llmperf's own text (Shakespeare's sonnets)"
    return [
        [_text(f"## {case.name} ({case.structure})\n{prompt}", height=2)],
        graphs[:4],
        graphs[4:],
    ]


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
) -> cloudwatch.GraphWidget:
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
    )
