"""Makes an EAGLE3 head for a pair's target: ``python -m rehearsal.vllm.head FOLDER CASES PAIR``.

It runs in vLLM's environment. The head is a decoder layer. At each place of the text it gets the
embedding of the token there, and what three layers of the target made of the place before; it says
the token after. For its next drafts it gets what it made itself in the target's stead, and so it is
trained on that, too.

The target's further blocks are identities, so its three layers say what the draft's block does, and
the target need not run. Names of tensors and the order of the sums are those that vLLM 0.32.0 loads
(``vllm/model_executor/models/llama_eagle3.py``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm
from transformers import AutoTokenizer, LlamaConfig, Qwen3ForCausalLM

from rehearsal.vllm.build import SEED, batches
from rehearsal.vllm.corpus import Case

WINDOW: Final = 3
"""Drafts in a row that it is trained for. Trained for two, it had hardly a fourth accepted."""
_LATER: Final = 0.8
"""What a draft counts, of the one before it."""

STEPS: Final = 120
"""With 200, hardly more of its drafts are accepted."""
BATCH: Final = 4
RATE: Final = 1.5e-3
_WARM_UP: Final = 20

_SPREAD: Final = 0.02
"""Standard deviation of what has nothing better to begin with."""

Weights = dict[str, Tensor]
"""By the names of a published head's tensors."""
Keys = tuple[Tensor, Tensor]
"""Keys and values, each of shape (texts, heads, tokens, size of a head)."""


