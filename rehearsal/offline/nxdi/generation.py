"""Generates as ``utils/hf_adapter.py`` does: plainly, with a draft model, or with Medusa's heads.

Each ends where the real one ends, which is not always where it was asked to, and each drafts badly
where the real one would: with a draft that was not reset, with a gap in the attention mask.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

from rehearsal.offline.nxdi import medusa
from rehearsal.offline.nxdi.model import Model, answer_to
from rehearsal.offline.nxdi.tensor import Tensor
from rehearsal.offline.nxdi.tokenizer import VOCABULARY, Tokenizer

_NUM_ASSISTANT_TOKENS: Final = 20
"""transformers' own, of which no graph of NxDI knows anything."""


class HuggingFaceGenerationAdapter:
    """What transformers sees of a model."""

    def __init__(self, model: Model) -> None:
        self.neuron_model = model
        self.generation_config = SimpleNamespace(num_assistant_tokens=_NUM_ASSISTANT_TOKENS)

    def generate(
        self,
        input_ids: Tensor,
        *,
        attention_mask: Tensor,
        generation_config: Any,
        assistant_model: HuggingFaceGenerationAdapter | None = None,
        max_new_tokens: int | None = None,
        max_length: int | None = None,
        **others: Any,
    ) -> Tensor:
        """Tokens of the prompt and of its answer, in one row. It forgets the target's last prompt,
        and not the draft's."""
        model = self.neuron_model
        model.reset()
        ids = input_ids.row
        most = max_new_tokens if max_new_tokens is not None else (max_length or 20) - len(ids)
        end = others.get("eos_token_id", generation_config.eos_token_id)
        job = _Generation(model, ids, attention_mask, most, end)
        if model.neuron_config.is_medusa:
            return Tensor([[*ids, *medusa.answer(model, ids, attention_mask, end, job.accepted)]])
        if assistant_model is None:
            return Tensor([[*ids, *job.plain()]])
        return Tensor([[*ids, *job.with_draft(assistant_model)]])


class _Generation:
    """One answer."""

    def __init__(self, model: Model, ids: list[int], mask: Tensor, most: int, end: Any) -> None:
        self._model, self._ids, self._mask, self._most = model, ids, mask, most
        self._end = [end] if isinstance(end, int) else end
        self._answer = answer_to(ids, 2 * model.neuron_config.seq_len)
        prompt = VOCABULARY.text(ids)
        self._rate = model.truth.acceptance.of(prompt)
        if not all(mask.row):
            self._rate = 0.0  # target and draft do not agree where they are
        self._chance = random.Random(repr((0, prompt, model.asked[prompt])))
        model.asked[prompt] += 1

    def accepted(self, drafts: int) -> int:
        """How many of so many drafts the target accepts."""
        count = 0
        while count < drafts and self._chance.random() < self._rate:
            count += 1
        return count

    def plain(self) -> list[int]:
        """One token a pass, up to the first that ends it."""
        ends = self._end or []
        self._model.prefill(Tensor([self._ids]), self._mask)
        done = 1
        while done < self._most and self._answer[done - 1] not in ends:
            self._model.step(self._mask, [len(self._ids) + done - 1])
            done += 1
        self._model.note([1] * done)
        return self._answer[:done]

    def with_draft(self, assistant: HuggingFaceGenerationAdapter) -> list[int]:
        """As many as the target accepts, and one more.

        It looks for an end only at a step's last token and never at the prefill's, and gives up
        where no whole window fits any more.
        """
        width = self._model.neuron_config.speculation_length
        if self._model.on_device_sampling:
            raise TypeError("'NoneType' object is not subscriptable")  # there are no logits
        if self._end is None:
            raise TypeError("'NoneType' object cannot be interpreted as an integer")
        if assistant.generation_config.num_assistant_tokens != width:
            raise AttributeError("no attribute 'token_generation_model'")
        if assistant.neuron_model.kv_cache_populated:
            self._rate = 0.0  # it drafts what follows another prompt
        self._model.prefill(Tensor([self._ids]), self._mask)
        assistant.neuron_model.kv_cache_populated = True
        done, length, steps = 1, 0, [1]
        while True:
            begin = len(self._ids) + done - 1
            self._model.step(self._mask, range(begin, begin + width))
            # The first step's drafts are those for the positions before.
            accepted = self.accepted(width - 1) if done > 1 else 0
            accepted = min(accepted, self._most - length - 1)
            new = self._answer[done : done + accepted + 1]
            new = new[: self._until_end(new)]
            done, length = done + len(new), length + len(new)
            steps.append(len(new))
            if new[-1] in self._end or self._most - length < width:
                self._model.note(steps)
                return self._answer[:done]

    def _until_end(self, new: Sequence[int]) -> int:
        """A draft stops at an end, which is then the target's own token."""
        return next((at + 1 for at, token in enumerate(new) if token in self._end), len(new))


def get_generate_outputs_from_token_ids(
    model: Model,
    token_ids: Tensor,
    tokenizer: Tokenizer,
    attention_mask: Tensor | None = None,
    is_hf: bool = False,
    draft_model: Model | None = None,
    input_capture_hook: Any = None,
    input_start_offsets: Any = None,
    **generate_kwargs: Any,
) -> tuple[Tensor, list[str]]:
    """Generates, and resets both models (``utils/accuracy.py``).

    A mask that it has to make itself has a gap wherever the prompt has an end.
    """
    if draft_model is not None:
        assistant = HuggingFaceGenerationAdapter(draft_model)
        assistant.generation_config.num_assistant_tokens = model.neuron_config.speculation_length
        generate_kwargs |= {"assistant_model": assistant, "do_sample": False}
    if attention_mask is None:
        tokenizer.pad_token_id = tokenizer.eos_token_id
        attention_mask = Tensor([[int(i != tokenizer.pad_token_id) for i in token_ids.row]])
    outputs = HuggingFaceGenerationAdapter(model).generate(
        token_ids, attention_mask=attention_mask, **generate_kwargs
    )
    model.reset()
    if draft_model is not None:
        draft_model.reset()
    return outputs, tokenizer.batch_decode(outputs, skip_special_tokens=True)
