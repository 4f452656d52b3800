"""Imports point one way. Found by reading the source, so that lazy imports count as well."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import spectap

FOLDER: Final = Path(spectap.__file__).parent

ROOMS: Final = (
    {"errors", "names", "wording", "loop_lag"},
    {"protocol"},
    {"inputs"},
    {"records"},
    {"metrics"},
    {"tap", "load", "endpoint", "aws", "golden"},
    {"analysis"},
    {"run"},
    {"report"},
    {"commands"},
    {"__main__"},
)
"""Lowest first. One imports those below it, and none beside it."""


def imports() -> Iterator[tuple[str, str]]:
    """The room of each module of spectap, and the full name of each thing that it imports."""
    for file in FOLDER.rglob("*.py"):
        room = file.relative_to(FOLDER).with_suffix("").parts[0]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = list[str]()
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.module, "a relative import"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((room, name) for name in names)


def test_a_room_imports_what_is_below_it() -> None:
    level = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
    targets = {(room, name.split(".")[1]) for room, name in imports() if name[:8] == "spectap."}
    wrong = {
        (room, target)
        for room, target in targets
        if room not in ("__init__", target)
        and not (level[target] < level[room] or level[room] == 0 == level[target])
    }
    assert wrong == set()


def test_the_face_names_modules_that_exist() -> None:
    for name in spectap.PUBLIC:
        path = FOLDER.joinpath(*name.split("."))
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), name
