"""Rules on the runtime, the variants, and the models that they decode with.

They include what a head's training fixes: how it computes, and how many drafts it makes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from experiment.fields import Refusal, Refusals, as_json
from experiment.known_models import KNOWN_MODELS, MIRRORS, Model, ModelKind
from experiment.runtimes import (
    RUNTIMES,
    ModeSupport,
    Preparation,
    runtimes_serving,
    serving_in_words,
)
from experiment.schema import Experiment
from experiment.speculation import Speculation, YamlPaths
from experiment.variants import variants

Rule = Callable[[Experiment], Refusals]

_MISSPELLED: Final = 0.9
"""The least similarity of two names of which one may be a misspelling of the other."""


def listed_or_swept(experiment: Experiment) -> Refusals:
    """Refuses variants that are both listed and swept, or neither."""
    if experiment.speculation is None and experiment.sweep is None:
        yield Refusal("speculation", "is required, or sweep in its place")
    if experiment.speculation is not None and experiment.sweep is not None:
        yield Refusal("sweep", "must be absent beside speculation, which lists the variants")


def _rounds(experiment: Experiment) -> Refusals:
    if experiment.sweep is not None and not experiment.benchmark.rounds.fixed:
        why = "whether a range is enough is decided on variants that are measured together"
        yield Refusal("benchmark.rounds", f"must be a number with sweep: {why}")


def _compiled_ahead(experiment: Experiment) -> Refusals:
    if experiment.sweep and experiment.serving_runtime.preparation is Preparation.FIRST_START:
        why = "a node would compile one variant and measure another; list them under speculation"
        yield Refusal("runtime", f"must not be one that compiles at a first start: {why}")


def _names_distinct(experiment: Experiment) -> Refusals:
    """Refuses variants of the same name. A sweep makes distinct names itself."""
    names = Counter(speculation.name.lower() for speculation in experiment.speculation or ())
    baselines = {v.name.lower() for v in variants(experiment) if v.baseline is None} | {"base"}
    for index, speculation in enumerate(experiment.speculation or ()):
        name, field = speculation.name.lower(), f"speculation[{index}].name"
        if name in baselines:
            yield Refusal(field, "is reserved for a baseline")
        if names[name] > 1:
            yield Refusal(field, "is duplicated; must be unique, ignoring case")


def runtime_known(experiment: Experiment) -> Refusals:
    """Refuses an unknown runtime."""
    if experiment.runtime not in RUNTIMES:
        yield Refusal("runtime", f"must be one of {', '.join(RUNTIMES)}")


def mode_served(experiment: Experiment) -> Refusals:
    """Refuses modes that the runtime does not serve."""
    runtime = experiment.serving_runtime
    for speculation, fields in experiment.speculations_with_paths:
        mode = speculation.mode
        if mode not in runtime.modes:
            elsewhere = f"{mode} is served by {serving_in_words(mode)}"
            serves = f"runtime {runtime.name} serves {', '.join(runtime.modes)}"
            yield Refusal(fields.mode, f"{serves}; {elsewhere}")


def speculating(experiment: Experiment) -> Iterator[tuple[Speculation, YamlPaths, ModeSupport]]:
    """Each speculation, with its place in the file and the runtime's support of its mode."""
    modes = experiment.serving_runtime.modes
    for speculation, fields in experiment.speculations_with_paths:
        yield speculation, fields, modes[speculation.mode]


def _drafted(experiment: Experiment) -> Iterator[tuple[Speculation, str, Model]]:
    """Each speculation with a draft, that draft, and its place in the file."""
    for speculation, fields, support in speculating(experiment):
        draft = speculation.draft or experiment.models.draft
        if support.draft and draft:
            yield speculation, fields.draft or "models.draft", draft


def _draft(experiment: Experiment) -> Refusals:
    for speculation, fields, support in speculating(experiment):
        mode = speculation.mode
        if support.draft and not (speculation.draft or experiment.models.draft):
            needed = f"is required: mode {mode} needs a draft of kind {support.draft}"
            yield Refusal("models.draft", needed)
        if fields.draft and not support.draft:
            yield Refusal(fields.draft, f"mode {mode} takes no draft")


