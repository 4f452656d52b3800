"""Makes the model pair: ``python -m tests.vllm.build FOLDER CASES``, in vLLM's environment.

The draft is trained; the target is the draft with more blocks, which are identities, and with an
output head that is perturbed a little. So the target costs a multiple of the draft, agrees with it
where one token is far likelier than all others, and parts from it where many are about equally
likely. How often it parts there is chance: perturbations are drawn until one does it as often as it
should.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tests.vllm.corpus import BEGIN, END, TEMPLATE, Case, conversations
from tests.vllm.parting import Parting, chosen, tokens_per_step

SEED: Final = 20260521

VOCABULARY: Final = 1024
HIDDEN: Final = 384
HEAD: Final = 64
DRAFT_LAYERS: Final = 1
TARGET_LAYERS: Final = 64
CONTEXT: Final = 2048

HEAD_PERTURBATION: Final = 0.015
"""Standard deviation of what is added to the output head: some 0.3 in a logit. After training the
likeliest token of open-ended text is 0.03 above the next, that of structured text 5 and more. Seen:
0.01 gives 1.2 to 2.1 tokens a step on open-ended text, 0.015 gives 1.1 to 1.6, 0.03 gives 1.0 to
1.5, each from draw to draw; even the last does not part on structured text."""

STEPS: Final = 300
STEPS_PER_CASE: Final = 60
"""Few cases are learnt sooner."""
BATCH: Final = 8
LENGTH: Final = 288
RATE: Final = 3e-3
_LONGEST_PROMPT: Final = LENGTH // 2
_WARM_UP: Final = 30
_ANSWER_CHARACTERS: Final = 2400
_TOKENIZER_CONVERSATIONS: Final = 600
_PROMPTS_OF_A_CASE: Final = 2
"""To see how far the pair parts. Open-ended answers repeat themselves before long."""
_ANSWER: Final = 64
"""Tokens of an answer to such a prompt."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="build")
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", type=Path, help="JSON: [[line or null, structured, prompts], ...]")
    arguments = parser.parse_args()
    cases = [Case(*case) for case in json.loads(arguments.cases.read_bytes())]
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    tokenizer = _tokenizer(cases)
    draft = _trained(_model(DRAFT_LAYERS, tokenizer, tied=True), tokenizer, cases)
    head = _head(draft, tokenizer, cases)
    target = _target(draft, head, _model(TARGET_LAYERS, tokenizer, tied=False))
    for name, model in (("draft", draft), ("target", target)):
        model.save_pretrained(arguments.folder / name)
        tokenizer.save_pretrained(arguments.folder / name)
    return 0


def _tokenizer(cases: list[Case]) -> PreTrainedTokenizerFast:
    texts = islice(conversations(cases, SEED, _ANSWER_CHARACTERS), _TOKENIZER_CONVERSATIONS)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((text for pair in texts for text in pair), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=END, chat_template=TEMPLATE
    )


def _model(layers: int, tokenizer: PreTrainedTokenizerFast, *, tied: bool) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            intermediate_size=3 * HIDDEN,
            num_hidden_layers=layers,
            num_attention_heads=HIDDEN // HEAD,
            num_key_value_heads=2,
            head_dim=HEAD,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=tied,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def _trained(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, cases: list[Case]
) -> Qwen3ForCausalLM:
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.01)
    steps = min(STEPS, STEPS_PER_CASE * len(cases))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=steps, pct_start=min(0.5, _WARM_UP / steps)
    )
    with tqdm(total=steps, desc="train the draft", unit="step", file=sys.stderr) as bar:
        for tokens, labels in islice(batches(tokenizer, cases, BATCH), steps):
            loss = model(input_ids=tokens, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            bar.set_postfix(loss=f"{loss.item():.3f}")
            bar.update()
    return model.eval()


def batches(
    tokenizer: PreTrainedTokenizerFast, cases: list[Case], size: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and labels, each of shape (size, LENGTH); only answers are learnt."""
    source = conversations(cases, SEED + 1, _ANSWER_CHARACTERS)
    while True:
        tokens, labels = [], []
        for prompt, answer in islice(source, size):
            # The answer must have its place: of a long prompt, its end alone is learnt from.
            asked = tokenizer.encode(prompt)[-_LONGEST_PROMPT:]
            answered = tokenizer.encode(answer)
            tokens.append((asked + answered)[:LENGTH])
            labels.append(([-100] * len(asked) + answered)[:LENGTH])
        yield torch.tensor(tokens), torch.tensor(labels)


def _head(
    draft: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, cases: list[Case]
) -> torch.Tensor:
    """The target's output head, of shape (VOCABULARY, HIDDEN)."""
    asked = {
        structured: [
            tokenizer.encode(prompt)[-_LONGEST_PROMPT:]
            for case in cases
            if case.structured is structured
            for prompt, _ in islice(conversations([case], SEED, 1), _PROMPTS_OF_A_CASE)
        ]
        for structured in (True, False)
    }
    # Identities change nothing, so that one block with the head says what the target says. In the
    # numbers that vLLM serves both with: where tokens are about equally likely, rounding decides.
    served = copy.deepcopy(draft).bfloat16()
    target = _model(DRAFT_LAYERS, tokenizer, tied=False).bfloat16()

    def parting(number: int) -> Parting:
        _target(draft, _perturbed(draft, number).bfloat16(), target)
        steps = (
            [tokens_per_step(_agreed(served, target, prompt)) for prompt in asked[structured]]
            for structured in (True, False)
        )
        return Parting(*steps)

    number, nearest = chosen(map(parting, count()))
    print(f"draw {number} of the output head: tokens a step {nearest}")
    return _perturbed(draft, number)


def _perturbed(draft: Qwen3ForCausalLM, number: int) -> torch.Tensor:
    head = draft.lm_head.weight.data
    chance = torch.Generator().manual_seed(SEED + number)
    return head + HEAD_PERTURBATION * torch.randn(head.shape, generator=chance)


def _agreed(draft: Qwen3ForCausalLM, target: Qwen3ForCausalLM, prompt: list[int]) -> list[bool]:
    """Of each token of the target's answer but the first: whether the draft says the same."""
    with torch.inference_mode():
        answer = target.generate(
            torch.tensor([prompt]), do_sample=False, min_new_tokens=_ANSWER, max_new_tokens=_ANSWER
        )
        likeliest = draft(input_ids=answer).logits.argmax(-1)
    agreed: list[bool] = (likeliest[0, len(prompt) : -1] == answer[0, len(prompt) + 1 :]).tolist()
    return agreed


def _target(
    draft: Qwen3ForCausalLM, head: torch.Tensor, target: Qwen3ForCausalLM
) -> Qwen3ForCausalLM:
    """``target`` with the draft's weights and that head, its further blocks identities.

    A block adds to its input what ``o_proj`` and ``down_proj`` write: zeros make an identity.
    """
    target.load_state_dict(draft.state_dict(), strict=False)
    for block in target.model.layers[DRAFT_LAYERS:]:
        for writer in (block.self_attn.o_proj, block.mlp.down_proj):
            torch.nn.init.zeros_(writer.weight)
    target.lm_head.weight.data = head
    return target.eval()


if __name__ == "__main__":
    sys.exit(main())
