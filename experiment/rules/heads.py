"""Rules on what the training of a head has fixed: how it computes, and how many drafts it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiment.architecture import ModelKind
from experiment.errors import ABSENT, Refusal
from experiment.rules.models import drafted, pair, speculating, window
from experiment.rules.rule import Refusals, Rule
from experiment.runtimes import RUNTIMES, runtimes_serving
from experiment.schema import Experiment


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
    _norms: (pair,),
    _fixed: (pair, window),
}
