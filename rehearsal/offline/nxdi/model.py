"""Models as ``inference_demo`` loads them: graphs by their mode, a cache, a configuration."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from rehearsal.golden import answers, wire
from rehearsal.offline.nxdi.device import Device, Truth
from rehearsal.offline.nxdi.graphs import Graph
from rehearsal.offline.nxdi.tensor import Tensor
from rehearsal.offline.nxdi.tokenizer import END, END_OF_TURN, VOCABULARY

GLOBAL_TOPK: Final = 256
"""How many candidates a device samples from, if nothing else is said (``models/config.py``)."""

_FOR_EVER: Final = 3600
_FORMED: Final = 64
"""Tokens of an answer that has a form, and so an end."""


def neuron_config(arguments: argparse.Namespace) -> SimpleNamespace:
    """What the command line makes of it (``create_neuron_config``, ``models/config.py``)."""
    length = arguments.seq_len
    context = arguments.max_context_length or length
    sampling = SimpleNamespace(global_topk=arguments.global_topk or GLOBAL_TOPK)
    return SimpleNamespace(
        batch_size=arguments.batch_size or 1,
        max_batch_size=arguments.batch_size or 1,
        seq_len=length,
        max_length=length,
        max_context_length=context,
        max_new_tokens=arguments.max_new_tokens or length - context or None,
        speculation_length=arguments.speculation_length or 0,
        enable_fused_speculation=arguments.enable_fused_speculation,
        is_medusa=arguments.is_medusa,
        num_medusa_heads=arguments.num_medusa_heads or 0,
        medusa_speculation_length=arguments.medusa_speculation_length or 0,
        medusa_tree=arguments.medusa_tree,
        on_device_sampling_config=sampling if arguments.on_device_sampling else None,
        padding_side=arguments.padding_side or "right",
    )


def answer_to(ids: list[int], most: int) -> list[int]:
    """The tokens that the target answers a prompt with, however it decodes; ``most`` at least.

    An answer with a form has an end, the one of the prompt's own form. Anything may come after it.
    """
    body = {"prompt": VOCABULARY.text(ids)}
    formed = answers.reply(body, _FORMED)
    if formed.finish != "stop":
        return [VOCABULARY.id(text) for text in answers.reply(body, most).tokens]
    turn = VOCABULARY.id(END_OF_TURN)
    end = turn if turn in ids else VOCABULARY.id(END)
    after = [VOCABULARY.id(wire.words(index, 1)) for index in range(most)]
    return [*map(VOCABULARY.id, formed.tokens), end, *after]


class Model:
    """A target or a draft. Its cache is filled by a prefill and emptied by ``reset``."""

    def __init__(self, arguments: argparse.Namespace, truth: Truth, *, draft: bool = False) -> None:
        self.neuron_config = neuron_config(arguments)
        self.config = SimpleNamespace(neuron_config=self.neuron_config)
        self.on_device_sampling = self.neuron_config.on_device_sampling_config is not None
        self.kv_cache_populated = False
        self.truth, self.device = truth, Device()
        self.timed = True
        """Whether its passes take time."""
        self.asked: Counter[str] = Counter()
        if draft:
            self.neuron_config.speculation_length = 0
        self._check()
        self.decoding = truth.decoding(self.drafts)
        self.context_encoding_model = Graph("context_encoding_model", None, self._prefill)
        name, width = self._generation()
        self._generation_model = Graph(name, width, self._step)
        setattr(self, name, self._generation_model)

    def get_generation_model(self) -> Graph:
        """The graph that decodes in the model's mode."""
        return self._generation_model

    @property
    def drafts(self) -> int:
        """Drafts that a step verifies: with Medusa, the depth of its tree."""
        config = self.neuron_config
        if config.is_medusa:
            return max(len(path) for path in config.medusa_tree)
        return max(0, int(config.speculation_length) - 1)

    def load(self, folder: str) -> None:
        """Raises FileNotFoundError where the artifact is not there."""
        for part in ("model.pt", "weights"):
            if not (Path(folder) / part).exists():
                raise FileNotFoundError(f"{folder}/{part}")

    def reset(self) -> None:
        """Forgets the prompt."""
        self.kv_cache_populated = False

    def prefill(self, tokens: Tensor, mask: Tensor) -> None:
        """Reads a prompt. Raises ValueError where it is too long."""
        length, most = tokens.shape[1], self.neuron_config.max_context_length
        if length > most:
            raise ValueError(
                f"Inputs supplied ({length}) are longer than max_context_length ({most})."
            )
        self.context_encoding_model(tokens, mask, Tensor([[*range(length)]]))
        self.kv_cache_populated = True

    def note(self, steps: Sequence[int]) -> None:
        """Writes down what an answer came in, unless nobody waited for it."""
        if self.timed:
            self.truth.note(steps)

    def step(self, mask: Tensor, positions: range | list[int]) -> None:
        """Runs the graph of the mode."""
        self._generation_model(Tensor([[0] * len(positions)]), mask, Tensor([[*positions]]))

    def _generation(self) -> tuple[str, int]:
        config = self.neuron_config
        if config.is_medusa:
            return "medusa_speculation_model", config.medusa_speculation_length
        if config.speculation_length:
            return "speculation_model", config.speculation_length
        return "token_generation_model", 1

    def _check(self) -> None:
        """What NxDI wants of a configuration with Medusa. Raises AssertionError or IndexError."""
        config = self.neuron_config
        if not config.is_medusa:
            return
        assert self.on_device_sampling, "Medusa needs on-device sampling"
        if self.drafts > config.num_medusa_heads:
            raise IndexError(f"the tree is {self.drafts} deep, of {config.num_medusa_heads} heads")

    def _prefill(self) -> None:
        if self.truth.hangs_after is not None and self.asked.total() > self.truth.hangs_after:
            time.sleep(_FOR_EVER)
        self.device.begin()
        self.device.run(self.decoding.prefill_seconds / self.decoding.speed)

    def _step(self) -> None:
        """Target and drafts of one step, whose length is that of a golden endpoint's."""
        self.device.run(self.decoding.step_seconds())
