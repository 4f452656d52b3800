"""Comments and docstrings name what exists."""

import ast
import functools
import re
from collections.abc import Iterator
from typing import Final

from tests.synthesis import ROOT
from tests.test_docs import FILES, PATH

SOURCES: Final = [file for file in FILES if file.endswith(".py") and (ROOT / file).exists()]
BASES: Final = (ROOT, ROOT / "packages" / "spectap", ROOT / "packages" / "spectap" / "src")
ROOMS: Final = {file.partition("/")[0] for file in SOURCES} | {"spectap", "benchmarks"}
MODULE: Final = re.compile(rf"``((?:{'|'.join(sorted(ROOMS))})(?:\.[A-Za-z_]\w*)+)``")
MEMBER: Final = re.compile(r"``([A-Z]\w+)\.(\w+)``")
EXEMPT: Final = {
    *("examples/medusa_mc_sim_7b_63.json", "Config.max_pool_connections"),  # of others
    *("charts/scripts/NAME.lock", "spectap.test_cases"),  # placeholders
}


COMMENT: Final = re.compile(r'(?m:(?:^ *|  )(# .*)$)|(?s:"""(.*?)""")')
"""What is one, or a docstring, or a text in as many quotes."""


@functools.cache
def text(source: str) -> str:
    return (ROOT / source).read_text(encoding="utf-8")


@functools.cache
def members(name: str) -> set[str]:
    """What classes of that name define, use and assign."""
    trees = (ast.parse(text(source)) for source in SOURCES if f"class {name}" in text(source))
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    inner = (each for node in classes if node.name == name for each in ast.walk(node))
    return {getattr(each, key, "") for each in inner for key in ("name", "id", "attr")}


def is_module_or_in_one(dotted: str) -> bool:
    """Whether it names a module, or something in one, such as ``spectap.metrics.TTFT``."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        stems = [base.joinpath(*parts[:length]) for base in BASES]
        files = [path for stem in stems for path in (stem.with_suffix(".py"), stem / "__init__.py")]
        if module := next((path for path in files if path.exists()), None):
            rest = parts[length : length + 1]
            return not rest or bool(re.search(rf"\b{rest[0]}\b", module.read_text("utf-8")))
    return False


def stale(comment: str) -> Iterator[str]:
    for path in {*PATH.findall(comment)}:
        # A decision is named by its number.
        if not any(any(base.glob(f"{path.rstrip('/.')}*")) for base in BASES):
            yield path
    yield from (name for name in MODULE.findall(comment) if not is_module_or_in_one(name))
    for name, member in MEMBER.findall(comment):
        if (named := members(name)) and member not in named:
            yield f"{name}.{member}"


def test_what_comments_name_exists() -> None:
    wrong = {
        source: names
        for source in SOURCES
        if (names := {*stale("\n".join(map("".join, COMMENT.findall(text(source)))))} - EXEMPT)
    }
    assert wrong == {}
