"""Imports point one way. Found by reading the source, so that lazy imports count as well."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

CONTRACT: Final = frozenset(
    f"spectap.{name}"
    for name in (
        *("names", "metrics", "config", "load_points", "palette", "errors"),
        *("printing", "prompt", "load.sets"),
    )
)
"""What others share with the benchmark. It needs no package that ``requirements.txt`` lacks."""

MAY_IMPORT: Final[Mapping[str, frozenset[str]]] = {
    "app": frozenset({"stacks", "charts", "experiment"}),
    "deployment": frozenset({"stacks", "charts", "experiment"}) | CONTRACT,
    "stacks": frozenset({"charts", "experiment"}) | CONTRACT,
    "charts": frozenset({"experiment"}) | CONTRACT,
    "experiment": CONTRACT - {"spectap.metrics", "spectap.palette"},
    "spectap": frozenset(),
    "rehearsal": CONTRACT
    | {
        "experiment",
        # What the bucket is called.
        "charts.names",
        "deployment.console",
        # The rehearsal ends by printing the benchmark's table.
        "spectap.report.terminal",
        # It trains its models on the prompts that the driver will send.
        "spectap.load.llmperf",
        "spectap.load.requests",
        # It compares a merged ledger with those it was merged of.
        "spectap.ledger",
    },
    "scripts": frozenset({"experiment"}),
}
"""Each package of the project, and what it imports of the others."""

ROOMS: Final = (
    {
        *("errors", "names", "record", "metrics", "palette", "journal", "ledger", "config"),
        *("load_points", "wording", "printing", "limits", "prompt", "answer", "checks"),
        "inference_demo",
    },
    {"tap", "load", "endpoint", "aws"},
    {"analysis"},
    {"sweep"},
    {"run", "report"},
    {"commands"},
    {"__main__"},
)
"""The rooms of the benchmark, lowest first. One imports those below it, and none beside it."""

BESIDE: Final = {
    # The greedy answers of the variants are compared on the prompts that the load sends.
    ("spectap.endpoint.greedy", "load"),
}

READS: Final = frozenset({"os", "io", "pathlib", "glob", "shutil", "subprocess", "tempfile"})
READING: Final = frozenset({"open", "read_text", "read_bytes", "getenv", "environ", "get_context"})
POD_SCRIPTS: Final = "charts.scripts"
"""These run in pods. The package reads their text, which is part of the charts and no input."""


def test_every_package_is_in_its_layer() -> None:
    assert {module.partition(".")[0] for module in _imports()} == set(MAY_IMPORT)
    wrong = [
        f"{module} imports {imported}"
        for module, imported in _across()
        if not any(_within(imported, allowed) for allowed in MAY_IMPORT[module.partition(".")[0]])
    ]
    assert wrong == []


def test_rooms_of_the_benchmark_import_what_is_below_them() -> None:
    level = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
    wrong, used = [], set()
    for module, imported in _all():
        if not (module.startswith("spectap.") and imported.startswith("spectap.")):
            continue
        room, target = module.split(".")[1], imported.split(".")[1]
        if room == target or level[target] < level[room] or level[room] == 0 == level[target]:
            continue
        if (module, target) in BESIDE:
            used.add((module, target))
        else:
            wrong.append(f"{module} imports {imported}")
    assert wrong == []
    assert used == BESIDE


def test_runtimes_know_no_experiment_and_no_variant() -> None:
    above = ("experiment.schema", "experiment.variants", "experiment.rules", "experiment.loader")
    assert [
        f"{module} imports {imported}"
        for module, imported in _all()
        if module.startswith("experiment.runtimes")
        and any(_within(imported, package) for package in above)
    ] == []


def test_no_module_shadows_the_standard_library() -> None:
    assert {module.rpartition(".")[2] for module in _imports()} & sys.stdlib_module_names == set()


def test_stacks_and_charts_read_nothing() -> None:
    """Neither files nor the environment nor the context: they get typed values."""
    wrong = []
    for module, tree in _modules():
        if module.partition(".")[0] not in ("stacks", "charts") or _within(module, POD_SCRIPTS):
            continue
        wrong += [f"{module} imports {n}" for n in _imported(tree) if n.partition(".")[0] in READS]
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        wrong += [f"{module}: {name}" for name in names if name.removeprefix("try_") in READING]
    assert wrong == []


def test_what_others_share_needs_only_pydantic() -> None:
    program = (
        f"import sys; before = set(sys.modules); import {', '.join(sorted(CONTRACT))}; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name for name in completed.stdout.split() if not name.startswith("_sysconfigdata")}
    required = {"annotated_types", "pydantic_core", "typing_extensions", "typing_inspection"}
    assert loaded - sys.stdlib_module_names == {"spectap", "pydantic"} | required


def _within(imported: str, package: str) -> bool:
    return f"{imported}.".startswith(f"{package}.")


def _across() -> Iterator[tuple[str, str]]:
    """Pairs of a module and what it imports of another package of the project."""
    for module, imported in _all():
        package = imported.partition(".")[0]
        if package in MAY_IMPORT and package != module.partition(".")[0]:
            yield module, imported


def _all() -> Iterator[tuple[str, str]]:
    for module, imported in _imports().items():
        yield from ((module, name) for name in imported)


@functools.cache
def _imports() -> dict[str, frozenset[str]]:
    """What each module of the project imports, by its name."""
    return {module: frozenset(_imported(tree)) for module, tree in _modules()}


@functools.cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the project but the tests, with its syntax tree."""
    folders = [path.parent for path in ROOT.glob("*/*.py")]
    files = [*ROOT.glob("*.py")]
    for folder in {folder for folder in folders if folder.name != "tests"}:
        files += folder.rglob("*.py")
    return tuple((_name(file), ast.parse(file.read_text(encoding="utf-8"))) for file in files)


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported(tree: ast.Module) -> Iterator[str]:
    """Full names, as ``spectap.names`` for both ``import`` forms. Relative ones are not used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
