"""What must hold between the fields of an experiment. Each rule is one function.

A rule yields its refusals. A rule can depend on others, as ``_mode`` depends on ``_runtime``: it is
skipped when one of those has refused something.

A rule names the item of a list by its position, also in a file that has a mapping in place of a
list: ``Document.locate`` turns ``speculation[0].mode`` into what that file says.
"""

from __future__ import annotations

import datetime
import ipaddress
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from experiment.errors import ABSENT, Refusal, shown
from experiment.known_models import KNOWN_MODELS, Architecture, ModelKind
from experiment.runtimes import RUNTIMES, ModeSupport, serving_in_words
from experiment.schema import Experiment, Model, Speculation, Structure
from experiment.variants import Variant, services, variants

LLMPERF_PREFIX_TOKENS: Final = 41
"""Llama tokens of llmperf's own instruction. Asked for a prompt no longer than that, with no
deviation, llmperf @f1d6bed draws lengths for ever."""

LARGEST_TENSOR_PARALLEL: Final = 64
"""NxDI takes powers of two up to this."""

WIDEST_API_ACCESS: Final = 8
"""No organisation has more addresses than one /8. The whole internet is also two blocks of /1."""

PRIVATE: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
    )
)

OTHER_PARTITIONS: Final = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")
"""Regions with other domains and registries than the manifests name."""

USABLE_MEMORY: Final = 0.8
"""Share of a claim's device memory that weights and KV cache may use. Compiled graphs and scratch
space need the rest."""

Refusals = Iterator[Refusal]
Rule = Callable[[Experiment], Refusals]


def refusals(experiment: Experiment) -> Refusals:
    """Everything in ``experiment`` that is refused, the most basic first."""
    kept: set[Rule] = set()
    for rule, depends_on in _RULES.items():
        if kept.issuperset(depends_on):
            # Variants that share a mode or a draft are refused for the same reason: say it once.
            found = dict.fromkeys(rule(experiment))
            yield from found
            if not found:
                kept.add(rule)


def _region(experiment: Experiment) -> Refusals:
    region = experiment.aws.region
    if region.startswith(OTHER_PARTITIONS):
        yield Refusal("aws.region", region, "must be a region of the partition aws")


def _zones(experiment: Experiment) -> Refusals:
    aws = experiment.aws
    for index, zone in enumerate(aws.availability_zones):
        field = f"aws.availability_zones[{index}]"
        if not zone.startswith(aws.region):
            yield Refusal(field, zone, f"must be a zone of aws.region, {aws.region}")
        if zone in aws.availability_zones[:index]:
            yield Refusal(field, zone, "is duplicated; list each zone once")
    zone = experiment.capacity.availability_zone
    if zone not in aws.availability_zones:
        allowed = ", ".join(aws.availability_zones)
        yield Refusal(
            "capacity.availability_zone", zone, f"must be in aws.availability_zones: {allowed}"
        )


def _api_access(experiment: Experiment) -> Refusals:
    for index, block in enumerate(experiment.aws.api_access):
        field = f"aws.api_access[{index}]"
        try:
            interface = ipaddress.IPv4Interface(block)
        except ValueError:
            yield Refusal(field, block, "must be an IPv4 network such as 203.0.113.0/24")
            continue
        network = interface.network
        if network.prefixlen < WIDEST_API_ACCESS:
            yield Refusal(
                field, block, f"must be /{WIDEST_API_ACCESS} or narrower; list your own addresses"
            )
        elif any(network.overlaps(private) for private in PRIVATE):
            yield Refusal(field, block, "is private; EKS sees your public address")
        elif interface.ip != network.network_address:
            yield Refusal(field, block, f"has host bits set; the network is {network}")


def _purchase(experiment: Experiment) -> Refusals:
    capacity = experiment.capacity
    if capacity.purchase.reserved and capacity.reservation_id is None:
        yield Refusal(
            "capacity.reservation_id", None, f"is required with purchase {capacity.purchase}"
        )
    if not capacity.purchase.reserved and capacity.reservation_id is not None:
        yield Refusal(
            "capacity.reservation_id",
            capacity.reservation_id,
            "is allowed only with purchase reservation or capacity-block",
        )


def _price(experiment: Experiment) -> Refusals:
    as_of = experiment.capacity.price.as_of
    # UTC+14 is the easternmost time zone: a later date is in the future everywhere.
    today = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=14))).date()
    if as_of > today:
        yield Refusal(
            "capacity.price.as_of", as_of, "is in the future; must be the day the price was read"
        )