def models_of(experiment: Experiment) -> Iterator[tuple[str, str, Model]]:
    """The field, the role and the model of each model in the file."""
    yield "models.target", "target", experiment.models.target
    if experiment.models.draft:
        yield "models.draft", "draft", experiment.models.draft
    for speculation, fields in experiment.speculations_with_paths:
        if fields.draft and speculation.draft:
            yield fields.draft, "draft", speculation.draft


def models_known(experiment: Experiment) -> Refusals:
    """Refuses a model whose architecture is unknown, or is not its own."""
    for name, _, model in models_of(experiment):
        field = f"{name}.architecture"
        known = KNOWN_MODELS.get(model.id)
        if known is None and model.architecture is None:
            close = get_close_matches(model.id, KNOWN_MODELS, 1, _MISSPELLED)
            hint = f" (did you mean {close[0]}?)" if close else ""
            yield Refusal(
                field,
                f"is required, since {model.id} is not known here{hint}; python -m experiment "
                "add-model FOLDER prints it",
            )
        if known is None or model.architecture is None:
            continue
        # The parser is the server's, and the user's choice; of some heads nobody saw the norm.
        free = {"tool_parser"}
        if known.norm_before_residual is None:
            free.add("norm_before_residual")
        for figure, value in known:
            is_set = figure in model.architecture.model_fields_set - free
            if is_set and getattr(model.architecture, figure) != value:
                yield Refusal(
                    f"{field}.{figure}",
                    f"must be {as_json(value)}, as in {model.id}; architecture can be left out",
                )


def _family(experiment: Experiment) -> Refusals:
    family = experiment.models.target.resolved_architecture.family
    for speculation, _, support in speculating(experiment):
        if family not in support.families:
            able = serving_in_words(speculation.mode)
            yield Refusal(
                "models.target",
                f"is of family {family}; mode {speculation.mode} is served by {able}",
            )


def _kinds(experiment: Experiment) -> Refusals:
    kind = experiment.models.target.resolved_architecture.kind
    if kind is not ModelKind.CAUSAL_LM:
        yield Refusal("models.target", f"is of kind {kind}; must be {ModelKind.CAUSAL_LM}")
    for speculation, field, draft in _drafted(experiment):
        mode, kind = speculation.mode, draft.resolved_architecture.kind
        needed = experiment.serving_runtime.modes[mode].draft
        if kind is not needed:
            yield Refusal(field, f"is of kind {kind}; mode {mode} needs {needed}")


def _pair(experiment: Experiment) -> Refusals:
    """Refuses a draft that does not fit the target.

    The layers of published heads are not always of their target's family: EAGLE3 heads for Qwen3
    have Llama's, and DFlash heads for Llama have Qwen3's.
    """
    target, one_family = experiment.models.target, experiment.serving_runtime.one_family
    for _, field, model in _drafted(experiment):
        draft, wanted = model.resolved_architecture, target.resolved_architecture
        if draft.trained_for not in (None, target.id, MIRRORS.get(target.id)):
            must = f"is trained for {draft.trained_for}; must be for the target, {target.id}"
            yield Refusal(field, must)
            continue  # what else differs follows from this
        if draft.vocabulary != wanted.vocabulary:
            must = f"must be the target's, {wanted.vocabulary}"
            yield Refusal(field, f"has a vocabulary of {draft.vocabulary}; {must}")
        if one_family and draft.family != wanted.family:
            yield Refusal(
                field,
                f"is of family {draft.family}; must be the target's, {wanted.family}: NxDI builds "
                "the draft with the target's model class",
            )
        if draft.kind is not ModelKind.CAUSAL_LM and draft.hidden != wanted.hidden:
            must = f"a head must have the target's, {wanted.hidden}"
            yield Refusal(field, f"has hidden size {draft.hidden}; {must}")
        if draft.checkpoint_gib >= wanted.checkpoint_gib:
            must = f"must be smaller than the target's {wanted.checkpoint_gib} GiB"
            yield Refusal(field, f"has {draft.checkpoint_gib} GiB of weights; {must}")


