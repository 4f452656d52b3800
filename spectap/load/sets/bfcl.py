"""The Berkeley Function-Calling Leaderboard: one request, answered by calls of the tools it comes
with.

Patil et al., https://gorilla.cs.berkeley.edu/leaderboard.html; UC Berkeley's package. Of its
categories those are taken that are one turn, whose functions are Python's, and where a call is the
right answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from spectap.load.sets.known_set import KnownSet
from spectap.prompt import Form, Prompt

_CLASSES: Final = {"simple_python": 400, "multiple": 200, "parallel": 200, "parallel_multiple": 200}
_FILE: Final = "bfcl_eval/data/BFCL_v4_{}.json"

_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array"}
"""JSON Schema's names for the types that the set names otherwise, as in the package's
``constants/type_mappings.py``. A parameter of type ``any`` has none in JSON Schema."""


def _prompts(place: Callable[[str], Path]) -> Iterator[Prompt]:
    for name in _CLASSES:
        # One object a line, though the file is called .json.
        with place(_FILE.format(name)).open(encoding="utf-8") as lines:
            for entry in map(json.loads, lines):
                (messages,) = entry["question"]  # one turn
                yield Prompt(
                    name=f"BFCL/{entry['id']}",
                    prompt_class=name,
                    messages=tuple(messages),
                    tools=tuple(_tool(function) for function in entry["function"]),
                    form=Form.TOOL_CALL,
                )


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    """A function of the set as OpenAI's API takes it: without dots in its name.

    The package does the same for such models (``model_handler/utils.py``, ``convert_to_tool``).
    """
    return {
        "type": "function",
        "function": {
            "name": function["name"].replace(".", "_"),
            "description": function["description"],
            "parameters": _schema(function["parameters"]),
        },
    }


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same in JSON Schema, which says nothing of what is optional but what is required."""
    found = {key: value for key, value in schema.items() if key != "optional"}
    kind = found.pop("type", "any")
    if kind != "any":
        found = {"type": _TYPES.get(kind, kind)} | found
    if "properties" in found:
        found["properties"] = {name: _schema(inner) for name, inner in found["properties"].items()}
    if "items" in found:
        found["items"] = _schema(found["items"])
    return found


BFCL: Final = KnownSet(
    name="bfcl",
    title="BFCL v4, Python, one turn",
    package="bfcl-eval",
    # The package's METADATA and the README of its data.
    licence="Apache-2.0",
    classes=_CLASSES,
    read=_prompts,
    has_tools=True,
)
