"""Imports point one way. Found by reading the source, so that lazy imports count as well."""

import ast
import functools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

CONTRACT: Final = frozenset(
    f"spectap.{name}"
    for name in (
        *("names", "metrics", "config", "load_points", "palette", "errors", "published"),
        *("printing", "prompt", "protocol", "load.sets", "wording"),
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
    "scripts": frozenset({"experiment", "stacks", "deployment.console"}),
    "examples": frozenset({"stacks.constructs"}),
}
"""Each package of the project, and what it imports of the others."""

ROOMS: Final = (
    {
        *("errors", "names", "record", "metrics", "palette", "journal", "ledger", "config"),
        *("load_points", "wording", "printing", "limits", "prompt", "answer", "checks"),
        *("inference_demo", "protocol", "published"),
    },
    {"tap", "load", "endpoint", "aws"},
    {"analysis"},
    {"run"},
    {"sweep"},
    {"report"},
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
    """Every module of the project but the tests, with its syntax tree."""
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


def test_constructs_know_no_experiment_and_no_chart() -> None:
    """Nor does what they import of the stacks. So they fit any cluster."""
    fit = ("stacks.constructs", "stacks.roles", "stacks.acknowledge")
    ours = [(module, name) for module, name in _imports() if name.partition(".")[0] in MAY_IMPORT]
    imported = {n for m, n in ours if any(_within(m, each) for each in fit)}
    assert {name for name in imported if not any(_within(name, each) for each in fit)} == set()
    assert imported


def test_rooms_of_the_benchmark_import_what_is_below_them() -> None:
    level = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
    wrong = set()
    for module, imported in _imports():
        if module.startswith("spectap.") and imported.startswith("spectap."):
            room, target = module.split(".")[1], imported.split(".")[1]
            is_below = level[target] < level[room] or level[room] == 0 == level[target]
            if room != target and not is_below:
                wrong.add((module, target))
    assert wrong == BESIDE


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
