"""Rules on where an experiment runs, and on what each service gets: devices, memory and length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from experiment.architecture import Architecture
from experiment.errors import Refusal
from experiment.rules.models import mode_served, models_known, models_of
from experiment.rules.offline import one_workload
from experiment.rules.rule import Refusals, Rule
from experiment.schema import Experiment
from experiment.variants import Variant, variants

LARGEST_TENSOR_PARALLEL: Final = 64
"""NxDI takes powers of two up to this."""

USABLE_MEMORY: Final = 0.8
"""Share of a claim's device memory that weights and KV cache may use. Compiled graphs and scratch
space need the rest."""


def _zone(experiment: Experiment) -> Refusals:
    zone, zones = experiment.capacity.availability_zone, experiment.aws.availability_zones
    if zone not in zones:
        field = "capacity.availability_zone"
        yield Refusal(field, zone, f"must be in aws.availability_zones: {', '.join(zones)}")


def _parallelism(experiment: Experiment) -> Refusals:
    serving, instance = experiment.serving, experiment.capacity.instance
    cores = instance.logical_cores(serving.devices, serving.logical_core_size)
    layout = (
        f"{serving.devices} devices x {instance.cores_per_device} cores / "
        f"logical_core_size {serving.logical_core_size}"
    )
    if cores > LARGEST_TENSOR_PARALLEL:
        yield Refusal(
            "serving.logical_core_size",
            serving.logical_core_size,
            f"{layout} give tensor_parallel {cores}; NxDI supports at most "
            f"{LARGEST_TENSOR_PARALLEL}",
        )
    elif serving.tensor_parallel != cores:
        fewer = experiment.serving_runtime.takes_fewer_cores
        if not fewer or cores % serving.tensor_parallel:
            yield Refusal(
                "serving.tensor_parallel",
                serving.tensor_parallel,
                f"must {'divide' if fewer else 'be'} {cores}: {layout}",
            )


def _claims_fit(experiment: Experiment) -> Refusals:
    """All services are up at once. Variants measured apart take turns, and a node holds a claim."""
    if experiment.apart:
        return
    serving, capacity = experiment.serving, experiment.capacity
    claims = len(variants(experiment))
    per_node = capacity.instance.devices // serving.devices
    needed = math.ceil(claims / per_node)
    if capacity.nodes > needed:
        yield Refusal(
            "capacity.nodes",
            capacity.nodes,
            f"must be {needed}, which is enough for {claims} claims of {serving.devices} devices; "
            "every node is billed",
        )
    if capacity.nodes < needed:
        yield Refusal(
            "serving.devices",
            serving.devices,
            f"{claims} claims of {serving.devices} devices need more than "
            f"{capacity.nodes} x {capacity.instance.name} with {capacity.instance.devices} "
            "devices; use fewer devices or more capacity.nodes",
        )


def _nodes_are_used(experiment: Experiment) -> Refusals:
    """A node compiles one variant of a sweep at a time, so one for each is not too many."""
    nodes, count = experiment.capacity.nodes, len(variants(experiment))
    if experiment.sweep and nodes > count:
        yield Refusal(
            "capacity.nodes",
            nodes,
            f"must be at most {count}, the variants of the sweep; every node is billed",
        )


def _memory(experiment: Experiment) -> Refusals:
    serving, target = experiment.serving, experiment.models.target.known
    instance = experiment.capacity.instance
    used_devices = serving.tensor_parallel * serving.logical_core_size / instance.cores_per_device
    room = used_devices * instance.hbm_gib_per_device
    more = "more devices" if used_devices == serving.devices else "a larger tensor_parallel"
    # A baseline needs no more than the variants of its batch.
    all_variants = variants(experiment)
    for speculation, fields in experiment.placed:
        variant = next(v for v in all_variants if v.speculation == speculation)
        models = (target, *([variant.draft.known] if variant.draft else []))
        weights = sum(model.checkpoint_gib for model in models)
        cache = sum(_cache_gib(variant, model) for model in models)
        if weights > room * USABLE_MEMORY:
            yield Refusal(
                "serving.devices",
                serving.devices,
                f"{weights:g} GiB of weights exceed {USABLE_MEMORY:.0%} of the {room:g} GiB of "
                f"device memory; use {more}",
            )
        elif weights + cache > room * USABLE_MEMORY:
            yield Refusal(
                fields.batch or "serving.batch",
                variant.batch,
                f"{variant.batch} sequences of {serving.length} tokens need a KV cache of "
                f"{cache:.0f} GiB; with {weights:g} GiB of weights that exceeds "
                f"{USABLE_MEMORY:.0%} of the {room:g} GiB of device memory; use a smaller batch or "
                "length",
            )


def _cache_gib(variant: Variant, model: Architecture) -> float:
    """Keys and values of a full batch in bfloat16, GiB.

    NxDI replicates key-value heads until each of the tensor-parallel cores has one.
    """
    serving = variant.experiment.serving
    heads = max(model.kv_heads, serving.tensor_parallel)
    per_token = 2 * model.layers * heads * model.head_dim * 2
    return per_token * variant.batch * serving.length / 2**30


def _length(experiment: Experiment) -> Refusals:
    length = experiment.serving.length
    _, role, model = min(models_of(experiment), key=lambda entry: entry[2].known.max_length)
    if length > model.known.max_length:
        yield Refusal(
            "serving.length",
            length,
            f"must be at most {model.known.max_length}, the context of the {role} {model.id}",
        )


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _zone: (),
    _parallelism: (),
    _claims_fit: (one_workload,),
    _nodes_are_used: (mode_served,),
    _memory: (mode_served, models_known, _parallelism),
    _length: (models_known,),
}
