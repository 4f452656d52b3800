"""What goes wrong with the real NxDI without a word goes wrong with the golden one, too."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from charts.offline import generate_command
from experiment.runtimes import medusa_tree
from experiment.variants import Variant
from rehearsal.offline.nxdi.benchmark import benchmark_sampling
from rehearsal.offline.nxdi.device import Truth
from rehearsal.offline.nxdi.flags import parse
from rehearsal.offline.nxdi.generation import (
    HuggingFaceGenerationAdapter,
    get_generate_outputs_from_token_ids,
)
from rehearsal.offline.nxdi.medusa import MEDUSA_UTILS
from rehearsal.offline.nxdi.model import Model
from rehearsal.offline.nxdi.tokenizer import Tokenizer
from rehearsal.offline.offline import truths
from tests.rehearsal.offline.generating import pair

MOST: Final = 120
NEVER_AN_ID: Final = -1


class Loaded:
    """The models of a variant, and what they did."""

    def __init__(self, variant: Variant, folder: Path) -> None:
        for name, text in medusa_tree.files().items():
            (folder / name).write_text(text)
        words = [word.replace("/scripts", str(folder)) for word in generate_command(variant)]
        self.arguments = parse(words[1:])
        self._record = folder / "steps.jsonl"
        known = truths(variant.experiment)[variant.name]
        self.truth: Truth = replace(
            known, speed=1e6, otherwise=0.95, by_text={}, record=str(self._record)
        )
        self.model = Model(self.arguments, self.truth)
        self.draft = (
            Model(self.arguments, self.truth, draft=True) if variant.mode == "vanilla" else None
        )
        self.tokenizer = Tokenizer.of(self.arguments.model_path)

    def encoded(self) -> Mapping[str, Any]:
        """A prompt."""
        if self.tokenizer.chat_template is None:
            return self.tokenizer("USER: Say it. ASSISTANT:", return_tensors="pt")
        messages = [{"role": "user", "content": "Say it."}]
        found: Mapping[str, Any] = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        return found

    def generate(self, *, mask: bool = True, **others: Any) -> None:
        """Answers it."""
        encoded = self.encoded()
        get_generate_outputs_from_token_ids(
            self.model,
            encoded["input_ids"],
            self.tokenizer,
            attention_mask=encoded["attention_mask"] if mask else None,
            draft_model=self.draft,
            generation_config=SimpleNamespace(eos_token_id=self.tokenizer.ends),
            max_new_tokens=MOST,
            **others,
        )

    @property
    def longest_step(self) -> int:
        """Of the last answer, in tokens."""
        steps: list[int] = json.loads(self._record.read_text().splitlines()[-1])
        return max(steps)


@pytest.fixture
def vanilla(tmp_path: Path) -> Loaded:
    return Loaded(pair("vanilla")[1], tmp_path)


@pytest.fixture
def medusa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """With the candidates that it was compiled with."""
    topk = SimpleNamespace(TOPK=medusa_tree.CANDIDATES)
    monkeypatch.setitem(sys.modules, MEDUSA_UTILS, topk)
    loaded = Loaded(pair("medusa")[1], tmp_path)
    loaded.model.neuron_config.max_new_tokens = MOST
    return loaded


def test_a_mask_of_one_s_own_has_gaps_in_which_drafts_are_lost(vanilla: Loaded) -> None:
    vanilla.generate()
    assert vanilla.longest_step == 7
    vanilla.generate(mask=False)
    assert vanilla.longest_step == 1


def test_a_draft_that_is_not_reset_drafts_for_another_prompt(vanilla: Loaded) -> None:
    assert vanilla.draft is not None
    assistant = HuggingFaceGenerationAdapter(vanilla.draft)
    assistant.generation_config.num_assistant_tokens = 7
    for longest in (7, 1):
        HuggingFaceGenerationAdapter(vanilla.model).generate(
            vanilla.encoded()["input_ids"],
            attention_mask=vanilla.encoded()["attention_mask"],
            generation_config=SimpleNamespace(eos_token_id=[]),
            assistant_model=assistant,
            max_new_tokens=MOST,
        )
        assert vanilla.longest_step == longest


def test_transformers_own_number_of_drafts_fits_no_graph(vanilla: Loaded) -> None:
    assert vanilla.draft is not None
    with pytest.raises(AttributeError, match="token_generation_model"):
        HuggingFaceGenerationAdapter(vanilla.model).generate(
            vanilla.encoded()["input_ids"],
            attention_mask=vanilla.encoded()["attention_mask"],
            generation_config=SimpleNamespace(eos_token_id=[]),
            assistant_model=HuggingFaceGenerationAdapter(vanilla.draft),
            max_new_tokens=MOST,
        )


def test_an_end_that_is_none_ends_vanilla_with_an_error(vanilla: Loaded) -> None:
    with pytest.raises(TypeError):
        vanilla.generate(eos_token_id=None)


def test_a_prompt_longer_than_its_graph_is_refused(vanilla: Loaded) -> None:
    vanilla.model.neuron_config.max_context_length = 3
    with pytest.raises(ValueError, match="longer than max_context_length"):
        vanilla.generate()


def test_medusa_drafts_as_deep_as_its_tree(medusa: Loaded) -> None:
    medusa.generate(eos_token_id=NEVER_AN_ID)
    assert medusa.longest_step == 5


def test_another_stride_of_candidates_spoils_all_but_the_first_head(
    medusa: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MEDUSA_UTILS, SimpleNamespace(TOPK=10))
    medusa.generate(eos_token_id=NEVER_AN_ID)
    assert medusa.longest_step == 2


@pytest.mark.parametrize("end", [[2, 3], None, []])
def test_medusa_takes_one_end_only(medusa: Loaded, end: Any) -> None:
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        medusa.generate(eos_token_id=end)


def test_medusa_takes_an_end_for_a_count(medusa: Loaded) -> None:
    medusa.model.truth = replace(medusa.truth, otherwise=0.0)
    encoded = medusa.encoded()
    outputs, _ = get_generate_outputs_from_token_ids(
        medusa.model,
        encoded["input_ids"],
        medusa.tokenizer,
        attention_mask=encoded["attention_mask"],
        draft_model=medusa.model,
        generation_config=SimpleNamespace(eos_token_id=2),
    )
    assert outputs.shape[1] == encoded["input_ids"].shape[1] + 2


def test_medusa_has_no_benchmark_of_its_own(medusa: Loaded, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        benchmark_sampling(
            medusa.model,
            medusa.model,
            SimpleNamespace(eos_token_id=2),
            str(tmp_path / "report.json"),
        )


def test_a_tree_of_another_size_than_its_graph(medusa: Loaded) -> None:
    medusa.arguments.medusa_speculation_length -= 1
    medusa.model = Model(medusa.arguments, medusa.truth)
    medusa.model.neuron_config.max_new_tokens = MOST
    with pytest.raises(AttributeError, match="token_generation_model"):
        medusa.generate(eos_token_id=NEVER_AN_ID)


def test_medusa_samples_on_the_device(medusa: Loaded) -> None:
    medusa.arguments.on_device_sampling = False
    with pytest.raises(AssertionError, match="on-device sampling"):
        Model(medusa.arguments, medusa.truth)


def test_an_artifact_that_is_not_there(vanilla: Loaded, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"model\.pt"):
        vanilla.model.load(str(tmp_path))
