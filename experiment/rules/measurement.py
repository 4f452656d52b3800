"""Rules on the load, the test cases and their prompts."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from experiment.cost.timeline import estimate
from experiment.fields import Refusal, Refusals
from experiment.rules.models import Rule, listed_or_swept, mode_served, models_known, speculating
from experiment.rules.serving import one_at_a_time, one_workload
from experiment.runtimes import Workload
from experiment.schema import Experiment
from experiment.variants import variants
from spectap.inputs.config import Structure
from spectap.inputs.load_points import MINIMUM_INPUT_TOKENS
from spectap.inputs.published import OF_BASELINES, Figure
from spectap.protocol.text import EndpointType

MOST_CELLS: Final = 150
"""The most variants x test cases x load points. Dashboards then stay below the 1 MB of a
CloudFormation template, and below CloudWatch's 500 metrics in a graph and 2,500 on a dashboard."""


def _load_fits(experiment: Experiment) -> Refusals:
    load = experiment.benchmark
    longest = (
        (load.mean_input_tokens or 0)
        + load.mean_output_tokens
        # llmperf draws lengths from a normal distribution; three deviations cover nearly all.
        + 3 * (load.stddev_input_tokens + load.stddev_output_tokens)
    )
    ahead = experiment.largest_look_ahead
    most, reserved = experiment.served_length, f"{ahead} positions that a step looks ahead"
    if experiment.workload is not Workload.JOB:
        # The services take one window less than is compiled for; and vLLM 0.9.1 reserves one window
        # of slots beyond the last token, and fails where these exceed the served length.
        most, reserved = most - ahead, f"two windows of {ahead}"
    if longest > most:
        yield Refusal(
            "benchmark.mean_output_tokens",
            f"input, output and three standard deviations add up to {longest} tokens; the limit "
            f"is {most}: serving.length {experiment.serving.length} minus {reserved}",
        )
    if load.mean_input_tokens is not None and load.mean_input_tokens < MINIMUM_INPUT_TOKENS:
        least = f"must be at least {MINIMUM_INPUT_TOKENS}, llmperf's own minimum"
        yield Refusal("benchmark.mean_input_tokens", least)


def _prompts_fit(experiment: Experiment) -> Refusals:
    """Refuses a file of which no prompt fits with its longest answer, however it is tokenised."""
    most = experiment.served_length
    for index, case in enumerate(experiment.benchmark.test_cases):
        if case.file and (lengths := experiment.least_lengths(case)) and min(lengths) > most:
            yield Refusal(
                f"benchmark.test_cases[{index}].file",
                f"must have a prompt that fits: the shortest has {min(lengths):,} words and tokens "
                f"of its answer, and serving.length {experiment.serving.length} leaves {most:,}",
            )


def _seconds(experiment: Experiment) -> Refusals:
    most = experiment.benchmark.timeout_seconds / 2
    for index, point in enumerate(experiment.benchmark.load or ()):
        if point.seconds and point.seconds > most:
            why = "half of benchmark.timeout_seconds: the last answers need the rest"
            yield Refusal(f"benchmark.load[{index}].seconds", f"must be at most {most:g}, {why}")


def _concurrency(experiment: Experiment) -> Refusals:
    """Refuses a lowest concurrency above a batch. Higher load points may exceed it: they measure
    the queue, and the report says so."""
    item = "benchmark.load[{}]" if experiment.benchmark.load else "benchmark"
    points = enumerate(experiment.benchmark.listed_points)
    closed = [(p.concurrency, item.format(n)) for n, p in points if p.concurrency is not None]
    lowest, field = min(closed, default=(0, ""))
    for speculation, fields in experiment.speculations_with_paths:
        batch = speculation.batch or experiment.serving.batch
        if lowest > batch:
            whose = fields.batch if speculation.batch else "serving.batch"
            why = f"must be at most {batch}, {whose}: more would measure the queue"
            yield Refusal(f"{field}.concurrency", why)


def _cells(experiment: Experiment) -> Refusals:
    cases, points = len(experiment.benchmark.test_cases), len(experiment.benchmark.points)
    count = len(variants(experiment))
    cells = count * cases * points
    if cells > MOST_CELLS:
        at = f" x {points} load points" if points > 1 else ""
        yield Refusal(
            "benchmark.test_cases",
            f"{count} variants x {cases} test cases{at} are {cells} cells; must be at most "
            f"{MOST_CELLS}, or the dashboards outgrow a CloudFormation template",
        )


def _affordable(experiment: Experiment) -> Refusals:
    sweep = experiment.sweep
    if sweep is not None and (cost := estimate(experiment)).usd > sweep.at_most_usd:
        yield Refusal(
            "sweep.at_most_usd",
            f"must be at least {math.ceil(cost.usd)}, the estimate; or sweep less",
        )


def _launches(experiment: Experiment) -> Refusals:
    if experiment.isolated and experiment.benchmark.launches > 1:
        why = "a sweep or jobs, whose variants are each measured by themselves"
        yield Refusal("benchmark.launches", f"must be 1 with {why}")


