"""Imports point one way. Found by reading the source, so that lazy imports count as well."""

import ast
import functools
import subprocess
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from spectap import PUBLIC

ROOT: Final = Path(__file__).parent.parent

MAY_IMPORT: Final[Mapping[str, frozenset[str]]] = {
    "app": frozenset({"stacks", "charts", "experiment"}),
    "operations": frozenset({"stacks", "charts", "experiment"}),
    "stacks": frozenset({"charts", "experiment"}),
    "charts": frozenset({"experiment"}),
    "experiment": frozenset(),
    # ``charts.names`` says what the bucket is called.
    "rehearsal": frozenset({"experiment", "charts.names", "operations.console"}),
    "tools": frozenset({"experiment", "stacks", "operations.console"}),
    "examples": frozenset({"stacks.constructs"}),
}
"""Each package of the app, and what it imports of the others. All may import spectap's face."""

READS: Final = frozenset({"os", "io", "pathlib", "glob", "shutil", "subprocess", "tempfile"})
READING: Final = frozenset({"open", "read_text", "read_bytes", "getenv", "environ", "get_context"})
POD_SCRIPTS: Final = "charts.scripts"
"""These run in pods. The package reads their text, which is part of the charts and no input."""


def _imported(tree: ast.Module) -> set[str]:
    """Full names, as ``spectap.names`` for both ``import`` forms. Relative ones are not used."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@functools.cache
def _modules() -> Mapping[str, ast.Module]:
    folders = {path.parent for path in ROOT.glob("*/*.py") if path.parent.name != "tests"}
    files = (*ROOT.glob("*.py"), *(f for folder in folders for f in folder.rglob("*.py")))
    return {_name(file): ast.parse(file.read_text(encoding="utf-8")) for file in files}


@functools.cache
def _imports() -> list[tuple[str, str]]:
    return [(module, name) for module, tree in _modules().items() for name in _imported(tree)]


def _within(imported: str, package: str) -> bool:
    return f"{imported}.".startswith(f"{package}.")


def test_every_package_is_in_its_layer() -> None:
    assert {module.partition(".")[0] for module in _modules()} == set(MAY_IMPORT)
    wrong = []
    for module, imported in _imports():
        package, other = module.partition(".")[0], imported.partition(".")[0]
        is_allowed = any(_within(imported, allowed) for allowed in MAY_IMPORT[package])
        if other in MAY_IMPORT and other != package and not is_allowed:
            wrong.append(f"{module} imports {imported}")
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither for types alone. Raises CycleError, which names them."""
    modules = _modules()
    graph = {module: set[str]() for module in modules}
    for module, name in _imports():
        imported = name if name in modules else name.rpartition(".")[0]
        if imported in modules and imported != module:
            graph[module].add(imported)
    TopologicalSorter(graph).prepare()


def test_constructs_know_no_experiment_and_no_chart() -> None:
    """Nor does what they import of the stacks. So they fit any cluster."""
    fit = ("stacks.constructs", "stacks.security")
    ours = [(module, name) for module, name in _imports() if name.partition(".")[0] in MAY_IMPORT]
    imported = {n for m, n in ours if any(_within(m, each) for each in fit)}
    assert {name for name in imported if not any(_within(name, each) for each in fit)} == set()
    assert imported


def test_the_app_imports_the_face_of_spectap_and_nothing_else() -> None:
    public = {f"spectap.{name}" for name in PUBLIC}
    imported = {(m, name) for m, name in _imports() if _within(name, "spectap")}
    assert imported
    assert {
        (module, name)
        for module, name in imported
        if name not in public and name.rpartition(".")[0] not in public
    } == set()


def test_stacks_and_charts_read_nothing() -> None:
    """Neither files nor the environment nor the context: they get typed values."""
    wrong = []
    for module, tree in _modules().items():
        if module.partition(".")[0] not in ("stacks", "charts") or _within(module, POD_SCRIPTS):
            continue
        wrong += [f"{module} imports {n}" for n in _imported(tree) if n.partition(".")[0] in READS]
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        wrong += [f"{module}: {name}" for name in names if name.removeprefix("try_") in READING]
    assert wrong == []


def test_what_synthesis_imports_of_spectap_needs_only_pydantic() -> None:
    """So a synthesis does not load what measures."""
    shared = {f"spectap.{name}" for name in PUBLIC - {"report.terminal"}}
    program = (
        f"import sys; before = set(sys.modules); import {', '.join(sorted(shared))}; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name for name in completed.stdout.split() if not name.startswith("_sysconfigdata")}
    required = {"annotated_types", "pydantic_core", "typing_extensions", "typing_inspection"}
    assert loaded - sys.stdlib_module_names == {"spectap", "pydantic"} | required
