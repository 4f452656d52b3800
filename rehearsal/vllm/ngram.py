"""A variant of the rehearsal's own: n-gram, which takes its drafts from the text so far.

Also called prompt lookup. It needs no draft model, so no runtime on Trainium could be compiled for
it, and none serves it; the experiment file has no such mode. Beside a draft model it shows how much
of a gain is repetition.

Source: vLLM 0.32.0, ``vllm/config/speculative.py`` (method ``ngram``; ``ngram_gpu`` is a kernel for
GPUs) and ``vllm/v1/spec_decode/ngram_proposer.py``: the earliest place with the longest match of
the last tokens, and the tokens that follow it there. It is plain Python with numba.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final

from experiment.variants import Variant
from rehearsal import RehearsalError
from rehearsal.pod.manifest import Pod
from spectap import config

NAME: Final = "ngram"
"""Of the variant, and of vLLM's method."""

MATCHED: Final = (2, 4)
"""Tokens that must be there before, from and to."""

_SPECULATIVE: Final = "--speculative-config"


def beside(variant: Variant, url: str) -> config.Variant:
    """What stands beside ``variant`` and differs from it in how it speculates alone."""
    return config.Variant(
        name=NAME,
        endpoint=url,
        baseline=variant.baseline,
        mode=NAME,
        window=variant.window,
        drafts_per_step=variant.window,
        batch=variant.batch,
    )


def served_by(pod: Pod) -> Pod:
    """``pod``, whose server has a draft model, with n-gram in its place. Raises RehearsalError."""
    if pod.command is None or _SPECULATIVE not in pod.command:
        raise RehearsalError(f"the chart's command has no {_SPECULATIVE}")
    command = list(pod.command)
    place = command.index(_SPECULATIVE) + 1
    command[place] = json.dumps(_settings(json.loads(command[place])), separators=(",", ":"))
    return dataclasses.replace(pod, command=tuple(command))


def _settings(of_draft: dict[str, Any]) -> dict[str, Any]:
    fewest, most = MATCHED
    settings = {key: value for key, value in of_draft.items() if key != "model"}
    return settings | {"method": NAME, "prompt_lookup_min": fewest, "prompt_lookup_max": most}
