"""What must hold between the fields of an experiment. Each rule is one function.

A rule yields what it refuses. It may rely on others (``_mode`` on ``_runtime``): where one of them
has refused something it is not asked.
"""

from __future__ import annotations

import datetime
import ipaddress
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from experiment.errors import Refusal, shown
from experiment.known_models import KNOWN_MODELS, Architecture, ModelKind
from experiment.runtimes import RUNTIMES, ModeSupport, serving_in_words
from experiment.schema import Experiment, Model, Speculation, Structure
from experiment.variants import Variant, Workload, variants

LLMPERF_PREFIX_TOKENS: Final = 41
"""Llama tokens of llmperf's own instruction. Asked for a prompt no longer than that, with no
deviation, llmperf @f1d6bed draws lengths for ever."""

LARGEST_TENSOR_PARALLEL: Final = 64
"""NxDI takes powers of two up to this."""

WIDEST_API_ACCESS: Final = 8
"""No organisation has more addresses than one /8; wider is the internet, in one piece or two."""

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

MOST_CELLS: Final = 150
"""Variants x test cases. Their dashboards stay below the 1 MB of a CloudFormation template, and
below CloudWatch's 500 metrics in a graph and 2,500 on a dashboard."""

USABLE_MEMORY: Final = 0.8
"""Part of a claim's device memory that weights and KV cache may take; graphs and scratch need the
rest."""

Refusals = Iterator[Refusal]
Rule = Callable[[Experiment], Refusals]


def refusals(experiment: Experiment) -> Refusals:
    """Everything in ``experiment`` that cannot be, most basic first."""
    kept: set[Rule] = set()
    for rule, relied_on in _RULES.items():
        if kept.issuperset(relied_on):
            # Once each: variants that share a mode or a draft are refused for the same thing.
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
            yield Refusal(field, zone, "is there twice; each zone once")
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
                field, block, f"must be /{WIDEST_API_ACCESS} or narrower; name your own addresses"
            )
        elif any(network.overlaps(private) for private in PRIVATE):
            yield Refusal(field, block, "is private; EKS takes the public address you come from")
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
    # The calendar of whoever is furthest east: nobody has read a price of tomorrow.
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
        name, field = speculation.name, f"{_place(experiment, index)}.name"
        if name.lower() in baselines:
            yield Refusal(field, name, "is the name of a baseline")
        if names[name.lower()] > 1:
            yield Refusal(field, name, "is duplicated; must be unique, also in lower case")


def _place(experiment: Experiment, index: int) -> str:
    """The field of one speculation; a file with one need not have a list."""
    return "speculation" if len(experiment.speculation) == 1 else f"speculation[{index}]"


def _mode(experiment: Experiment) -> Refusals:
    runtime = experiment.serving_runtime
    for index, speculation in enumerate(experiment.speculation):
        mode = speculation.mode
        if mode not in runtime.modes:
            able = serving_in_words(mode)
            elsewhere = f"{mode} is served by {able}" if able else f"no runtime serves {mode}"
            yield Refusal(
                f"{_place(experiment, index)}.mode",
                str(mode),
                f"runtime {runtime.name} serves {', '.join(runtime.modes)}; {elsewhere}",
            )


def _speculating(experiment: Experiment) -> Iterator[tuple[Speculation, str, ModeSupport]]:
    """Each speculation with its place in the file, and how the runtime serves its mode."""
    modes = experiment.serving_runtime.modes
    for index, speculation in enumerate(experiment.speculation):
        yield speculation, _place(experiment, index), modes[speculation.mode]


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
            yield f"{_place(experiment, index)}.draft", "draft", speculation.draft


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
                    f"{model.id} has {shown(value)}; leave architecture out",
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
            f"is of family {draft.family}; must be the target's, {target.family}, whose model "
            "class NxDI builds the draft with"
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
                f"must be at least {minimum}: NxDI verifies that many positions with one draft "
                "fewer",
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
            f"{layout} come to tensor_parallel {cores}; NxDI's largest is "
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
    # Every service allocates devices of its own.
    claims = sum(variant.workload is Workload.SERVICE for variant in variants(experiment))
    per_node = capacity.instance.devices // serving.devices
    needed = math.ceil(claims / per_node)
    if capacity.nodes > needed:
        yield Refusal(
            "capacity.nodes",
            capacity.nodes,
            f"must be {needed}: {claims} claims of {serving.devices} devices need no more, and "
            "each node is paid for",
        )
    if capacity.nodes < needed:
        yield Refusal(
            "serving.devices",
            serving.devices,
            f"{claims} claims of {serving.devices} devices need more than "
            f"{capacity.nodes} x {capacity.instance.name} with {capacity.instance.devices} "
            f"devices; ask for fewer, or for more capacity.nodes",
        )


