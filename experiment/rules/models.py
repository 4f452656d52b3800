"""Rules on the runtime, and on the models that the variants decode with.

Also on what the training of a head has fixed: how it computes, and how many drafts it makes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

from experiment.architecture import Architecture, ModelKind
from experiment.errors import ABSENT, Refusal, shown
from experiment.known_models import KNOWN_MODELS, Model
from experiment.rules.listed_or_swept import names_distinct, one_way
from experiment.rules.rule import Refusals, Rule
from experiment.runtimes import RUNTIMES, ModeSupport, runtimes_serving, serving_in_words
from experiment.schema import Experiment
from experiment.speculation import Fields, Speculation
from experiment.variants import variants


def _runtime(experiment: Experiment) -> Refusals:
    if experiment.runtime not in RUNTIMES:
        yield Refusal("runtime", experiment.runtime, f"must be one of {', '.join(RUNTIMES)}")


def mode_served(experiment: Experiment) -> Refusals:
    """The runtime serves each mode."""
    runtime = experiment.serving_runtime
    for speculation, place in experiment.placed:
        mode = speculation.mode
        if mode not in runtime.modes:
            able = serving_in_words(mode)
            elsewhere = f"{mode} is served by {able}" if able else f"no runtime serves {mode}"
            yield Refusal(
                place.mode,
                str(mode),
                f"runtime {runtime.name} serves {', '.join(runtime.modes)}; {elsewhere}",
            )


def speculating(experiment: Experiment) -> Iterator[tuple[Speculation, Fields, ModeSupport]]:
    """Each speculation with its place in the file, and how the runtime serves its mode."""
    modes = experiment.serving_runtime.modes
    for speculation, place in experiment.placed:
        yield speculation, place, modes[speculation.mode]


def drafted(experiment: Experiment) -> Iterator[tuple[Speculation, str, Model]]:
    """Each speculation that has a draft, with the draft and its place in the file."""
    for speculation, place, support in speculating(experiment):
        draft = speculation.draft or experiment.models.draft
        if support.draft and draft:
            yield speculation, place.draft or "models.draft", draft


def _draft(experiment: Experiment) -> Refusals:
    for speculation, place, support in speculating(experiment):
        if support.draft and not (speculation.draft or experiment.models.draft):
            yield Refusal(
                "models.draft",
                None,
                f"is required: mode {speculation.mode} needs a draft of kind {support.draft}",
            )
        if place.draft and speculation.draft and not support.draft:
            yield Refusal(
                place.draft, speculation.draft.id, f"mode {speculation.mode} takes no draft"
            )


def models_of(experiment: Experiment) -> Iterator[tuple[str, str, Model]]:
    """Field, role and model of each model in the file."""
    yield "models.target", "target", experiment.models.target
    if experiment.models.draft:
        yield "models.draft", "draft", experiment.models.draft
    for speculation, place in experiment.placed:
        if place.draft and speculation.draft:
            yield place.draft, "draft", speculation.draft


def models_known(experiment: Experiment) -> Refusals:
    """The architecture of each model is known, and is the model's own."""
    for place, _, model in models_of(experiment):
        field = f"{place}.architecture"
        known = KNOWN_MODELS.get(model.id)
        if known is None and model.architecture is None:
            yield Refusal(
                field,
                None,
                f"is required, since {model.id} is not known here{_close(model.id)}; python -m "
                "experiment add-model FOLDER prints it",
            )
        if known is None or model.architecture is None:
            continue
        # The parser is the server's, and the user's choice; of some heads nobody saw the norm.
        free = {"tool_parser"}
        if known.norm_before_residual is None:
            free.add("norm_before_residual")
        for figure, value in known:
            if figure not in model.architecture.model_fields_set - free:
                continue
            given = getattr(model.architecture, figure)
            if given != value:
                yield Refusal(
                    f"{field}.{figure}",
                    given,
                    f"must be {shown(value)}, as in {model.id}; architecture can be left out",
                )


def _close(model: str) -> str:
    """The known model that ``model`` probably misspells, as a question."""
    known = {name.lower(): name for name in KNOWN_MODELS}
    longer = [name for name in known if name.startswith(model.lower())]
    close = longer or difflib.get_close_matches(model.lower(), known, n=1, cutoff=0.8)
    return f" (did you mean {known[close[0]]}?)" if close else ""


def _family(experiment: Experiment) -> Refusals:
    target = experiment.models.target
    for speculation, _, support in speculating(experiment):
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
    for speculation, field, draft in drafted(experiment):
        needed = experiment.serving_runtime.modes[speculation.mode].draft
        if draft.known.kind is not needed:
            yield Refusal(
                field,
                draft.id,
                f"is of kind {draft.known.kind}; mode {speculation.mode} needs {needed}",
            )


