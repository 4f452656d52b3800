"""Comments and docstrings name what exists."""

import ast
import functools
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tests.synthesis import ROOT
from tests.test_docs import FILES, PATH

SOURCES: Final = [file for file in FILES if file.endswith(".py") and (ROOT / file).exists()]
BASES: Final = (ROOT, ROOT / "packages" / "spectap", ROOT / "packages" / "spectap" / "src")
ROOMS: Final = {file.partition("/")[0] for file in SOURCES} | {"spectap", "benchmarks"}
MODULE: Final = re.compile(rf"``((?:{'|'.join(sorted(ROOMS))})(?:\.[A-Za-z_]\w*)+)``")
MEMBER: Final = re.compile(r"``([A-Z]\w+)\.(\w+)``")
FOREIGN: Final = {"examples/medusa_mc_sim_7b_63.json", "Config.max_pool_connections"}
PLACEHOLDERS: Final = {"charts/scripts/NAME.lock", "spectap.test_cases"}


@functools.cache
def tree(source: str) -> ast.Module:
    return ast.parse((ROOT / source).read_text(encoding="utf-8"))


def comments(source: str) -> Iterator[str]:
    """Comments and strings that stand alone, as docstrings do."""
    text = (ROOT / source).read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


@functools.cache
def members() -> Mapping[str, set[str]]:
    """The names in the body of each class, and those that its methods assign."""
    names = defaultdict[str, set[str]](set)
    for source in SOURCES:
        for node in ast.walk(tree(source)):
            if isinstance(node, ast.ClassDef):
                for inner in ast.walk(node):
                    match inner:
                        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                            names[node.name].add(name)
                        case ast.Name(id=name) | ast.Attribute(attr=name):
                            names[node.name].add(name)
    return names


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
    for path in PATH.findall(comment):
        # A decision is named by its number.
        if not any(any(base.glob(f"{path.rstrip('/.')}*")) for base in BASES):
            yield path
    yield from (name for name in MODULE.findall(comment) if not is_module_or_in_one(name))
    for name, member in MEMBER.findall(comment):
        if member not in members().get(name, {member}):
            yield f"{name}.{member}"


def test_what_comments_name_exists() -> None:
    wrong = {
        source: names
        for source in SOURCES
        if (names := {n for c in comments(source) for n in stale(c)} - FOREIGN - PLACEHOLDERS)
    }
    assert wrong == {}
