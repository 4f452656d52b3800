"""Rules on experiments whose variants run as jobs: one mode, one prompt at a time, no server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiment.errors import ABSENT, Refusal
from experiment.rules.listed_or_swept import one_way
from experiment.rules.models import mode_served, speculating
from experiment.rules.rule import Refusals, Rule
from experiment.runtimes import Mode, Workload
from experiment.schema import Experiment


def one_workload(experiment: Experiment) -> Refusals:
    """All variants are services, or all are jobs of one mode: the baseline can only be one."""
    found = [(its, place) for its, place, _ in speculating(experiment)]
    modes = experiment.serving_runtime.modes
    jobs = [(its, place) for its, place in found if modes[its.mode].workload is Workload.JOB]
    for its, place in jobs:
        if experiment.sweep:
            yield Refusal(
                place.mode,
                str(its.mode),
                "runs as a job, and a sweep serves what it measures; list the variants with "
                "speculation instead",
            )
        elif len(jobs) < len(found):
            yield Refusal(
                place.mode,
                str(its.mode),
                "runs as a job, which is compared only with a baseline that runs as one; give it "
                "an experiment file of its own",
            )
        elif its.mode is not (first := jobs[0][0].mode):
            yield Refusal(
                place.mode,
                str(its.mode),
                f"must be {first}, as of the first variant: jobs of one experiment have one "
                "baseline, which is compiled as they are",
            )


def _quality(experiment: Experiment) -> Refusals:
    """lm-eval asks servers that stand."""
    quality = experiment.quality
    if not experiment.apart:
        if quality is None:
            yield Refusal("quality", ABSENT, "is required with speculation")
        return
    if quality is not None:
        why = (
            "beside sweep, whose servers end with their measurement"
            if experiment.sweep
            else f"with mode {job_mode(experiment)}, which runs as a job: there is no server to ask"
        )
        yield Refusal("quality", quality.model_dump(), f"must be absent {why}")


def one_at_a_time(experiment: Experiment) -> Refusals:
    """``inference_demo`` takes one prompt after another: unfused speculation has a batch of 1.

    neuronx-distributed-inference v0.6.10598: transformers refuses assisted generation of a batch
    (4.51, ``generation/utils.py``), and ``utils/hf_adapter.py`` decodes the first sequence alone.
    """
    if not runs_as_job(experiment):
        return
    needs = f"mode {job_mode(experiment)} runs as a job, which decodes one prompt at a time"
    if experiment.serving.batch != 1:
        yield Refusal("serving.batch", experiment.serving.batch, f"must be 1: {needs}")
    for speculation, place in experiment.placed:
        if speculation.batch not in (None, 1):
            yield Refusal(str(place.batch), speculation.batch, f"must be 1: {needs}")
    benchmark = experiment.benchmark
    if benchmark.concurrency not in (None, 1):
        yield Refusal("benchmark.concurrency", benchmark.concurrency, f"must be 1: {needs}")
    for index, given in enumerate(benchmark.load or ()):
        field = f"benchmark.load[{index}]"
        if given.rate is not None:
            yield Refusal(f"{field}.rate", given.rate, f"must be absent: {needs}")
        if given.concurrency not in (None, 1):
            yield Refusal(f"{field}.concurrency", given.concurrency, f"must be 1: {needs}")


def _nothing_to_guard(experiment: Experiment) -> Refusals:
    if runs_as_job(experiment) and experiment.serving.api_key:
        yield Refusal(
            "serving.api_key",
            True,
            f"must be false with mode {job_mode(experiment)}, which runs as a job: there is no "
            "server to guard",
        )


def _measured_apart(experiment: Experiment) -> Refusals:
    if not runs_as_job(experiment):
        return
    nodes = experiment.capacity.nodes
    if nodes > 1:
        yield Refusal(
            "capacity.nodes",
            nodes,
            "must be 1: jobs run one after the other; every node is billed",
        )


def _benchmark_fits(experiment: Experiment) -> Refusals:
    """Of Medusa, whose answers have a length of their own, behind prompts of half of what fits.

    neuronx-distributed-inference v0.6.10598, ``utils/benchmark.py``: ``get_sample_inputs``.
    """
    if not runs_as_job(experiment) or job_mode(experiment) != Mode.MEDUSA:
        return
    tokens = experiment.benchmark.mean_output_tokens
    most = experiment.serving.length // 2 - experiment.largest_look_ahead
    if tokens > most:
        yield Refusal(
            "benchmark.mean_output_tokens",
            tokens,
            f"must be at most {most}, what is left of serving.length beside the prompts of "
            "inference_demo --benchmark, which take half of it",
        )


def runs_as_job(experiment: Experiment) -> bool:
    """Whether its variants do, once ``one_workload`` has refused nothing."""
    return experiment.workload is Workload.JOB


def job_mode(experiment: Experiment) -> str:
    """The mode of its jobs, which have one."""
    return experiment.speculations[0].mode


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    one_workload: (mode_served,),
    _quality: (one_way, one_workload),
    one_at_a_time: (one_workload,),
    _nothing_to_guard: (one_workload,),
    _measured_apart: (one_workload,),
    _benchmark_fits: (one_at_a_time,),
}
