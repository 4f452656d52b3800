"""Generates with NxDI's ``inference_demo``, prompt by prompt, and writes down each step's time.

usage: generate.py RESULTS -- inference_demo ARGUMENT...
environment: SERVED_LENGTH, how many tokens of prompt and answer together every variant takes

Reads RESULTS/generate.jsonl, a prompt a line, and appends a line for each to
RESULTS/generations.jsonl. ``inference_demo`` runs as it is, but that its ``run_generation`` is this
loop; what follows it (``--benchmark``) goes to RESULTS/inference_demo.json. Ends with 69 where
there is no ``inference_demo`` as we know it, or none that takes these arguments: another try would
end so, too.

Source of what is called, replaced and worked around: neuronx-distributed-inference v0.6.10598,
``inference_demo.py``, ``models/model_base.py``, ``utils/hf_adapter.py`` and ``utils/accuracy.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits.h."""

POSITIONS = 2
"""Which argument of a compiled graph's call has the positions (``_get_model_outputs``)."""

BENCHMARK = "--benchmark"
TOLD = ("messages", "chat_template_kwargs", "max_tokens")
"""Fields of what is asked that are not repeated with the answer."""

NEVER_AN_ID = -1
"""Medusa's loop looks its end token up in a count, so it may have none that a count can be
(``_medusa_assisted_decoding``)."""

SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions."
)
"""What a conversation with Vicuna begins with: its tokenizer has no chat template
(lm-sys/FastChat, ``fastchat/conversation.py``, ``vicuna_v1.1``)."""


class Refused(Exception):
    """A prompt that cannot be measured, and its tokens."""

    def __init__(self, why: str, tokens: int) -> None:
        super().__init__(why)
        self.tokens = tokens


@dataclass
class Steps:
    """What the calls of the target's graphs show of one prompt. Times are ``perf_counter``'s."""

    sent: float = 0.0
    """When the prefill was called, in Unix seconds."""
    began: float = 0.0
    """The same."""
    prefilled: float = 0.0
    """When the prefill had ended, and with it the answer's first token was there."""
    calls: list[tuple[float, int]] = field(default_factory=list)
    """Of each further call, when it had ended, and the first position that it computed."""

    def tokens(self, prompt: int, total: int) -> list[tuple[float, int]]:
        """Seconds since the prefill was called, and how many tokens came then.

        ``prompt`` and ``total`` are tokens, ``total`` with the answer. The prefill yields one. A
        step yields as many as the next one begins further on, and the last what is left: with
        Medusa one less than it knows, which is never put out. Raises ValueError if the positions
        do not add up to the answer.
        """
        begins = [position for _, position in self.calls] + [total - 1]
        counts = [1, *(later - earlier for earlier, later in pairwise(begins))]
        if begins[0] != prompt or min(counts) < 0:
            raise ValueError(f"positions {begins} do not add up to {total - prompt} tokens")
        ends = [self.prefilled, *(end for end, _ in self.calls)]
        return [(end - self.began, count) for end, count in zip(ends, counts, strict=True)]


@contextlib.contextmanager
def watched(model: Any) -> Iterator[Steps]:
    """The steps of what ``model`` generates within, of one prompt.

    No graph is called asynchronously unless ``--async-mode`` asks for it, so a call ends when its
    output is there.
    """
    steps = Steps()
    starts: list[int] = []

    def prefill(*_: Any) -> None:
        steps.sent, steps.began = time.time(), time.perf_counter()

    def prefilled(*_: Any) -> None:
        steps.prefilled = time.perf_counter()

    def step(_: Any, arguments: Sequence[Any]) -> None:
        starts.append(int(arguments[POSITIONS][0][0]))

    def stepped(*_: Any) -> None:
        steps.calls.append((time.perf_counter(), starts[-1]))

    context, generation = model.context_encoding_model, model.get_generation_model()
    hooks = [
        context.register_forward_pre_hook(prefill),
        context.register_forward_hook(prefilled),
        generation.register_forward_pre_hook(step),
        generation.register_forward_hook(stepped),
    ]
    try:
        yield steps
    finally:
        # Otherwise they would run in inference_demo's own benchmark, too.
        for hook in hooks:
            hook.remove()


