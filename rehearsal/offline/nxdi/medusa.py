"""Medusa: heads that draft a tree, of which the target verifies every branch in one pass.

``utils/hf_adapter.py`` (``_medusa_assisted_decoding``), and neuronx-distributed 2.26,
``utils/medusa_utils.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from rehearsal.offline.nxdi.model import Model, answer_to
from rehearsal.offline.nxdi.tensor import Tensor

MEDUSA_UTILS: Final = "neuronx_distributed.utils.medusa_utils"
"""Its ``TOPK`` is how many candidates of each head the tree counts on. A script may set it."""


def answer(
    model: Model, ids: list[int], mask: Tensor, end: Any, accepted: Callable[[int], int]
) -> list[int]:
    """The answer, which ends where the count of its tokens is the number of the end token, or when
    ``max_new_tokens`` of the configuration are exceeded. ``accepted`` says how many of so many
    drafts are.

    Raises RuntimeError for several end tokens or none, and TypeError without ``max_new_tokens``.
    """
    config = model.neuron_config
    if config.max_new_tokens is None:
        raise TypeError("'NoneType' object cannot be interpreted as an integer")
    tokens = answer_to(ids, 2 * config.seq_len)
    model.prefill(Tensor([ids]), mask)
    steps = [1]
    done = 0
    for _ in range(config.max_new_tokens):
        begin = len(ids) + done
        model.step(mask, [begin, *(begin + len(path) for path in config.medusa_tree)])
        steps.append(1 + accepted(_reached(model)))
        done += steps[-1]
        if not isinstance(end, int):
            raise RuntimeError("Tensor.__contains__ only supports Tensor or scalar")
        if done == end or done > config.max_new_tokens:
            break
    # What a step begins with came with the step before, and the last step's next never comes.
    steps[-1] -= 1
    model.note(steps)
    return tokens[:done]


def _reached(model: Model) -> int:
    """How deep drafts can be accepted: where the tree looks for candidates at another stride than
    the device has written them, all but the first head's are others."""
    sampling = model.neuron_config.on_device_sampling_config
    return (
        model.drafts
        if sampling.global_topk == sys.modules[MEDUSA_UTILS].TOPK
        else min(1, model.drafts)
    )
