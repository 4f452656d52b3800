"""Rules on the load, on the objectives, and on the subscribers of alarms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from experiment.errors import ABSENT, Refusal
from experiment.estimate import estimate
from experiment.measurement import MOST_ROUNDS, LoadPoint
from experiment.rules.listed_or_swept import listed_once, one_way
from experiment.rules.models import mode_served, speculating
from experiment.rules.offline import one_at_a_time, one_workload
from experiment.rules.rule import Refusals, Rule
from experiment.runtimes import Workload
from experiment.schema import Experiment
from experiment.variants import variants
from spectap.load_points import MINIMUM_INPUT_TOKENS

MOST_CELLS: Final = 150
"""Variants x test cases x load points. Their dashboards stay below the 1 MB of a CloudFormation
template, and below CloudWatch's 500 metrics in a graph and 2,500 on a dashboard."""


def _room(experiment: Experiment) -> tuple[int, str]:
    """Tokens that a request may have, and what is kept of ``serving.length``."""
    ahead = experiment.largest_look_ahead
    if experiment.workload is Workload.JOB:
        return experiment.served_length, f"{ahead} positions that a step looks ahead"
    # The services take one window less than is compiled for; and vLLM 0.9.1 reserves one window of
    # slots beyond the last token, and fails where these exceed the served length.
    return experiment.served_length - ahead, f"two windows of {ahead}"


def _load_fits(experiment: Experiment) -> Refusals:
    load = experiment.benchmark
    longest = (
        (load.mean_input_tokens or 0)
        + load.mean_output_tokens
        # llmperf draws lengths from a normal distribution; three deviations cover nearly all.
        + 3 * (load.stddev_input_tokens + load.stddev_output_tokens)
    )
    most, kept = _room(experiment)
    if longest > most:
        yield Refusal(
            "benchmark.mean_output_tokens",
            load.mean_output_tokens,
            f"input, output and three standard deviations add up to {longest} tokens; the limit "
            f"is {most}: serving.length {experiment.serving.length} minus {kept}",
        )
    if load.mean_input_tokens is None:
        if any(case.is_line for case in load.test_cases):
            yield Refusal("benchmark.mean_input_tokens", ABSENT, "is required with a line")
    elif load.mean_input_tokens < MINIMUM_INPUT_TOKENS:
        yield Refusal(
            "benchmark.mean_input_tokens",
            load.mean_input_tokens,
            f"must be at least {MINIMUM_INPUT_TOKENS}, llmperf's own minimum",
        )


def _load(experiment: Experiment) -> Refusals:
    benchmark = experiment.benchmark
    if benchmark.load is None and benchmark.concurrency is None:
        yield Refusal("benchmark.concurrency", ABSENT, "is required, or load in its place")
    if benchmark.load is not None and benchmark.concurrency is not None:
        yield Refusal(
            "benchmark.concurrency",
            benchmark.concurrency,
            "must be absent beside load, which has the load points",
        )
    for index, given in enumerate(benchmark.load or ()):
        yield from _load_point(f"benchmark.load[{index}]", given, benchmark.timeout_seconds)


def _load_point(place: str, given: LoadPoint, timeout: int) -> Refusals:
    """One load point: a concurrency, or a rate and how long it lasts."""
    if given.rate is not None:
        yield from _absent(place, given, "concurrency", "requests", beside="rate")
        yield from _seconds(f"{place}.seconds", given.rate, given.seconds, timeout / 2)
    elif given.concurrency is not None:
        yield from _absent(place, given, "seconds", beside="concurrency")
    else:
        yield Refusal(f"{place}.concurrency", ABSENT, "is required, or rate in its place")


def _absent(place: str, given: LoadPoint, *keys: str, beside: str) -> Refusals:
    for key in keys:
        if (value := getattr(given, key)) is not None:
            yield Refusal(f"{place}.{key}", value, f"must be absent beside {beside}")


def _seconds(field: str, rate: float, seconds: float | None, most: float) -> Refusals:
    if seconds is None:
        yield Refusal(field, ABSENT, "is required with rate")
    elif rate * seconds < 1:
        least = f"must be at least {1 / rate:g}: at this rate requests are so far apart"
        yield Refusal(field, seconds, least)
    elif seconds > most:
        yield Refusal(
            field,
            seconds,
            f"must be at most {most:g}, half of benchmark.timeout_seconds: the last answers need "
            "the rest",
        )


def _requests(experiment: Experiment) -> Refusals:
    benchmark = experiment.benchmark
    if benchmark.requests is not None:
        return
    for place, given in _closed(experiment):
        if given.requests is None:
            yield Refusal(
                "benchmark.requests", ABSENT, f"is required, because {place} has no requests"
            )
            return


