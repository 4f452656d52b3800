"""What is known of models: figures that fit together, and the revisions they are of."""

from __future__ import annotations

import re

import pytest

from experiment.known_models import KNOWN_MODELS, REVISIONS, Model, ModelKind

MODELS = pytest.mark.parametrize("model", KNOWN_MODELS)
HEADS = [name for name, its in KNOWN_MODELS.items() if its.kind is not ModelKind.CAUSAL_LM]


@pytest.mark.parametrize("model", REVISIONS)
def test_a_revision_is_a_commit_of_a_known_model_and_says_where_it_was_read(model: str) -> None:
    revision = REVISIONS[model]
    named = Model(id=model, revision=revision.commit)
    assert named.known is KNOWN_MODELS[model]
    assert revision.read.startswith(("https://huggingface.co/", "public repositories"))


@pytest.mark.parametrize("head", HEADS)
def test_a_head_fits_the_target_that_it_was_trained_for(head: str) -> None:
    its = KNOWN_MODELS[head]
    assert its.trained_for is not None
    target = KNOWN_MODELS[its.trained_for]
    assert target.kind is ModelKind.CAUSAL_LM
    assert (its.hidden, its.vocabulary) == (target.hidden, target.vocabulary)
    assert its.max_length <= target.max_length
    assert its.checkpoint_gib < target.checkpoint_gib / 5


@pytest.mark.parametrize("head", HEADS)
def test_training_fixes_the_drafts_of_some_kinds(head: str) -> None:
    its = KNOWN_MODELS[head]
    fixed = its.kind in (ModelKind.DFLASH_DRAFT, ModelKind.MEDUSA_HEADS)
    assert (its.drafts is not None) is fixed


@MODELS
def test_models_of_one_name_and_size_have_one_vocabulary(model: str) -> None:
    its = KNOWN_MODELS[model]
    if re.search("qwen3", model, re.IGNORECASE):
        assert its.vocabulary == 151936
    elif re.search("llama", model, re.IGNORECASE):
        assert its.vocabulary == 128256
