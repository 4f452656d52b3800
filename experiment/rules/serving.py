"""Rules on the place of an experiment, its services or jobs, and their resources."""

import math
from collections.abc import Mapping
from typing import Final

from experiment.aws import is_private
from experiment.fields import Origin, Refusal, Refusals
from experiment.known_models import Architecture
from experiment.rules.models import (
    Rule,
    mode_served,
    models_known,
    models_of,
    runtime_known,
    speculating,
)
from experiment.runtimes import Mode, Workload
from experiment.schema import CompileNode, Experiment
from experiment.variants import Variant, variants
from spectap import wording

LARGEST_TENSOR_PARALLEL: Final = 64
"""The largest degree. NxDI takes powers of two up to it."""


def one_workload(experiment: Experiment) -> Refusals:
    """Refuses services beside jobs, and jobs of several modes: they need several baselines."""
    listed = [*speculating(experiment)]
    jobs = [entry for entry in listed if entry[2].workload is Workload.JOB]
    for speculation, fields, _ in jobs:
        if experiment.sweep:
            why = "a sweep serves what it measures; list the variants with speculation instead"
            yield Refusal(fields.mode, f"runs as a job, and {why}")
        elif len(jobs) < len(listed):
            why = "compared only with a baseline that runs as one; give it a file of its own"
            yield Refusal(fields.mode, f"runs as a job, which is {why}")
        elif speculation.mode is not (first := jobs[0][0].mode):
            why = "as of the first variant: jobs of one experiment have one baseline"
            yield Refusal(fields.mode, f"must be {first}, {why}")


def one_at_a_time(experiment: Experiment) -> Refusals:
    """Refuses a batch above 1 for unfused speculation: ``inference_demo`` takes one prompt at a
    time.

    neuronx-distributed-inference v0.6.10598: transformers refuses assisted generation of a batch
    (4.51, ``generation/utils.py``), and ``utils/hf_adapter.py`` decodes only the first sequence.
    """
    if experiment.workload is not Workload.JOB:
        return
    needs = "a job decodes one prompt at a time"
    benchmark = experiment.benchmark
    ones: dict[str, int | None] = {"serving.batch": experiment.serving.batch}
    ones |= {
        fields.batch: s.batch for s, fields in experiment.speculations_with_paths if fields.batch
    }
    ones["benchmark.concurrency"] = benchmark.concurrency
    for index, point in enumerate(benchmark.load or ()):
        if point.rate is not None:
            yield Refusal(f"benchmark.load[{index}].rate", f"must be absent: {needs}")
        ones[f"benchmark.load[{index}].concurrency"] = point.concurrency
    for field, number in ones.items():
        if number not in (None, 1):
            yield Refusal(field, f"must be 1: {needs}")
    if experiment.serving.api_key:
        yield Refusal("serving.api_key", "must be false with jobs: there is no server to guard")
    if experiment.capacity.nodes > 1:
        why = "jobs run one after the other; every node is billed"
        yield Refusal("capacity.nodes", f"must be 1: {why}")


def _answers_fit(experiment: Experiment) -> Refusals:
    """Refuses lengths that are too short for Medusa, whose prompts take half of the length.

    neuronx-distributed-inference v0.6.10598, ``utils/benchmark.py``: ``get_sample_inputs``.
    """
    if experiment.speculations[0].mode is not Mode.MEDUSA:
        return
    most = experiment.serving.length // 2 - experiment.largest_look_ahead
    if experiment.benchmark.mean_output_tokens > most:
        yield Refusal(
            "benchmark.mean_output_tokens",
            f"must be at most {most}, what is left of serving.length beside the prompts of "
            "inference_demo --benchmark, which take half of it",
        )


def _zone(experiment: Experiment) -> Refusals:
    zones = experiment.aws.availability_zones
    if experiment.capacity.availability_zone not in zones:
        allowed = f"must be in aws.availability_zones: {', '.join(zones)}"
        yield Refusal("capacity.availability_zone", allowed)


def _network(experiment: Experiment) -> Refusals:
    aws = experiment.aws
    if aws.vpc is None and aws.subnets:
        yield Refusal("aws.vpc", "is required with aws.subnets")
    if aws.vpc and len(aws.subnets) != len(aws.availability_zones):
        each = ", ".join(aws.availability_zones)
        yield Refusal("aws.subnets", f"must be a private subnet for each of {each}, in this order")
    for index, block in enumerate(aws.api_access):
        if aws.vpc is None and is_private(block):
            why = "is private; EKS sees your public address"
            yield Refusal(f"aws.api_access[{index}]", why)


def _cluster(experiment: Experiment) -> Refusals:
    aws = experiment.aws
    of_cluster = ("cluster_security_group", "administrator_role", "dra_driver")
    foreign = ("api_access",) if aws.cluster else of_cluster
    for field in foreign:
        if getattr(aws, field) not in (None, (), Origin.MAKE):
            beside = "with" if aws.cluster else "without"
            yield Refusal(f"aws.{field}", f"must be absent {beside} aws.cluster")
    for field in ("vpc", "cluster_security_group") if aws.cluster else ():
        if getattr(aws, field) is None:
            look = f"aws eks describe-cluster --name {aws.cluster} --region {aws.region}"
            yield Refusal(f"aws.{field}", f"is required with aws.cluster: {look} says it")