def _runtime(experiment: Experiment) -> Refusals:
    if experiment.runtime not in RUNTIMES:
        yield Refusal("runtime", experiment.runtime, f"must be one of {', '.join(RUNTIMES)}")


def _names(experiment: Experiment) -> Refusals:
    names = Counter(speculation.name.lower() for speculation in experiment.speculation)
    baselines = {v.name.lower() for v in variants(experiment) if v.baseline is None} | {"base"}
    for index, speculation in enumerate(experiment.speculation):
        name, field = speculation.name, f"speculation[{index}].name"
        if name.lower() in baselines:
            yield Refusal(field, name, "is reserved for a baseline")
        if names[name.lower()] > 1:
            yield Refusal(field, name, "is duplicated; must be unique, ignoring case")


def _mode(experiment: Experiment) -> Refusals:
    runtime = experiment.serving_runtime
    for index, speculation in enumerate(experiment.speculation):
        mode = speculation.mode
        if mode not in runtime.modes:
            able = serving_in_words(mode)
            elsewhere = f"{mode} is served by {able}" if able else f"no runtime serves {mode}"
            yield Refusal(
                f"speculation[{index}].mode",
                str(mode),
                f"runtime {runtime.name} serves {', '.join(runtime.modes)}; {elsewhere}",
            )


def _speculating(experiment: Experiment) -> Iterator[tuple[Speculation, str, ModeSupport]]:
    """Each speculation with its place in the file, and how the runtime serves its mode."""
    modes = experiment.serving_runtime.modes
    for index, speculation in enumerate(experiment.speculation):
        yield speculation, f"speculation[{index}]", modes[speculation.mode]


def _drafts(experiment: Experiment) -> Iterator[tuple[Speculation, str, Model]]:
    """Each speculation that has a draft, with the draft and its place in the file."""
    for speculation, place, support in _speculating(experiment):
        draft = speculation.draft or experiment.models.draft
        if support.draft and draft:
            yield speculation, f"{place}.draft" if speculation.draft else "models.draft", draft


def _draft(experiment: Experiment) -> Refusals:
    for speculation, place, support in _speculating(experiment):
        if support.draft and not (speculation.draft or experiment.models.draft):
            yield Refusal(
                "models.draft",
                None,
                f"is required: mode {speculation.mode} needs a draft of kind {support.draft}",
            )
        if speculation.draft and not support.draft:
            yield Refusal(
                f"{place}.draft", speculation.draft.id, f"mode {speculation.mode} takes no draft"
            )


def _models(experiment: Experiment) -> Iterator[tuple[str, str, Model]]:
    """Field, role and model of each model in the file."""
    yield "models.target", "target", experiment.models.target
    if experiment.models.draft:
        yield "models.draft", "draft", experiment.models.draft
    for index, speculation in enumerate(experiment.speculation):
        if speculation.draft:
            yield f"speculation[{index}].draft", "draft", speculation.draft


def _models_known(experiment: Experiment) -> Refusals:
    for place, _, model in _models(experiment):
        field = f"{place}.architecture"
        known = KNOWN_MODELS.get(model.id)
        if known is None and model.architecture is None:
            yield Refusal(
                field,
                None,
                f"is required, since {model.id} is not one of {', '.join(KNOWN_MODELS)}",
            )
        if known is None or model.architecture is None:
            continue
        for figure, value in known:
            given = getattr(model.architecture, figure)
            if given != value:
                yield Refusal(
                    f"{field}.{figure}",
                    given,
                    f"must be {shown(value)}, as in {model.id}; architecture can be left out",
                )


def _family(experiment: Experiment) -> Refusals:
    target = experiment.models.target
    for speculation, _, support in _speculating(experiment):
        if target.known.family not in support.families:
            yield Refusal(
                "models.target",
                target.id,
                f"is of family {target.known.family}; mode {speculation.mode} is served by "
                f"{serving_in_words(speculation.mode)}",
            )


def _kinds(experiment: Experiment) -> Refusals:
    target = experiment.models.target
    if target.known.kind is not ModelKind.CAUSAL_LM:
        yield Refusal(
            "models.target",
            target.id,
            f"is of kind {target.known.kind}; must be {ModelKind.CAUSAL_LM}",
        )
    for speculation, field, draft in _drafts(experiment):
        needed = experiment.serving_runtime.modes[speculation.mode].draft
        if draft.known.kind is not needed:
            yield Refusal(
                field,
                draft.id,
                f"is of kind {draft.known.kind}; mode {speculation.mode} needs {needed}",
            )


