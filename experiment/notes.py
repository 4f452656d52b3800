"""Notes on a valid experiment that may surprise its user, a line each."""

from collections.abc import Iterator
from typing import Final

from experiment.cost import CostGroup, cost, guard_hours, max_hours
from experiment.cost.timeline import FIRST_START_SECONDS
from experiment.known_models import KNOWN_MODELS, REVISIONS, Mode, ModelKind
from experiment.rules.models import models_of
from experiment.runtimes import Preparation, Workload
from experiment.schema import Experiment, Purchase
from experiment.variants import variants
from spectap.inputs.load_points import FEWEST_ROUNDS

_THOUGHTS: Final = 2_048
"""The answer tokens within which most thoughts of Qwen3 end. Its model cards advise 32,768."""


def notes(experiment: Experiment) -> Iterator[str]:
    """The notes. They are shown after synthesis and before a deploy."""
    capacity, rounds = experiment.capacity, experiment.benchmark.rounds
    if not experiment.priced_as_bought:
        yield f"capacity.price: costs use the price of {experiment.price_description}"
    if capacity.purchase is Purchase.ON_DEMAND:
        yield (
            f"capacity.purchase = on-demand: others were refused {capacity.instance_type} in every "
            "region on 2026-10-03, for want of capacity; try spot, then a capacity-block"
        )
    if rounds.at_most < FEWEST_ROUNDS:
        yield (
            f"benchmark.rounds = {rounds.at_most}: there will be no verdict, which needs at least "
            f"{FEWEST_ROUNDS} rounds"
        )
    for field, _, model in models_of(experiment):
        known = REVISIONS.get(model.id)
        if model.id in KNOWN_MODELS and known != model.revision:
            yield (
                f"{field}.revision = {model.revision}: the known figures of {model.id} are "
                f"{f'those of {known}' if known else 'not tied to a revision'}; compare them with "
                "this one's: python -m experiment add-model"
            )
        # Nobody saw whether NxDI computes this head.
        is_unseen = model.resolved_architecture.norm_before_residual is None
        is_taken = experiment.serving_runtime.takes_norm_before_residual
        if model.resolved_architecture.kind is ModelKind.EAGLE3_HEAD and is_unseen and not is_taken:
            yield (
                f"{field} = {model.id}: if its config.json has norm_before_residual = true, the "
                "compile Job refuses it, since NxDI does not compute that; read it before you "
                "deploy"
            )
    yield from _prompts(experiment)
    if maintenance := experiment.serving_runtime.maintenance:
        yield f"runtime = {experiment.runtime}: {maintenance} (docs/modes.md)"
    if experiment.serving_runtime.preparation is Preparation.FIRST_START:
        yield (
            f"runtime = {experiment.runtime}: each service compiles when it first starts, on "
            "devices that are billed meanwhile, for up to "
            f"{FIRST_START_SECONDS / 3600:g} hours; later starts find its cache in the bucket "
            '(docs/cost.md, "What a first start takes")'
        )
    needed, most = cost(experiment).hours_of(CostGroup.TRAINIUM), guard_hours(experiment)
    if most < needed:
        hours, sweep = max_hours(experiment), experiment.sweep
        # The lower of both holds.
        bound = (
            f"sweep.at_most_usd = {sweep.at_most_usd:g}, which pays for {most:.1f} hours"
            if sweep and most < hours
            else f"capacity.max_hours = {hours:g}"
        )
        yield (
            f"{bound}: by estimate the Trainium nodes are needed for {needed:.1f} hours, from "
            "their start to their end, and their guard ends them before (make cost)"
        )
    family = experiment.models.target.resolved_architecture.family
    for mode in dict.fromkeys(speculation.mode for speculation in experiment.speculations):
        if family in experiment.serving_runtime.modes[mode].unproven:
            yield (
                f"speculation.mode = {mode}: nobody has shown it for {family} on this image, and "
                "the plugin before it could do neither this nor load a target whose embeddings are "
                "tied (docs/assumptions.md, A15)"
            )
    drafts = max((v.drafts_per_step or 0 for v in variants(experiment)), default=0)
    points = experiment.benchmark.points
    if any(s.mode is Mode.DFLASH for s in experiment.speculations) and any(
        point.concurrency != 1 for point in points
    ):
        yield (
            f"speculation.mode = dflash: each request has {drafts + 1} tokens verified a step, "
            "which costs most in company. Published at four requests: 0.35x with Qwen3-4B (15 "
            "drafts, 2.1 tokens a step), 1.22x with Llama 3.1 8B (9 drafts, 3.2); alone, dense "
            "models gain from 1.2 or 1.3 tokens a step (docs/modes.md)"
        )
    if experiment.workload is Workload.JOB:
        yield (
            "jobs: inference_demo --benchmark measures them, on random token ids: no test case, "
            "round or load of benchmark is used, and the figures compare with each other and with "
            "no service's"
        )


def _prompts(experiment: Experiment) -> Iterator[str]:
    """Notes answers that will be cut-off thoughts, and prompts that no service takes."""
    benchmark, target = experiment.benchmark, experiment.models.target
    answer, is_asked = (
        benchmark.mean_output_tokens,
        not all(c.is_line for c in benchmark.test_cases),
    )
    thinks = (
        target.resolved_architecture.thinks
        and "enable_thinking" not in benchmark.chat_template_kwargs
    )
    if thinks and is_asked and answer < _THOUGHTS:
        yield (
            f"benchmark.mean_output_tokens = {answer}: {target.id} thinks before it answers, so "
            "most answers are thoughts that are cut off; set chat_template_kwargs: "
            "{enable_thinking: false}, or a longer answer"
        )
    for index, case in enumerate(benchmark.test_cases):
        lengths, most = experiment.least_lengths(case), experiment.served_length
        if long := sum(length > most for length in lengths):
            yield (
                f"benchmark.test_cases[{index}].file = {case.file}: {long} of {len(lengths)} "
                f"prompts and their answers do not fit into the {most:,} tokens that "
                "serving.length leaves, and are left out"
            )
