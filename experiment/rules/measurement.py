"""Rules on the load, the test cases, and the subscribers of alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from benchmark.config import MINIMUM_INPUT_TOKENS, Structure
from experiment.errors import ABSENT, Refusal
from experiment.rules.models import mode_served, speculating
from experiment.rules.rule import Refusals, Rule
from experiment.schema import MOST_ROUNDS, Experiment
from experiment.variants import variants

MOST_CELLS: Final = 150
"""Variants x test cases. Their dashboards stay below the 1 MB of a CloudFormation template, and
below CloudWatch's 500 metrics in a graph and 2,500 on a dashboard."""


def _load_fits(experiment: Experiment) -> Refusals:
    load, window = experiment.benchmark, experiment.largest_window
    longest = (
        load.mean_input_tokens
        + load.mean_output_tokens
        # llmperf draws lengths from a normal distribution; three deviations cover nearly all.
        + 3 * (load.stddev_input_tokens + load.stddev_output_tokens)
    )
    # Two windows: the services take one window less than is compiled for; and vLLM 0.9.1 reserves
    # one window of slots beyond the last token, and fails where these exceed the served length.
    most = experiment.serving.length - 2 * window
    if longest > most:
        yield Refusal(
            "benchmark.mean_output_tokens",
            load.mean_output_tokens,
            f"input, output and three standard deviations add up to {longest} tokens; the limit "
            f"is {most}: serving.length {experiment.serving.length} minus two windows of {window}",
        )
    if load.mean_input_tokens < MINIMUM_INPUT_TOKENS:
        yield Refusal(
            "benchmark.mean_input_tokens",
            load.mean_input_tokens,
            f"must be at least {MINIMUM_INPUT_TOKENS}, llmperf's own minimum",
        )


def _concurrency(experiment: Experiment) -> Refusals:
    load = experiment.benchmark
    for speculation in experiment.speculation:
        whose = f"the batch of {speculation.name}" if speculation.batch else "serving.batch"
        batch = speculation.batch or experiment.serving.batch
        if load.concurrency > batch:
            yield Refusal(
                "benchmark.concurrency",
                load.concurrency,
                f"must be at most {batch}, {whose}: more would measure the queue",
            )
    if load.requests < load.concurrency:
        yield Refusal(
            "benchmark.requests",
            load.requests,
            f"must be at least benchmark.concurrency, {load.concurrency}",
        )


def _rounds(experiment: Experiment) -> Refusals:
    most = experiment.benchmark.rounds.at_most
    if most > MOST_ROUNDS:
        yield Refusal("benchmark.rounds.at_most", most, f"must be at most {MOST_ROUNDS}")


def _cells(experiment: Experiment) -> Refusals:
    count, cases = len(variants(experiment)), len(experiment.benchmark.test_cases)
    if count * cases > MOST_CELLS:
        yield Refusal(
            "benchmark.test_cases",
            cases,
            f"{count} variants x {cases} test cases are {count * cases} cells; must be at most "
            f"{MOST_CELLS}, or the dashboards outgrow a CloudFormation template",
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


def _test_cases(experiment: Experiment) -> Refusals:
    cases = experiment.benchmark.test_cases
    names = Counter(case.name for case in cases)
    for index, case in enumerate(cases):
        if names[case.name] > 1:
            yield Refusal(
                f"benchmark.test_cases[{index}].name", case.name, "is duplicated; must be unique"
            )
    for structure in Structure:
        headlines = [i for i, c in enumerate(cases) if c.headline and c.structure is structure]
        if not headlines:
            yield Refusal(
                "benchmark.test_cases",
                ABSENT,
                f"one {structure} case must have headline: true; none has",
            )
        for index in headlines[1:]:
            first = cases[headlines[0]].name
            yield Refusal(
                f"benchmark.test_cases[{index}].headline",
                True,
                f"only one {structure} case may have true; {first} has it",
            )


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _load_fits: (),
    _concurrency: (),
    _rounds: (),
    _cells: (),
    _temperature: (mode_served,),
    _test_cases: (),
    _emails: (),
}
