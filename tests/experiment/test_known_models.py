"""What is known of models: figures that fit together, and the revisions they are of."""

from __future__ import annotations

import re

import pytest

from experiment.known_models import KNOWN_MODELS, REVISIONS, Model, ModelKind


@pytest.mark.parametrize("model", KNOWN_MODELS)
def test_a_model_fits_its_family_and_a_head_the_target_that_it_was_trained_for(model: str) -> None:
    known = KNOWN_MODELS[model]
    if commit := REVISIONS.get(model):
        assert Model(id=model, revision=commit).known is known
    for family, vocabulary in {"qwen3": 151936, "llama": 128256}.items():
        if re.search(family, model, re.IGNORECASE):
            assert known.vocabulary == vocabulary
    fixed = known.kind in (ModelKind.DFLASH_DRAFT, ModelKind.MEDUSA_HEADS)
    assert (known.drafts is not None) is fixed
    assert (known.trained_for is None) is (known.kind is ModelKind.CAUSAL_LM)
    if known.trained_for:
        target = KNOWN_MODELS[known.trained_for]
        assert target.kind is ModelKind.CAUSAL_LM
        assert (known.hidden, known.vocabulary) == (target.hidden, target.vocabulary)
        assert known.max_length <= target.max_length
        assert known.checkpoint_gib < target.checkpoint_gib / 5
