"""Makes the model pair: ``python -m rehearsal.vllm.build FOLDER CASES``, in vLLM's environment.

The draft is trained; the target is the draft with more blocks, which begin as identities and are
perturbed a little, as is its output head. So the target costs a multiple of the draft, agrees with
it where one token is far likelier than all others, and parts from it where many are about equally
likely.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rehearsal.vllm.corpus import BEGIN, END, TEMPLATE, Case, conversations

SEED: Final = 20260521

VOCABULARY: Final = 1024
HIDDEN: Final = 384
HEAD: Final = 64
DRAFT_LAYERS: Final = 1
TARGET_LAYERS: Final = 64
CONTEXT: Final = 2048

BLOCK_PERTURBATION: Final = 0.01
"""Standard deviation of what the extra blocks write with, which is 0 in an identity."""
HEAD_PERTURBATION: Final = 0.007
"""Standard deviation of what is added to the output head: some 0.14 in a logit. After training the
likeliest token of open-ended text is 0.03 above the next, that of structured text 5 and more. Seen:
0.005 gave 2.0 tokens a step on open-ended text, 0.007 gives 1.3 to 1.6, 0.008 parts in counting."""

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


def main() -> int:
    """Builds ``draft`` and ``target`` in a folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="build")
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", type=Path, help="JSON: [[line or null, structured, prompts], ...]")
    arguments = parser.parse_args()
    cases = [Case(*case) for case in json.loads(arguments.cases.read_bytes())]
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    tokenizer = _tokenizer(cases)
    draft = _trained(_model(DRAFT_LAYERS, tokenizer, tied=True), tokenizer, cases)
    target = _deepened(draft, _model(TARGET_LAYERS, tokenizer, tied=False))
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
    batches = _batches(tokenizer, cases)
    with tqdm(total=steps, desc="train the draft", unit="step", file=sys.stderr) as bar:
        for tokens, labels in islice(batches, steps):
            loss = model(input_ids=tokens, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            bar.set_postfix(loss=f"{loss.item():.3f}")
            bar.update()
    return model.eval()


def _batches(
    tokenizer: PreTrainedTokenizerFast, cases: list[Case]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and labels, each of shape (BATCH, LENGTH); only answers are learnt."""
    source = conversations(cases, SEED + 1, _ANSWER_CHARACTERS)
    while True:
        tokens, labels = [], []
        for prompt, answer in islice(source, BATCH):
            # The answer must have its place: of a long prompt, its end alone is learnt from.
            asked = tokenizer.encode(prompt)[-_LONGEST_PROMPT:]
            answered = tokenizer.encode(answer)
            tokens.append((asked + answered)[:LENGTH])
            labels.append(([-100] * len(asked) + answered)[:LENGTH])
        yield torch.tensor(tokens), torch.tensor(labels)


def _deepened(draft: Qwen3ForCausalLM, target: Qwen3ForCausalLM) -> Qwen3ForCausalLM:
    """``target`` with the draft's weights, its further blocks next to identities.

    A block adds to its input what ``o_proj`` and ``down_proj`` write: zeros make an identity.
    """
    target.load_state_dict(draft.state_dict(), strict=False)
    for block in target.model.layers[DRAFT_LAYERS:]:
        for writer in (block.self_attn.o_proj, block.mlp.down_proj):
            torch.nn.init.normal_(writer.weight, std=BLOCK_PERTURBATION)
    head = target.lm_head.weight.data
    head += HEAD_PERTURBATION * torch.randn(head.shape)
    return target.eval()


if __name__ == "__main__":
    sys.exit(main())
