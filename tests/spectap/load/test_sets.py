"""The known sets as their pinned packages hold them, a small package, and a file of the user's."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from spectap import prompt
from spectap.config import PromptSource
from spectap.errors import ConfigError
from spectap.load import sets
from spectap.load.sets import KNOWN, LoadedSet
from spectap.prompt import Form

PINS_FILE = Path(sets.__file__).with_name("requirements.txt")
PINS = dict(
    line.removesuffix(" \\").split("==")
    for line in PINS_FILE.read_text("utf-8").split("\n")
    if "==" in line
)


@functools.cache
def load(name: str) -> LoadedSet:
    return sets.load(PromptSource(known=name), Path())


@pytest.mark.parametrize("name", KNOWN)
def test_a_set_is_what_is_said_of_it(name: str) -> None:
    entry, loaded = KNOWN[name], load(name)
    assert Counter(member.prompt_class for member in loaded.prompts) == Counter(entry.classes)
    assert any(member.tools for member in loaded.prompts) == entry.has_tools
    assert loaded.source == f"{entry.title} ({entry.package} {PINS[entry.package]})"
    assert loaded.licence == entry.licence in {"MIT", "Apache-2.0"}
    # What a file may hold: names are unique, and schemas of tools are JSON Schema.
    lines = [
        json.dumps({"name": each.name, "messages": each.messages, "tools": each.tools or None})
        for each in loaded.prompts
    ]
    assert len(prompt.parse("\n".join(lines).encode(), "all.jsonl")) == len(loaded.prompts)
    for each in loaded.prompts[::10]:
        for tool in each.tools:
            jsonschema.Draft202012Validator.check_schema(tool["function"]["parameters"])


def test_what_the_sets_ask_for() -> None:
    for each in load("humaneval").prompts:
        system, user = each.messages
        assert (system["role"], user["role"], each.form) == ("system", "user", Form.CODE)
        (code,) = re.findall(r"```python\n(.+?\n)```$", user["content"], re.DOTALL)
        assert re.search(r"^def \w+\(", code, re.MULTILINE)
    for name, form in (("mt-bench", None), ("bfcl", Form.TOOL_CALL)):
        assert {each.form for each in load(name).prompts} == {form}
        assert {m["role"] for each in load(name).prompts for m in each.messages} == {"user"}
    assert '"optional"' not in json.dumps([each.tools for each in load("bfcl").prompts])


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigError) as refused:
        sets.load(PromptSource(known="bfcl"), Path())
    assert str(refused.value) == (
        "bfcl: the package bfcl-eval is not installed: "
        f"pip install --no-deps --target {tmp_path} --requirement {PINS_FILE}"
    )


def test_a_file_of_the_user_s(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Why?\nHow so?\n", encoding="utf-8")
    digest = hashlib.sha256(b"Why?\nHow so?\n").hexdigest()
    loaded = sets.load(PromptSource(file="mine.txt", digest=digest), tmp_path)
    assert [each.name for each in loaded.prompts] == ["line-1", "line-2"]
    assert (loaded.source, loaded.licence) == ("mine.txt", "")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (PromptSource(known="gsm8k"), f"gsm8k: is no known set of prompts: {', '.join(KNOWN)}"),
        (PromptSource(known="mt-bench", classes=("maths",)), "mt-bench: has no class maths; its "),
        (PromptSource(file="mine.txt", digest="0" * 64), "mine.txt: was changed: its SHA-256 is "),
    ],
)
def test_a_source_that_cannot_be_loaded(tmp_path: Path, source: PromptSource, message: str) -> None:
    (tmp_path / "mine.txt").write_text("Why?\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        sets.load(source, tmp_path)
    assert str(refused.value).removeprefix(f"{tmp_path}/").startswith(message)