@dataclass
class Loop:
    """Stands in for ``inference_demo.run_generation``."""

    asked: Sequence[Mapping[str, Any]]
    output: Path
    served_length: int
    done: bool = False

    def run_generation(
        self,
        model: Any,
        tokenizer: Any,
        _prompts: Sequence[str],
        generation_config: Any,
        draft_model: Any = None,
        **_others: Any,
    ) -> None:
        """Generates every prompt, and writes each down as soon as its answer is there."""
        config = model.config.neuron_config
        if config.is_medusa:
            _fill_the_tree_as_compiled(config)
        with self.output.open("a", encoding="utf-8") as file:
            for one in self.asked:
                own = {key: value for key, value in one.items() if key not in TOLD}
                failure: Exception | None = None
                try:
                    found = self._generated(one, model, tokenizer, generation_config, draft_model)
                except Refused as refused:
                    found = _failed(f"refused: {refused}", refused.tokens)
                except Exception as error:
                    failure = error
                    found = _failed(" ".join(f"{type(error).__name__}: {error}".split()), None)
                file.write(json.dumps(own | found) + "\n")
                file.flush()
                print(f"{_name(one)}: {_said(found)}", flush=True)
                if failure is not None:
                    raise failure
        self.done = True

    def _generated(
        self, one: Mapping[str, Any], model: Any, tokenizer: Any, generation_config: Any, draft: Any
    ) -> dict[str, Any]:
        """One answer: the fields of a generation. Raises Refused, and what NxDI raises."""
        from neuronx_distributed_inference.utils.accuracy import (
            get_generate_outputs_from_token_ids,
        )

        encoded = _encoded(tokenizer, one)
        prompt, most = int(encoded["input_ids"].shape[1]), int(one["max_tokens"])
        if prompt + most > self.served_length:
            raise Refused(
                f"the prompt has {prompt} tokens and the answer up to {most}, of which "
                f"{self.served_length} fit",
                prompt,
            )
        ends = _ends(generation_config)
        with watched(model) as steps:
            outputs, _ = get_generate_outputs_from_token_ids(
                model,
                encoded["input_ids"],
                tokenizer,
                # Without one it would make its own, with a gap at each end token of the template.
                attention_mask=encoded["attention_mask"],
                draft_model=draft,
                generation_config=generation_config,
                **_limits(model.config.neuron_config, most, ends),
            )
        ids = [int(each) for each in getattr(outputs, "sequences", outputs)[0]]
        if model.config.neuron_config.is_medusa and 0 in ids:
            raise Refused("it has a token 0, which Medusa's loop does not count", prompt)
        came = steps.tokens(prompt, len(ids))
        answer, finish = _cut(ids[prompt:], most, ends)
        kept = list(_kept(came, len(answer)))
        return {
            "sent": steps.sent,
            "prompt_tokens": prompt,
            "steps": kept,
            "end": kept[-1][0],
            "output_tokens": len(answer),
            "text": tokenizer.decode(answer, skip_special_tokens=True),
            "finish": finish,
            "error": None,
        }


def main(arguments: Sequence[str]) -> int:
    """Generates what is asked for; returns the exit status."""
    results, (_, *command) = Path(arguments[0]), arguments[1:]
    report = results / "inference_demo.json"
    lines = (results / "generate.jsonl").read_text("utf-8").splitlines()
    itself = BENCHMARK in command
    if not lines and (report.exists() or not itself):
        print("nothing is left to generate")
        return 0
    loop = Loop(
        [json.loads(line) for line in lines],
        results / "generations.jsonl",
        int(os.environ["SERVED_LENGTH"]),
    )
    draft = report.with_name(f"{report.name}.draft")
    # The last one counts.
    status = _run(loop, [*command, *([f"{BENCHMARK}-report-path", str(draft)] if itself else [])])
    if draft.exists():
        draft.replace(report)
    return status


