"""How snapshots are written, so that a person can review what changes: short lines, small files."""

import hashlib
import json
import re
import textwrap
from typing import Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

WIDTH = 120
PIECE = re.compile(rf"(?s).{{1,{WIDTH}}}(?:\s|$)|.{{1,{WIDTH}}}")


class TextSnapshot(SingleFileSnapshotExtension):
    file_extension = "txt"
    _write_mode = WriteMode.TEXT


class TemplateSnapshot(TextSnapshot):
    """A ``readable`` template or a part of one: what fits on a line stands on one."""

    file_extension = "json"

    def serialize(self, data: Any, **_: Any) -> str:
        return laid_out(data) + "\n"


def filled(text: str, indent: str = "") -> str:
    """A sentence or a command in short lines."""
    further = f"{indent}  "
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False
    )


def digest(text: str) -> str:
    """What changes with ``text``, where it is too long to be read twice."""
    return f"<{len(text.splitlines())} lines, {hashlib.sha256(text.encode()).hexdigest()[:16]}>"


def masked(text: str) -> str:
    """``text`` without asset hashes, which follow every byte of an asset."""
    return re.sub(r"\b[0-9a-f]{64}\b", "<asset hash>", text)


def readable(value: Any) -> Any:
    """``value`` with joins as Fn::Sub has them, JSON parsed, and long strings in pieces."""
    if isinstance(value, list):
        return [readable(item) for item in value]
    if isinstance(value, dict):
        separator, pieces = value.get("Fn::Join", (None, None))
        if separator == "" and isinstance(pieces, list):
            return readable("".join(p if isinstance(p, str) else _reference(p) for p in pieces))
        return {key: readable(item) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if value.startswith(('{"', "[{")):
        return readable(json.loads(value))
    text = masked(value)
    pieces = [piece for line in text.splitlines(keepends=True) for piece in PIECE.findall(line)]
    return pieces if len(text) > WIDTH else text


def _reference(value: dict[str, Any]) -> str:
    ((function, argument),) = value.items()
    name = ".".join(argument) if function == "Fn::GetAtt" else argument
    return f"${{{name if isinstance(name, str) else json.dumps(value)}}}"


def laid_out(value: Any, indent: str = "") -> str:
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(indent + line) <= WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = indent + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + laid_out(i, inner) for i in value) + f"\n{indent}]"
    entries = (f'{inner}"{key}": {laid_out(value[key], inner)}' for key in sorted(value))
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
