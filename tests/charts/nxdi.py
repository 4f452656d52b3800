"""A small ``neuronx_distributed_inference`` that answers what it is asked to, in known steps.

Modelled on v0.6.10598: ``inference_demo.py``, ``utils/accuracy.py``, and the three loops of
``utils/hf_adapter.py`` and transformers 4.51. A prompt's last word says how many tokens its answer
has with its end token. A step accepts as many drafts as ``ACCEPTED`` says, in turn.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

ACCEPTED: Final = (1, 3, 0, 6, 2)
END: Final = 2
PACKAGES: Final = {
    "neuronx_distributed_inference/__init__.py": "",
    "neuronx_distributed_inference/inference_demo.py": """\
from tests.charts import nxdi

def run_generation(*_, **__):
    raise AssertionError("was not replaced")

def main():
    nxdi.run(lambda *args, **named: run_generation(*args, **named))
""",
    "neuronx_distributed_inference/utils/__init__.py": "",
    "neuronx_distributed_inference/utils/accuracy.py": """\
from tests.charts.nxdi import get_generate_outputs_from_token_ids
""",
    "neuronx_distributed/__init__.py": "",
    "neuronx_distributed/utils/__init__.py": "",
    "neuronx_distributed/utils/medusa_utils.py": "TOPK = 10\n",
}


def install(folder: Path) -> None:
    """Writes the packages into ``folder``."""
    for name, text in PACKAGES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


class Row(list[list[int]]):
    """A tensor of one row."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self[0])


class Graph:
    """A compiled graph, which is called by position."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Callable[..., None]]] = {"before": [], "after": []}

    def register_forward_pre_hook(self, hook: Callable[..., None]) -> SimpleNamespace:
        return self._registered("before", hook)

    def register_forward_hook(self, hook: Callable[..., None]) -> SimpleNamespace:
        return self._registered("after", hook)

    def _registered(self, when: str, hook: Callable[..., None]) -> SimpleNamespace:
        self.hooks[when].append(hook)
        return SimpleNamespace(remove=lambda: self.hooks[when].remove(hook))

    def __call__(self, positions: list[int]) -> None:
        arguments = ("ids", "mask", Row([positions]), "seq_ids")
        for hook in self.hooks["before"]:
            hook(self, arguments)
        for hook in self.hooks["after"]:
            hook(self, arguments, "output")


class Model:
    """A target or a draft."""

    def __init__(self, config: SimpleNamespace) -> None:
        self.config = SimpleNamespace(neuron_config=config)
        self.context_encoding_model, self._generation = Graph(), Graph()
        self.populated = False

    def get_generation_model(self) -> Graph:
        return self._generation

    def reset(self) -> None:
        self.populated = False


class Tokenizer:
    """A word, a token. It has a chat template, or takes a text as Vicuna's does."""

    def __init__(self, template: str | None) -> None:
        self.chat_template = template

    def apply_chat_template(self, messages: list[dict[str, str]], **asked: Any) -> dict[str, Row]:
        assert self.chat_template
        assert asked.pop("add_generation_prompt")
        assert asked.pop("return_dict")
        assert asked.pop("return_tensors") == "pt"
        assert asked.keys() <= {"enable_thinking"}
        return self("user " + " ".join(message["content"] for message in messages), "pt")

    def __call__(self, text: str, return_tensors: str) -> dict[str, Row]:
        assert return_tensors == "pt"
        _note("asked.txt", text)
        words = [
            1000 + int(w) if w.isdecimal() else 1 for w in text.removesuffix(" ASSISTANT:").split()
        ]
        if "zero" in text:
            words[0] = 0
        return {"input_ids": Row([words]), "attention_mask": Row([[1] * len(words)])}

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return " ".join(str(each) for each in ids if each != END)


def truth(length: int) -> Iterator[int]:
    """The target's greedy answer: ``length`` tokens with the end token, and what would follow."""
    yield from range(100, 99 + length)
    yield END
    yield from itertools.count(500)