def _memory(experiment: Experiment) -> Refusals:
    serving, target = experiment.serving, experiment.models.target.known
    room = serving.devices * experiment.capacity.instance.hbm_gib_per_device
    # A baseline needs no more than the variants of its batch.
    for index, speculation in enumerate(experiment.speculation):
        variant = next(v for v in variants(experiment) if v.speculation is speculation)
        field = _place(experiment, index) if speculation.batch else "serving"
        models = (target, *([variant.draft.known] if variant.draft else []))
        weights = sum(model.checkpoint_gib for model in models)
        cache = sum(_cache_gib(variant, model) for model in models)
        if weights > room * USABLE_MEMORY:
            yield Refusal(
                "serving.devices",
                serving.devices,
                f"{weights:g} GiB of weights need more than {USABLE_MEMORY:.0%} of "
                f"{room} GiB device memory; ask for more devices",
            )
        elif weights + cache > room * USABLE_MEMORY:
            yield Refusal(
                f"{field}.batch",
                variant.batch,
                f"{variant.batch} sequences of {serving.length} tokens have a KV cache of "
                f"{cache:.0f} GiB, with {weights:g} GiB of weights more than {USABLE_MEMORY:.0%} "
                f"of {room} GiB device memory; ask for a smaller batch or length",
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
        # llmperf draws lengths from a normal distribution; three deviations are as good as all.
        + 3 * (load.stddev_input_tokens + load.stddev_output_tokens)
    )
    # Twice: the services take a window less than compiled, and vLLM 0.9.1 itself, which sets a
    # window's slots aside beyond the last token, ends where that passes what is served.
    most = experiment.serving.length - 2 * window
    if longest > most:
        yield Refusal(
            "benchmark.mean_output_tokens",
            load.mean_output_tokens,
            f"input, output and three deviations come to {longest} tokens; must be at most "
            f"{most}: serving.length {experiment.serving.length} less two windows of {window}",
        )
    if load.mean_input_tokens <= LLMPERF_PREFIX_TOKENS:
        yield Refusal(
            "benchmark.mean_input_tokens",
            load.mean_input_tokens,
            f"must be more than {LLMPERF_PREFIX_TOKENS}, the length of llmperf's own instruction",
        )


def _concurrency(experiment: Experiment) -> Refusals:
    load = experiment.benchmark
    for index, speculation in enumerate(experiment.speculation):
        place = _place(experiment, index) if speculation.batch else "serving"
        batch = speculation.batch or experiment.serving.batch
        if load.concurrency > batch:
            yield Refusal(
                "benchmark.concurrency",
                load.concurrency,
                f"must be at most {place}.batch, {batch}: more would measure the queue",
            )
    if load.requests < load.concurrency:
        yield Refusal(
            "benchmark.requests",
            load.requests,
            f"must be at least benchmark.concurrency, {load.concurrency}",
        )


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
    for speculation, _, support in _speculating(experiment):
        if support.greedy_only and temperature:
            yield Refusal(
                "benchmark.temperature",
                temperature,
                f"must be 0: mode {speculation.mode} of runtime {experiment.runtime} samples "
                "greedily on the device and would ignore it on one side only",
            )


def _emails(experiment: Experiment) -> Refusals:
    emails = experiment.alerts.emails
    for index, email in enumerate(emails):
        if email in emails[:index]:
            yield Refusal(f"alerts.emails[{index}]", email, "is there twice; each address once")


def _test_cases(experiment: Experiment) -> Refusals:
    cases = experiment.benchmark.test_cases
    names = Counter(case.name for case in cases)
    for index, case in enumerate(cases):
        if names[case.name] > 1:
            yield Refusal(
                f"benchmark.test_cases[{index}].name", case.name, "is there twice; must be unique"
            )
    for structure in Structure:
        field = "benchmark.test_cases[{}].headline"
        headlines = [i for i, c in enumerate(cases) if c.headline and c.structure is structure]
        if not headlines:
            yield Refusal(
                field.format("*"), False, f"one {structure} case must have true; none has"
            )
        for index in headlines[1:]:
            first = cases[headlines[0]].name
            yield Refusal(
                field.format(index), True, f"only one {structure} case may have it, {first} does"
            )


# Each with those it relies on.
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
    _claims_fit: (),
    _memory: (_mode, _models_known, _parallelism),
    _length: (_models_known,),
    _load_fits: (),
    _concurrency: (),
    _cells: (),
    _temperature: (_mode,),
    _test_cases: (),
    _emails: (),
}