def _distinct_points(experiment: Experiment) -> Refusals:
    points = experiment.benchmark.points
    for index, point in enumerate(points):
        if point.name in (earlier.name for earlier in points[:index]):
            key = "rate" if point.open else "concurrency"
            yield Refusal(
                f"benchmark.load[{index}].{key}",
                getattr(point, key),
                "is duplicated; list each load point once",
            )


def _closed(experiment: Experiment) -> Iterator[tuple[str, LoadPoint]]:
    """Each closed loop with its place in the file."""
    benchmark = experiment.benchmark
    if benchmark.load is None:
        yield "benchmark", LoadPoint(concurrency=benchmark.concurrency)
    for index, given in enumerate(benchmark.load or ()):
        if given.concurrency is not None:
            yield f"benchmark.load[{index}]", given


def _concurrency(experiment: Experiment) -> Refusals:
    """A ladder may go on beyond a batch: there the queue is measured, which the report says."""
    closed = [(given.concurrency or 0, place) for place, given in _closed(experiment)]
    if not closed:
        return
    lowest, place = min(closed)
    for speculation, its in experiment.placed:
        own = its.batch if experiment.sweep else f"the batch of {speculation.name}"
        whose = own if speculation.batch else "serving.batch"
        batch = speculation.batch or experiment.serving.batch
        if lowest > batch:
            yield Refusal(
                f"{place}.concurrency",
                lowest,
                f"must be at most {batch}, {whose}: more would measure the queue",
            )


def _rounds(experiment: Experiment) -> Refusals:
    most = experiment.benchmark.rounds.at_most
    if most > MOST_ROUNDS:
        yield Refusal("benchmark.rounds.at_most", most, f"must be at most {MOST_ROUNDS}")


def _cells(experiment: Experiment) -> Refusals:
    benchmark = experiment.benchmark
    count, cases, points = (
        len(variants(experiment)),
        len(benchmark.test_cases),
        len(benchmark.points),
    )
    if count * cases * points > MOST_CELLS:
        at = f" x {points} load points" if points > 1 else ""
        yield Refusal(
            "benchmark.test_cases",
            cases,
            f"{count} variants x {cases} test cases{at} are {count * cases * points} cells; must "
            f"be at most {MOST_CELLS}, or the dashboards outgrow a CloudFormation template",
        )


def _affordable(experiment: Experiment) -> Refusals:
    sweep = experiment.sweep
    if sweep is not None and (found := estimate(experiment)).usd > sweep.at_most_usd:
        yield Refusal(
            "sweep.at_most_usd",
            sweep.at_most_usd,
            f"must be at least {math.ceil(found.usd)}, the estimate, mostly for {found.driver}; "
            "or sweep less",
        )


def _objectives(experiment: Experiment) -> Refusals:
    given = experiment.benchmark.objectives
    if given is None:
        return
    if not given.model_dump(exclude_none=True):
        keys = " or ".join(type(given).model_fields)
        yield Refusal("benchmark.objectives", ABSENT, f"must have {keys}")
    if given.ttft_p90_ms and given.e2e_p90_ms and given.e2e_p90_ms <= given.ttft_p90_ms:
        yield Refusal(
            "benchmark.objectives.e2e_p90_ms",
            given.e2e_p90_ms,
            f"must be more than ttft_p90_ms, {given.ttft_p90_ms:g}: no answer ends before it "
            "begins",
        )


def _temperature(experiment: Experiment) -> Refusals:
    temperature = experiment.benchmark.temperature
    for speculation, _, support in speculating(experiment):
        if support.greedy_only and temperature:
            yield Refusal(
                "benchmark.temperature",
                temperature,
                f"must be 0: mode {speculation.mode} of runtime {experiment.runtime} always "
                "decodes greedily, so only the baseline would follow it",
            )


def _emails(experiment: Experiment) -> Refusals:
    emails = experiment.alerts.emails
    for index, email in enumerate(emails):
        if email in emails[:index]:
            yield Refusal(f"alerts.emails[{index}]", email, "is duplicated; list each address once")


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _load_fits: (mode_served, one_way),
    _load: (),
    _requests: (_load,),
    _distinct_points: (_load,),
    _concurrency: (_load, one_at_a_time),
    _rounds: (),
    _cells: (_load, one_way),
    _affordable: (_load, _requests, _cells, one_workload, listed_once),
    _temperature: (mode_served,),
    _objectives: (),
    _emails: (),
}