def get_generate_outputs_from_token_ids(
    model: Model,
    token_ids: Row,
    tokenizer: Tokenizer,
    attention_mask: Row | None = None,
    draft_model: Model | None = None,
    generation_config: Any = None,
    **named: Any,
) -> tuple[Row, list[str]]:
    assert attention_mask is not None
    assert generation_config is not None
    assert not model.populated
    assert draft_model is None or not draft_model.populated
    ids = [*token_ids[0]]
    if ids[-1] == 1013:
        raise RuntimeError("nrt_execute\nstatus 1200")
    if ids[-1] == 1014:
        time.sleep(60)
    config, answer = model.config.neuron_config, truth(ids[-1] - 1000)
    model.context_encoding_model([*range(len(ids))])
    model.populated = True
    if config.is_medusa:
        found = _medusa(model, ids, answer, named["eos_token_id"])
    elif config.speculation_length:
        assert draft_model is not None
        draft_model.populated = True
        ends, most = named["eos_token_id"], len(ids) + named["max_new_tokens"]
        found = _vanilla(model, ids, answer, ends, most)
    else:
        found = _plain(model, ids, answer, named["eos_token_id"], named["max_new_tokens"])
    model.reset()
    if draft_model is not None:
        draft_model.reset()
    return Row([found]), ["the whole text"]


def _plain(model: Model, ids: list[int], answer: Iterator[int], ends: Any, most: int) -> list[int]:
    found = [*ids, next(answer)]
    while found[-1] not in ends and len(found) < len(ids) + most:
        model.get_generation_model()([len(found) - 1])
        found.append(next(answer))
    return found


def _vanilla(
    model: Model, ids: list[int], answer: Iterator[int], ends: Any, most: int
) -> list[int]:
    found, length, window = (
        [*ids, next(answer)],
        len(ids),
        model.config.neuron_config.speculation_length,
    )
    for accepted in itertools.cycle(ACCEPTED):
        first = len(found) - 1
        model.get_generation_model()([*range(first, first + window)])
        for _ in range(min(accepted, most - length - 1) + 1):
            found.append(next(answer))
            length += 1
            if found[-1] in ends:  # a drafted one is the last of its window, and dropped
                break
        if found[-1] in ends or most - length < window:
            return found
    raise AssertionError


def _medusa(model: Model, ids: list[int], answer: Iterator[int], end: Any) -> list[int]:
    config = model.config.neuron_config
    found, depths = [*ids], (0, 1, 1, 2, 3, 4)
    for accepted in itertools.islice(itertools.cycle(ACCEPTED), config.max_new_tokens):
        count = sum(each != 0 for each in found)
        model.get_generation_model()([count + depth for depth in depths])
        found += itertools.islice(answer, min(accepted, 4) + 1)
        if isinstance(end, list):
            raise RuntimeError("Tensor.__contains__ only supports Tensor or scalar")
        if end == len(found) - len(ids) or len(found) - len(ids) > config.max_new_tokens:
            break
    return found


def run(run_generation: Callable[..., None]) -> None:
    """``run_inference``, from where the models are loaded."""
    parser = argparse.ArgumentParser()
    for flag in ("--compiled-model-path", "--draft-model-path", "--benchmark-report-path"):
        parser.add_argument(flag)
    for flag in ("--speculation-length", "--medusa-speculation-length", "--global-topk"):
        parser.add_argument(flag, type=int, default=0)
    for flag in ("--is-medusa", "--benchmark", "--skip-compile"):
        parser.add_argument(flag, action="store_true")
    given = parser.parse_args()
    config = SimpleNamespace(
        is_medusa=given.is_medusa,
        speculation_length=given.speculation_length,
        max_new_tokens=None,
        on_device_sampling_config=SimpleNamespace(global_topk=given.global_topk),
    )
    _note("loads.txt", "loaded\n")
    if os.environ.get("STUB_FAILS") == "load":
        raise RuntimeError("nrt_init: no neuron device found")
    model = Model(config)
    draft = model if given.is_medusa else Model(config) if given.draft_model_path else None
    template = None if given.is_medusa else "a template"
    ends: Any = END if given.is_medusa else [END, 3]
    run_generation(
        model,
        Tokenizer(template),
        ["x"],
        SimpleNamespace(eos_token_id=ends),
        draft_model=draft,
        adapter_ids=None,
        input_capture_hook=None,
        input_start_offsets=None,
    )
    hooks = [model.context_encoding_model.hooks, model.get_generation_model().hooks]
    if given.is_medusa:
        tree = importlib.import_module("neuronx_distributed.utils.medusa_utils")
        _note("topk.txt", str(tree.TOPK))
    assert not any(each for found in hooks for each in found.values())
    if given.benchmark:
        if os.environ.get("STUB_FAILS") == "benchmark":
            raise RuntimeError("its own benchmark")
        Path(given.benchmark_report_path).write_text(json.dumps({"e2e_model": {}}))


def _note(name: str, text: str) -> None:
    with (Path(os.environ["STUB_NOTES"]) / name).open("a") as file:
        file.write(text + "\n")