def _pair(experiment: Experiment) -> Refusals:
    target = experiment.models.target.known
    for _, field, model in _drafts(experiment):
        yield from (Refusal(field, model.id, why) for why in _mismatches(model.known, target))


def _mismatches(draft: Architecture, target: Architecture) -> Iterator[str]:
    """What keeps ``draft`` from drafting for ``target``."""
    if draft.vocabulary != target.vocabulary:
        yield f"has a vocabulary of {draft.vocabulary}; must be the target's, {target.vocabulary}"
    if draft.family != target.family:
        yield (
            f"is of family {draft.family}; must be the target's, {target.family}: NxDI builds the "
            "draft with the target's model class"
        )
    if draft.kind is not ModelKind.CAUSAL_LM and draft.hidden != target.hidden:
        yield f"has hidden size {draft.hidden}; a head must have the target's, {target.hidden}"
    if draft.checkpoint_gib >= target.checkpoint_gib:
        yield (
            f"has {draft.checkpoint_gib} GiB of weights; must be smaller than the target's "
            f"{target.checkpoint_gib} GiB"
        )


def _window(experiment: Experiment) -> Refusals:
    for speculation, place, support in _speculating(experiment):
        minimum = support.minimum_tokens
        if speculation.num_speculative_tokens < minimum:
            yield Refusal(
                f"{place}.num_speculative_tokens",
                speculation.num_speculative_tokens,
                f"must be at least {minimum}: NxDI verifies a window of k positions with k - 1 "
                "draft tokens",
            )


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
        yield Refusal(
            "serving.tensor_parallel",
            serving.tensor_parallel,
            f"must be {cores}: {layout}",
        )


def _claims_fit(experiment: Experiment) -> Refusals:
    serving, capacity = experiment.serving, experiment.capacity
    claims = len(services(experiment))
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


def _memory(experiment: Experiment) -> Refusals:
    serving, target = experiment.serving, experiment.models.target.known
    room = serving.devices * experiment.capacity.instance.hbm_gib_per_device
    # A baseline needs no more than the variants of its batch.
    for index, speculation in enumerate(experiment.speculation):
        variant = next(v for v in variants(experiment) if v.speculation is speculation)
        field = f"speculation[{index}]" if speculation.batch else "serving"
        models = (target, *([variant.draft.known] if variant.draft else []))
        weights = sum(model.checkpoint_gib for model in models)
        cache = sum(_cache_gib(variant, model) for model in models)
        if weights > room * USABLE_MEMORY:
            yield Refusal(
                "serving.devices",
                serving.devices,
                f"{weights:g} GiB of weights exceed {USABLE_MEMORY:.0%} of the {room} GiB of "
                "device memory; use more devices",
            )
        elif weights + cache > room * USABLE_MEMORY:
            yield Refusal(
                f"{field}.batch",
                variant.batch,
                f"{variant.batch} sequences of {serving.length} tokens need a KV cache of "
                f"{cache:.0f} GiB; with {weights:g} GiB of weights that exceeds "
                f"{USABLE_MEMORY:.0%} of the {room} GiB of device memory; use a smaller batch or "
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
    _, role, model = min(_models(experiment), key=lambda found: found[2].known.max_length)
    if length > model.known.max_length:
        yield Refusal(
            "serving.length",
            length,
            f"must be at most {model.known.max_length}, the context of the {role} {model.id}",
        )


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
    if load.mean_input_tokens <= LLMPERF_PREFIX_TOKENS:
        yield Refusal(
            "benchmark.mean_input_tokens",
            load.mean_input_tokens,
            f"must be more than {LLMPERF_PREFIX_TOKENS}, the length of llmperf's own instruction",
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


def _temperature(experiment: Experiment) -> Refusals:
    temperature = experiment.benchmark.temperature
    for speculation, _, support in _speculating(experiment):
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


# Each rule with the rules it depends on.
_RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _region: (),
    _zones: (_region,),
    _api_access: (),
    _purchase: (),
    _price: (),
    _runtime: (),
    _names: (),
    _mode: (_runtime,),
    _draft: (_mode,),
    _models_known: (),
    _family: (_mode, _models_known),
    _kinds: (_family, _draft),
    _pair: (_kinds,),
    _window: (_mode,),
    _parallelism: (),
    _claims_fit: (_mode,),
    _memory: (_mode, _models_known, _parallelism),
    _length: (_models_known,),
    _load_fits: (),
    _concurrency: (),
    _temperature: (_mode,),
    _test_cases: (),
    _emails: (),
}