def _temperature(experiment: Experiment) -> Refusals:
    for speculation, _, support in speculating(experiment):
        if support.greedy_only and experiment.benchmark.temperature:
            yield Refusal(
                "benchmark.temperature",
                f"must be 0: mode {speculation.mode} of runtime {experiment.runtime} always "
                "decodes greedily, so only the baseline would follow it",
            )


def _headlines(experiment: Experiment) -> Refusals:
    cases = experiment.benchmark.test_cases
    for structure in Structure:
        headlines = [i for i, c in enumerate(cases) if c.headline and c.structure is structure]
        # The article's figures are of lines: where there are others, they may be left out.
        if not headlines and all(case.is_line for case in cases):
            missing = f"one {structure} case must have headline: true; none has"
            yield Refusal("benchmark.test_cases", missing)
        for index in headlines[1:]:
            only = f"only one {structure} case may have true; {cases[headlines[0]].name} has it"
            yield Refusal(f"benchmark.test_cases[{index}].headline", only)


def _classes(experiment: Experiment) -> Refusals:
    for number, case in enumerate(experiment.benchmark.test_cases):
        prompts = experiment.prompts_of(case)
        known = [name for name in prompts.classes if name] if prompts else []
        for index, name in enumerate(case.classes):
            if name not in known:
                allowed = f"one of {', '.join(known)}" if known else "absent: it has no classes"
                no_class = f"is not a class of {case.set or case.file}"
                field = f"benchmark.test_cases[{number}].classes[{index}]"
                yield Refusal(field, f"{no_class}; must be {allowed}")


def _tools(experiment: Experiment) -> Refusals:
    target = experiment.models.target
    for index, case in enumerate(experiment.benchmark.test_cases):
        if experiment.has_tools(case) and target.resolved_architecture.tool_parser is None:
            yield Refusal(
                f"benchmark.test_cases[{index}].{'set' if case.set else 'file'}",
                f"has tools, and no parser of {target.id}'s tool calls is known; give one in "
                "models.target.architecture.tool_parser",
            )


def _completions(experiment: Experiment) -> Refusals:
    """Refuses completions of prompts that are not one text: they have no chat template."""
    load = experiment.benchmark
    if load.endpoint_type is EndpointType.CHAT:
        return
    if load.chat_template_kwargs:
        yield Refusal("benchmark.chat_template_kwargs", "must be absent with completions")
    for index, case in enumerate(load.test_cases):
        prompts = experiment.prompts_of(case)
        if prompts and not prompts.is_text:
            yield Refusal(
                f"benchmark.test_cases[{index}].{'set' if case.set else 'file'}",
                "has prompts of several messages or with tools, which completions cannot send",
            )


def _published(experiment: Experiment) -> Refusals:
    """Refuses published figures of cells that are not measured."""
    by_name = {variant.name: variant for variant in variants(experiment)}
    matched = {f"{v.baseline}-matched" for v in by_name.values() if v.without}
    cases = [case.name for case in experiment.benchmark.test_cases]
    loads = {point.name: str(point) for point in experiment.benchmark.points}
    if experiment.published and experiment.workload is Workload.JOB:
        yield Refusal("published", "must be absent with jobs, which measure no test case")
    for number, publication in enumerate(experiment.published):
        field, load = f"published[{number}]", "rate" if publication.open else "concurrency"
        if publication.test_case not in cases:
            yield Refusal(f"{field}.test_case", _one_of(cases))
        if publication.name not in loads:
            yield Refusal(f"{field}.{load}", _one_of(loads.values()))
        for index, each in enumerate(publication.figures):
            item, variant = f"{field}.figures[{index}]", by_name.get(each.variant)
            drafts = (variant and variant.drafts_per_step) or 0
            if variant is None and each.variant in matched:
                no_room = "is not measured: the nodes have no devices left for it (capacity.nodes)"
                yield Refusal(f"{item}.variant", no_room)
            elif variant is None:
                yield Refusal(f"{item}.variant", _one_of(by_name))
            elif variant.speculation is None and each.figure not in OF_BASELINES:
                yield Refusal(f"{item}.figure", f"is not a figure of a baseline, {variant.name}")
            elif each.position and each.position > drafts:
                yield Refusal(f"{item}.position", f"must be at most {drafts}, the drafts of a step")
            elif each.figure is Figure.ACCEPTANCE_LENGTH and each.value > drafts + 1:
                most = f"must be at most {drafts + 1}, the most tokens of a step"
                yield Refusal(f"{item}.value", most)


def _one_of(measured: Iterable[str]) -> str:
    return f"must be one of {', '.join(measured)}; remove figures of what is not measured"


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _load_fits: (mode_served, listed_or_swept),
    _prompts_fit: (mode_served, listed_or_swept),
    _seconds: (),
    _concurrency: (one_at_a_time,),
    _cells: (listed_or_swept,),
    _affordable: (_cells, one_workload, models_known),
    _temperature: (mode_served,),
    _launches: (one_workload,),
    _headlines: (),
    _classes: (),
    _tools: (models_known,),
    _completions: (),
    _published: (mode_served, listed_or_swept, one_workload),
}
