"""The built-in driver's options, as a run gives them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spectap.load import builtin, llmperf
from spectap.load_points import Load
from spectap.prompt import Prompt
from tests.spectap import samples

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def options(*extra: str, **changes: Any) -> argparse.Namespace:
    """Those of ``samples.load`` with ``changes``, and ``extra`` ones."""
    shape = Load.model_validate(samples.load(**changes))
    (point,) = shape.points
    arguments = llmperf.arguments(shape, point, model="m", results=Path("/r"), driver="closed-loop")
    return builtin.parser().parse_args([*arguments, *extra])


def prompt(name: str = "line-1", text: str = "Why?", **fields: Any) -> Prompt:
    """A prompt with a system message."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return Prompt.model_validate({"name": name, "messages": messages} | fields)


def written(folder: Path, *prompts: Prompt) -> list[str]:
    """The option for ``prompts``, which are written into ``folder``."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(p.model_dump_json() + "\n" for p in prompts), encoding="utf-8")
    return ["--prompts", str(path)]