def _first(config: LlamaConfig, draft: Qwen3ForCausalLM) -> Weights:
    """What training begins with: of the draft, its norm and its output head."""
    hidden, inner = config.hidden_size, config.intermediate_size
    heads, groups = (
        number * config.head_dim
        for number in (config.num_attention_heads, config.num_key_value_heads)
    )
    drawn = {
        "self_attn.q_proj": (heads, 2 * hidden),
        "self_attn.k_proj": (groups, 2 * hidden),
        "self_attn.v_proj": (groups, 2 * hidden),
        "self_attn.o_proj": (hidden, heads),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    weights = {
        "fc": torch.eye(hidden).repeat(1, 3) / 3,
        **{f"midlayer.{name}": _SPREAD * torch.randn(shape) for name, shape in drawn.items()},
        **{f"midlayer.{name}": torch.ones(hidden) for name in norms},
        "norm": draft.model.norm.weight.detach().clone(),
        "lm_head": draft.lm_head.weight.detach().clone(),
    }
    return {f"{name}.weight": value.requires_grad_() for name, value in weights.items()}


class _Head:
    """A head as it drafts: what its weights make of a text."""

    def __init__(self, config: LlamaConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights

    def losses(self, embeddings: Tensor, of_target: Tensor, labels: Tensor) -> list[Tensor]:
        """One for each draft in a row.

        ``embeddings`` of the tokens, and what the three layers made of each, ``of_target``, have
        the shape (texts, tokens, numbers).
        """
        length = labels.shape[1] - 1 - WINDOW
        hidden, found = self._linear("fc", of_target[:, :length]), []
        earlier: list[Keys] = []
        for draft in range(WINDOW):
            ahead = slice(draft + 1, draft + 1 + length)
            hidden = self._layer(
                embeddings[:, ahead], hidden, torch.arange(length) + draft, earlier
            )
            logits = self._linear("lm_head", self._norm("norm", hidden))
            expected = labels[:, draft + 2 : draft + 2 + length]
            found.append(functional.cross_entropy(logits.flatten(0, 1), expected.flatten()))
        return found

    def _layer(
        self, embeddings: Tensor, hidden: Tensor, positions: Tensor, earlier: list[Keys]
    ) -> Tensor:
        both = (
            self._norm("midlayer.input_layernorm", embeddings),
            self._norm("midlayer.hidden_norm", hidden),
        )
        hidden = hidden + self._attention(torch.cat(both, -1), positions, earlier)
        at = self._norm("midlayer.post_attention_layernorm", hidden)
        gate = functional.silu(self._linear("midlayer.mlp.gate_proj", at))
        inner = gate * self._linear("midlayer.mlp.up_proj", at)
        return hidden + self._linear("midlayer.mlp.down_proj", inner)

    def _attention(self, at: Tensor, positions: Tensor, earlier: list[Keys]) -> Tensor:
        """``earlier`` has the keys and values of the drafts before, and gets this one's.

        A token sees those before it as the target left them, and of the drafts only its own.
        """
        query, key, value = (
            self._linear(f"midlayer.self_attn.{name}_proj", at)
            .unflatten(2, (-1, self.config.head_dim))
            .transpose(1, 2)
            for name in "qkv"
        )
        query = self._turned(query, positions)
        repeats = query.shape[1] // key.shape[1]
        earlier.append(
            (
                self._turned(key, positions).repeat_interleave(repeats, 1),
                value.repeat_interleave(repeats, 1),
            )
        )
        (keys, values), *own = earlier
        length = at.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = (query @ keys.transpose(2, 3)).masked_fill(future, -torch.inf)
        alone = [(query * one).sum(-1, keepdim=True) for one, _ in own]
        shares = (torch.cat([scores, *alone], -1) * self.config.head_dim**-0.5).softmax(-1)
        seen = shares[..., :length] @ values
        for number, (_, one) in enumerate(own, start=length):
            seen = seen + shares[..., number : number + 1] * one
        return self._linear("midlayer.self_attn.o_proj", seen.transpose(1, 2).flatten(2))

    def _turned(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """Rotary position embedding: one half of a vector's numbers with the other."""
        half = self.config.head_dim // 2
        speeds = float(self.config.rope_parameters["rope_theta"]) ** (-torch.arange(half) / half)
        cos, sin = (turn(positions[:, None] * speeds) for turn in (torch.cos, torch.sin))
        first, second = vectors.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def _linear(self, name: str, of: Tensor) -> Tensor:
        return functional.linear(of, self.weights[f"{name}.weight"])

    def _norm(self, name: str, of: Tensor) -> Tensor:
        weight = self.weights[f"{name}.weight"]
        return functional.rms_norm(of, weight.shape, weight, self.config.rms_norm_eps)


def main() -> int:
    """Trains the head and writes it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="head")
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", type=Path, help="as of rehearsal.vllm.build")
    parser.add_argument("pair", type=Path)
    arguments = parser.parse_args()
    cases = [Case(*case) for case in json.loads(arguments.cases.read_bytes())]
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(arguments.pair / "draft")
    draft = Qwen3ForCausalLM.from_pretrained(arguments.pair / "draft", dtype=torch.float32).eval()
    config = _config(draft)
    weights = _first(config, draft)
    _train(_Head(config, weights), draft, islice(batches(tokenizer, cases, BATCH), STEPS))
    folder = arguments.folder
    folder.mkdir(parents=True)
    save_file(
        {name: value.detach() for name, value in weights.items()}, folder / "model.safetensors"
    )
    config.save_pretrained(folder)
    return 0


def _config(draft: Qwen3ForCausalLM) -> LlamaConfig:
    like = draft.config
    return LlamaConfig(
        architectures=["LlamaForCausalLMEagle3"],
        vocab_size=like.vocab_size,
        draft_vocab_size=like.vocab_size,
        hidden_size=like.hidden_size,
        intermediate_size=like.intermediate_size,
        num_hidden_layers=1,
        num_attention_heads=like.num_attention_heads,
        num_key_value_heads=like.num_key_value_heads,
        head_dim=like.head_dim,
        max_position_embeddings=like.max_position_embeddings,
        rms_norm_eps=like.rms_norm_eps,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=like.eos_token_id,
        dtype="float32",
    )


def _train(head: _Head, draft: Qwen3ForCausalLM, of_text: Iterable[tuple[Tensor, Tensor]]) -> None:
    """``of_text`` has tokens and labels, as ``batches`` yields them."""
    optimizer = torch.optim.AdamW(
        head.weights.values(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=STEPS, pct_start=_WARM_UP / STEPS
    )
    made: list[Tensor] = []
    draft.model.layers[-1].register_forward_hook(
        lambda _, __, output: made.append(output if isinstance(output, Tensor) else output[0])
    )
    with tqdm(total=STEPS, desc="train the head", unit="step", file=sys.stderr) as bar:
        for tokens, labels in of_text:
            with torch.no_grad():
                embeddings = draft.model.embed_tokens(tokens)
                draft.model(input_ids=tokens)
            losses = head.losses(embeddings, made.pop().repeat(1, 1, 3), labels)
            loss = sum(_LATER**number * one for number, one in enumerate(losses))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(head.weights.values(), 1.0)
            optimizer.step()
            schedule.step()
            bar.set_postfix(loss=" ".join(f"{one.item():.3f}" for one in losses))
            bar.update()


if __name__ == "__main__":
    sys.exit(main())