def _parallelism(experiment: Experiment) -> Refusals:
    serving, instance = experiment.serving, experiment.capacity.instance
    size = experiment.serving_runtime.logical_core_size
    if size not in (None, serving.logical_core_size):
        why = f"the kernels of {experiment.runtime} assume it"
        yield Refusal("serving.logical_core_size", f"must be {size}: {why}")
        return
    cores = serving.devices * instance.cores_per_device // serving.logical_core_size
    layout = (
        f"{wording.count(serving.devices, 'device')} x {instance.cores_per_device} cores / "
        f"logical_core_size {serving.logical_core_size}"
    )
    if cores > LARGEST_TENSOR_PARALLEL:
        most = f"NxDI supports at most {LARGEST_TENSOR_PARALLEL}"
        yield Refusal("serving.logical_core_size", f"{layout} give tensor_parallel {cores}; {most}")
    elif serving.tensor_parallel != cores:
        fewer = experiment.serving_runtime.takes_fewer_cores
        if not fewer or cores % serving.tensor_parallel:
            verb = "divide" if fewer else "be"
            yield Refusal("serving.tensor_parallel", f"must {verb} {cores}: {layout}")


def _nodes_are_used(experiment: Experiment) -> Refusals:
    """Refuses nodes without work. All services run at once; a sweep's variants take turns, at most
    one to a node."""
    devices, capacity = experiment.serving.devices, experiment.capacity
    count = len(variants(experiment))
    claims = f"{wording.count(count, 'claim')} of {wording.count(devices, 'device')}"
    needed = math.ceil(count / (capacity.instance.devices // devices))
    if experiment.sweep and capacity.nodes > count:
        why = "the variants of the sweep; every node is billed"
        yield Refusal("capacity.nodes", f"must be at most {count}, {why}")
    if not experiment.isolated and capacity.nodes > needed:
        why = f"which is enough for {claims}; every node is billed"
        yield Refusal("capacity.nodes", f"must be {needed}, {why}")
    if not experiment.isolated and capacity.nodes < needed:
        yield Refusal(
            "serving.devices",
            f"{claims} need more than {capacity.nodes} x {capacity.instance.name} with "
            f"{wording.count(capacity.instance.devices, 'device')}; use fewer devices or more "
            "capacity.nodes",
        )


def _compiled_beside(experiment: Experiment) -> Refusals:
    """Refuses a compile on a Trainium node without the memory for it beside idle services."""
    instance, needed = experiment.capacity.instance, experiment.compile_instance
    on_trainium = experiment.compile_node is CompileNode.TRAINIUM
    if on_trainium and needed.compile_limit_gib > instance.memory_gib:
        why = f"compiles may take {needed.compile_limit_gib} GiB, more than a {instance.name} has"
        yield Refusal("compiling.node", f"must be {CompileNode.CPU}: {why}")


def _memory(experiment: Experiment) -> Refusals:
    serving, target = experiment.serving, experiment.models.target.resolved_architecture
    instance = experiment.capacity.instance
    used_devices = serving.tensor_parallel * serving.logical_core_size / instance.cores_per_device
    room = used_devices * instance.hbm_gib_per_device
    runtime = experiment.serving_runtime
    usable, most_cache = room * runtime.usable_memory, room * runtime.cache_memory
    limit = f"{runtime.usable_memory:.0%} of the {room:g} GiB of device memory"
    # A baseline needs no more than the variants of its batch.
    all_variants = variants(experiment)
    for speculation, fields in experiment.speculations_with_paths:
        variant = next(v for v in all_variants if v.speculation == speculation)
        models = (target, *([variant.draft.resolved_architecture] if variant.draft else []))
        weights = sum(model.checkpoint_gib for model in models)
        cache = sum(_cache_gib(variant, model) for model in models)
        sequences = f"{variant.batch} sequences of {serving.length} tokens"
        needed = f"{sequences} need a KV cache of {cache:.0f} GiB"
        if weights > usable:
            all_used = used_devices == serving.devices
            more = "more devices" if all_used else "a larger tensor_parallel"
            exceed = f"{weights:g} GiB of weights exceed {limit}"
            yield Refusal("serving.devices", f"{exceed}; use {more}")
        elif weights + cache > usable or cache > most_cache:
            exceeded = (
                f"with {weights:g} GiB of weights that exceeds {limit}"
                if weights + cache > usable
                else f"{runtime.name} compiles with at most {most_cache:.0f} GiB"
            )
            field = fields.batch or "serving.batch"
            yield Refusal(field, f"{needed}; {exceeded}; use a smaller batch or length")


def _cache_gib(variant: Variant, model: Architecture) -> float:
    """The size of the KV cache of a full batch in bfloat16, in GiB.

    NxDI replicates key-value heads until each of the tensor-parallel cores has one.
    """
    serving = variant.experiment.serving
    heads = max(model.kv_heads, serving.tensor_parallel)
    per_token = 2 * model.layers * heads * model.head_dim * 2
    return per_token * variant.runtime.cache_tokens(variant.engine_config) / 2**30


def _length(experiment: Experiment) -> Refusals:
    _, role, model = min(
        models_of(experiment), key=lambda entry: entry[2].resolved_architecture.max_length
    )
    most = model.resolved_architecture.max_length
    if experiment.serving.length > most:
        yield Refusal(
            "serving.length", f"must be at most {most}, the context of the {role} {model.id}"
        )


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _zone: (),
    _network: (),
    _cluster: (),
    one_workload: (mode_served,),
    one_at_a_time: (one_workload,),
    _answers_fit: (one_at_a_time,),
    _parallelism: (runtime_known,),
    _nodes_are_used: (one_workload,),
    _compiled_beside: (runtime_known, models_known),
    _memory: (mode_served, models_known, _parallelism),
    _length: (models_known,),
}