def _run(loop: Loop, command: list[str]) -> int:
    """Runs ``inference_demo`` with the loop in it; returns the exit status."""
    try:
        from neuronx_distributed_inference import inference_demo

        assert callable(inference_demo.run_generation)
    except (ImportError, AttributeError) as error:
        return _ended(f"there is no inference_demo as we know it: {error}", UNAVAILABLE)
    inference_demo.run_generation = loop.run_generation
    sys.argv = command
    try:
        inference_demo.main()
    except SystemExit as ended:
        return _ended(f"inference_demo refused its command line ({ended.code})", UNAVAILABLE)
    except Exception as error:
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        if loop.done:
            return _ended(f"all is generated, but inference_demo's own benchmark failed: {what}", 0)
        return _ended(what, 1)
    if not loop.done:
        return _ended("inference_demo ended without run_generation", UNAVAILABLE)
    return 0


def _ended(why: str, status: int) -> int:
    print(f"generate: {' '.join(why.split())}", file=sys.stderr)
    return status


def _fill_the_tree_as_compiled(config: Any) -> None:
    """Medusa's tree takes its nodes from candidates by a constant, not by how many there are.

    neuronx-distributed 2.26, ``utils/medusa_utils.py``: ``TOPK``.
    """
    from neuronx_distributed.utils import medusa_utils

    medusa_utils.TOPK = config.on_device_sampling_config.global_topk


def _encoded(tokenizer: Any, one: Mapping[str, Any]) -> Any:
    """Tokens and attention mask of a prompt, as tensors of one row."""
    messages = one["messages"]
    if tokenizer.chat_template is None:
        return tokenizer(_conversation(messages), return_tensors="pt")
    return tokenizer.apply_chat_template(
        messages,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        **one["chat_template_kwargs"],
    )


def _conversation(messages: Sequence[Mapping[str, str]]) -> str:
    """A conversation as Vicuna was trained on, up to where its answer begins."""
    first = messages[0]
    own = first["role"] == "system"
    said = first["content"] if own else SYSTEM
    for message in messages[1 if own else 0 :]:
        if message["role"] == "assistant":
            said += f" ASSISTANT: {message['content']}</s>"
        else:
            said += f"{'' if said.endswith('</s>') else ' '}USER: {message['content']}"
    return f"{said} ASSISTANT:"


def _ends(generation_config: Any) -> list[int]:
    """The tokens that end an answer."""
    given = generation_config.eos_token_id
    return list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]


def _limits(config: Any, most: int, ends: list[int]) -> dict[str, Any]:
    """Where each way of decoding ends, so that none ends before ``most`` tokens or an end token."""
    if config.is_medusa:
        # It counts by its configuration, and has no length.
        config.max_new_tokens = most
        return {"max_new_tokens": most, "eos_token_id": NEVER_AN_ID}
    # Vanilla gives up where no whole window fits any more.
    ahead = max(0, config.speculation_length - 1)
    return {"max_new_tokens": most + ahead, "eos_token_id": ends}


def _cut(answer: list[int], most: int, ends: list[int]) -> tuple[list[int], str]:
    """The answer as a server would give it, and why it ends.

    Up to and with the first end token, which some ways of decoding run over, and at most so long.
    """
    answer = answer[:most]
    for place, token in enumerate(answer):
        if token in ends:
            return answer[: place + 1], "stop"
    return answer, "length"


def _kept(came: Sequence[tuple[float, int]], tokens: int) -> Iterator[tuple[float, int]]:
    """The steps of the first so many tokens."""
    left = tokens
    for end, count in came:
        if left and count:
            yield end, min(left, count)
            left -= min(left, count)


def _failed(error: str, prompt_tokens: int | None) -> dict[str, Any]:
    return {
        "sent": time.time(),
        "prompt_tokens": prompt_tokens,
        "steps": [],
        "end": 0.0,
        "output_tokens": 0,
        "text": "",
        "finish": "length",
        "error": error,
    }


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['case']} round {one['round']} {one['prompt']}".strip()


def _said(found: Mapping[str, Any]) -> str:
    if found["error"]:
        return str(found["error"])
    return f"{found['output_tokens']} tokens in {len(found['steps'])} steps, {found['end']:.3f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
