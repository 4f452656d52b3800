"""The command ``inference_demo``: loads, generates, measures.

What it calls, it finds by name in this module when it calls it, as the real one does: whoever
replaces ``run_generation`` here has replaced it.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from rehearsal.offline.nxdi.benchmark import benchmark_sampling
from rehearsal.offline.nxdi.device import Truth
from rehearsal.offline.nxdi.flags import parse
from rehearsal.offline.nxdi.generation import get_generate_outputs_from_token_ids
from rehearsal.offline.nxdi.medusa import MEDUSA_UTILS
from rehearsal.offline.nxdi.model import Model
from rehearsal.offline.nxdi.tokenizer import Tokenizer


def main() -> None:
    """Raises SystemExit for a command line that it does not take."""
    importlib.import_module(MEDUSA_UTILS)
    run_inference(parse(sys.argv[1:]))


def run_inference(arguments: Namespace) -> None:
    """Runs what was compiled; to compile is not in its power."""
    truth = Truth.told()
    draft: Model | None = None
    if arguments.speculation_length and arguments.draft_model_path is not None:
        draft = Model(arguments, truth, draft=True)
    model = Model(arguments, truth)
    if not arguments.skip_compile:
        raise NotImplementedError("a golden inference_demo compiles nothing: --skip-compile")
    if arguments.compile_only:
        return
    model.load(arguments.compiled_model_path)
    if draft is not None:
        draft.load(arguments.compiled_draft_model_path)
    tokenizer = load_tokenizer(arguments.model_path, arguments.compiled_model_path)
    generation_config = SimpleNamespace(
        eos_token_id=tokenizer.ends,
        pad_token_id=arguments.pad_token_id,
        do_sample=arguments.do_sample,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        temperature=arguments.temperature,
    )
    if arguments.is_medusa:
        draft = model
    run_generation(
        model,
        tokenizer,
        arguments.prompts,
        generation_config,
        draft_model=draft,
        adapter_ids=None,
        input_capture_hook=None,
        input_start_offsets=None,
    )
    if arguments.benchmark:
        benchmark_sampling(
            model, draft, generation_config, benchmark_report_path=arguments.benchmark_report_path
        )


def load_tokenizer(model_path: str, compiled_model_path: str) -> Tokenizer:
    """The checkpoint's, which is left beside the artifact, too."""
    tokenizer = Tokenizer.of(model_path)
    tokenizer.save_pretrained(compiled_model_path)
    return tokenizer


def run_generation(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    generation_config: Any,
    draft_model: Model | None = None,
    **_others: Any,
) -> None:
    """Answers the prompts of the command line, and prints the answers."""
    for prompt in prompts:
        encoded = tokenizer(prompt, return_tensors="pt")
        _, (text,) = get_generate_outputs_from_token_ids(
            model,
            encoded["input_ids"],
            tokenizer,
            attention_mask=encoded["attention_mask"],
            draft_model=draft_model,
            generation_config=generation_config,
            max_length=model.neuron_config.max_length,
        )
        print(text)
