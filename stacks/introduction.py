"""The text that a comparison dashboard begins with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from charts.llmperf import cost
from experiment.schema import Experiment
from experiment.variants import Variant, variants
from spectap.load_points import LoadPoint

_ON_TOKENS: Final = (
    "*Time per output token* is what a user waits for each token. *Inter-token latency as "
    "published* is llmperf's figure. It divides by stream events, and a speculative server "
    "sends several tokens in one event, so it can call the faster server slower."
)


def introduction(experiment: Experiment) -> str:
    """What is compared, at which load, and what the figures mean. Markdown."""
    points = experiment.benchmark.points
    *others, last = map(str, points)
    at = f"{', '.join(others)} and {last}" if others else last
    sums = "cost" if closed(points) else "tokens per second in flight"
    over = ", of those in the time range at that load" if others else ""
    listed = "\n".join(f"- {_described(variant)}" for variant in variants(experiment))
    return f"""# {experiment.name}: does speculative decoding pay?
**{experiment.models.target.id}** at {at}. Every figure but the {sums} is the median of \
single requests{over}.{_measured(experiment)}

{listed}

{_ON_TOKENS}

{_on_cost(experiment)}"""


def _measured(experiment: Experiment) -> str:
    """How, where the variants did not stand side by side."""
    if not experiment.apart:
        return ""
    whole = "Choose a time range that holds the whole sweep."
    return f"\n\nEach variant was measured by itself. {whole}"


def _on_cost(experiment: Experiment) -> str:
    """How a cost is made, and where there is none."""
    price, points = cost(experiment), experiment.benchmark.points
    loops = closed(points)
    at_once = f"{loops[0].concurrency}" if len(loops) == 1 else "as many as the load point says"
    made = f"""*Cost* is {price.usd_per_hour:.2f} USD per hour and node ({price.price}), of which \
each service is charged {price.denominator}. It is the price of the time that requests took, \
{at_once} at once, divided by their output tokens, over the time range shown. Over the time range \
of one run it is the report's figure."""
    none = """At a request rate no token has a cost: a service that waits for requests is paid \
for, too. Shown instead are output tokens per second that requests were in flight."""
    if not loops:
        return none
    return made if len(loops) == len(points) else f"{made}\n\n{none}"


def closed(points: Sequence[LoadPoint]) -> list[LoadPoint]:
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