def pair(experiment: Experiment) -> Refusals:
    """A draft is one for the target."""
    target, runtime = experiment.models.target, experiment.serving_runtime
    for _, field, model in drafted(experiment):
        whys = mismatches(model.known, target.id, target.known, one_family=runtime.one_family)
        yield from (Refusal(field, model.id, why) for why in whys)


def mismatches(
    draft: Architecture, target_id: str, target: Architecture, *, one_family: bool
) -> Iterator[str]:
    """What keeps ``draft`` from drafting for ``target``, which is named ``target_id``.

    The layers of published heads are not always of their target's family: those for Qwen3 by EAGLE3
    are Llama's, and those for Llama by DFlash are Qwen3's.
    """
    if draft.trained_for not in (None, target_id):
        yield f"is trained for {draft.trained_for}; must be for the target, {target_id}"
        return  # what else differs follows from this
    if draft.vocabulary != target.vocabulary:
        yield f"has a vocabulary of {draft.vocabulary}; must be the target's, {target.vocabulary}"
    if one_family and draft.family != target.family:
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


def _distinct(experiment: Experiment) -> Refusals:
    """Two variants of one artifact would be compiled into one place, and compare nothing."""
    if experiment.sweep:  # lists nothing twice
        return
    fields = {s.name: f"speculation[{i}].name" for i, s in enumerate(experiment.speculations)}
    first: dict[str, str] = {}
    for variant in variants(experiment):
        other = first.setdefault(variant.artifact, variant.name)
        if other != variant.name:
            yield Refusal(
                fields[variant.name],
                variant.name,
                f"has the mode, window, draft and batch of {other}; must differ in one of them",
            )


def window(experiment: Experiment) -> Refusals:
    """The runtime takes as many tokens in the mode."""
    for speculation, place, support in speculating(experiment):
        given, most = speculation.num_speculative_tokens, support.maximum_tokens
        if given < support.minimum_tokens:
            yield Refusal(
                place.window,
                given,
                f"must be at least {support.minimum_tokens}: NxDI verifies a window of k positions "
                "with k - 1 draft tokens",
            )
        if most is not None and given > most:
            yield Refusal(
                place.window,
                given,
                f"must be at most {most}, the depth of {speculation.mode}'s tree",
            )


def _cores(experiment: Experiment) -> Refusals:
    given = experiment.serving.tensor_parallel
    for speculation, _, support in speculating(experiment):
        if support.tensor_parallel is not None and given not in support.tensor_parallel:
            able = " or ".join(map(str, support.tensor_parallel))
            yield Refusal(
                "serving.tensor_parallel", given, f"must be {able} in mode {speculation.mode}"
            )


def _length(experiment: Experiment) -> Refusals:
    runtime, length = experiment.serving_runtime, experiment.serving.length
    if runtime.lengths is not None and length not in runtime.lengths:
        able = ", ".join(map(str, runtime.lengths))
        yield Refusal("serving.length", length, f"runtime {runtime.name} compiles for {able}")


def _norms(experiment: Experiment) -> Refusals:
    """Some EAGLE3 heads compute something that NxDI does not, and would draft badly in silence."""
    if experiment.serving_runtime.takes_norm_before_residual:
        return
    for speculation, field, model in drafted(experiment):
        if model.known.norm_before_residual:
            served = runtimes_serving(speculation.mode)
            able = [name for name in served if RUNTIMES[name].takes_norm_before_residual]
            yield Refusal(
                field,
                model.id,
                "has norm_before_residual, which NxDI does not compute; "
                f"{' or '.join(able)} serves it as it is",
            )


def _fixed(experiment: Experiment) -> Refusals:
    """Training fixes how many drafts a DFlash draft makes, and how many heads Medusa has."""
    for speculation, place, support in speculating(experiment):
        draft = speculation.draft or experiment.models.draft
        if draft is None:
            continue
        if draft.known.drafts is None:
            if draft.known.kind is ModelKind.DFLASH_DRAFT:
                yield Refusal(
                    f"{place.draft or 'models.draft'}.architecture.drafts",
                    ABSENT,
                    f"is required of a {draft.known.kind}: block_size - 1 of its config.json",
                )
            continue
        given, drafts = speculation.num_speculative_tokens, draft.known.drafts
        fixed = drafts + support.kept
        at_most = "" if draft.known.kind is ModelKind.DFLASH_DRAFT else "at most "
        if given > fixed or (given < fixed and not at_most):
            yield Refusal(
                place.window,
                given,
                f"must be {at_most}{fixed}: {draft.id} makes {at_most}{drafts} drafts in a step",
            )


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _runtime: (),
    mode_served: (_runtime, one_way),
    _draft: (mode_served,),
    models_known: (),
    _family: (mode_served, models_known),
    _kinds: (_family, _draft),
    pair: (_kinds,),
    _distinct: (names_distinct, _draft, models_known),
    window: (mode_served,),
    _cores: (mode_served,),
    _length: (mode_served,),
    _norms: (pair,),
    _fixed: (pair, window),
}