def _distinct(experiment: Experiment) -> Refusals:
    """Refuses two variants of one artifact: compiled to one place, they compare nothing."""
    if experiment.sweep:  # lists nothing twice
        return
    fields = {s.name: f"speculation[{i}].name" for i, s in enumerate(experiment.speculations)}
    first: dict[str, str] = {}
    for variant in variants(experiment):
        first_name = first.setdefault(variant.artifact, variant.name)
        if first_name != variant.name:
            problem = f"has the mode, window, draft and batch of {first_name}"
            yield Refusal(fields[variant.name], f"{problem}; must differ in one of them")


def _window(experiment: Experiment) -> Refusals:
    for speculation, fields, support in speculating(experiment):
        window, most = speculation.num_speculative_tokens, support.maximum_tokens
        if window < support.minimum_tokens:
            yield Refusal(
                fields.window,
                f"must be at least {support.minimum_tokens}: NxDI verifies a window of k positions "
                "with k - 1 draft tokens",
            )
        if most is not None and window > most:
            yield Refusal(
                fields.window, f"must be at most {most}, the depth of {speculation.mode}'s tree"
            )


def _served(experiment: Experiment) -> Refusals:
    runtime, serving = experiment.serving_runtime, experiment.serving
    for speculation, _, support in speculating(experiment):
        cores = support.tensor_parallel
        if cores is not None and serving.tensor_parallel not in cores:
            able = " or ".join(map(str, cores))
            yield Refusal("serving.tensor_parallel", f"must be {able} in mode {speculation.mode}")
    if runtime.lengths is not None and serving.length not in runtime.lengths:
        able = ", ".join(map(str, runtime.lengths))
        yield Refusal("serving.length", f"runtime {runtime.name} compiles for {able}")


def _async_scheduling(experiment: Experiment) -> Refusals:
    for index, speculation in enumerate(experiment.speculation or ()):
        support = experiment.serving_runtime.modes[speculation.mode]
        if speculation.async_scheduling and not support.may_keep_it:
            off = f"must be false: {experiment.runtime} turns it off in mode {speculation.mode}"
            yield Refusal(f"speculation[{index}].async_scheduling", off)


def _norms(experiment: Experiment) -> Refusals:
    """Refuses EAGLE3 heads that NxDI computes differently: they would draft badly in silence."""
    if experiment.serving_runtime.takes_norm_before_residual:
        return
    for speculation, field, model in _drafted(experiment):
        if model.resolved_architecture.norm_before_residual:
            served = runtimes_serving(speculation.mode)
            able = [name for name in served if RUNTIMES[name].takes_norm_before_residual]
            yield Refusal(
                field,
                "has norm_before_residual, which NxDI does not compute; "
                f"{' or '.join(able)} serves it as it is",
            )


def _fixed(experiment: Experiment) -> Refusals:
    """Refuses another number of drafts than training fixes: a DFlash draft's, or Medusa's heads."""
    for speculation, fields, support in speculating(experiment):
        draft = speculation.draft or experiment.models.draft
        if draft is None:
            continue
        kind, drafts = draft.resolved_architecture.kind, draft.resolved_architecture.drafts
        if drafts is None:
            if kind is ModelKind.DFLASH_DRAFT:
                yield Refusal(
                    f"{fields.draft or 'models.draft'}.architecture.drafts",
                    f"is required of a {kind}: block_size - 1 of its config.json",
                )
            continue
        window, fixed = speculation.num_speculative_tokens, drafts + support.undrafted
        at_most = "" if kind is ModelKind.DFLASH_DRAFT else "at most "
        if window > fixed or (window < fixed and not at_most):
            makes = f"{draft.id} makes {at_most}{drafts} drafts in a step"
            yield Refusal(fields.window, f"must be {at_most}{fixed}: {makes}")


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    listed_or_swept: (),
    _names_distinct: (),
    _rounds: (listed_or_swept,),
    runtime_known: (),
    _compiled_ahead: (listed_or_swept, runtime_known),
    mode_served: (runtime_known, listed_or_swept),
    _draft: (mode_served,),
    models_known: (),
    _family: (mode_served, models_known),
    _kinds: (_family, _draft),
    _pair: (_kinds,),
    _distinct: (_names_distinct, _draft, models_known),
    _window: (mode_served,),
    _served: (mode_served,),
    _async_scheduling: (mode_served,),
    _norms: (_pair,),
    _fixed: (_pair, _window),
}
