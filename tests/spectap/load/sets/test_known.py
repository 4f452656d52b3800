"""The known sets, as their pinned packages hold them."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from spectap import prompt_file
from spectap.config import PromptSource
from spectap.load import sets
from spectap.load.sets import KNOWN, LoadedSet
from spectap.prompt import Form, Prompt

PINS = dict(
    line.removesuffix(" \\").split("==")
    for line in Path(sets.__file__).with_name("requirements.txt").read_text("utf-8").split("\n")
    if "==" in line
)


@functools.cache
def load(name: str) -> LoadedSet:
    return sets.load(PromptSource(known=name), Path())


def prompts() -> Iterator[Prompt]:
    for name in KNOWN:
        yield from load(name).prompts


def test_all_packages_are_pinned_and_no_others() -> None:
    assert set(PINS) == {known.package for known in KNOWN.values()}


@pytest.mark.parametrize("name", KNOWN)
def test_a_set_is_what_is_said_of_it(name: str) -> None:
    known, loaded = KNOWN[name], load(name)
    assert Counter(prompt.prompt_class for prompt in loaded.prompts) == Counter(known.classes)
    assert len({prompt.name for prompt in loaded.prompts}) == len(loaded.prompts)
    assert any(prompt.tools for prompt in loaded.prompts) == known.has_tools
    assert loaded.source == f"{known.title} ({known.package} {PINS[known.package]})"
    assert loaded.licence == known.licence in {"MIT", "Apache-2.0"}


def test_prompts_are_such_as_a_file_may_hold() -> None:
    lines = [
        json.dumps({"name": one.name, "messages": one.messages, "tools": one.tools or None})
        for one in prompts()
    ]
    assert len(prompt_file.parse("\n".join(lines).encode(), "all.jsonl")) == 164 + 80 + 1000


def test_schemas_of_tools_are_json_schema() -> None:
    schemas = [tool["function"]["parameters"] for one in prompts() for tool in one.tools]
    assert len(schemas) > 1000
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)


def test_humaneval_asks_for_the_function_that_it_shows() -> None:
    for prompt in load("humaneval").prompts:
        system, user = prompt.messages
        assert (system["role"], user["role"], prompt.form) == ("system", "user", Form.CODE)
        (code,) = re.findall(r"```python\n(.+?\n)```$", user["content"], re.DOTALL)
        assert re.search(r"^def \w+\(", code, re.MULTILINE)
        compile(code, prompt.name, "exec")


def test_mt_bench_asks_the_first_question_only() -> None:
    for prompt in load("mt-bench").prompts:
        (message,) = prompt.messages
        assert message["role"] == "user"
        assert prompt.form is None
    assert {prompt.name for prompt in load("mt-bench").prompts} == {
        f"MT-Bench/{number}" for number in range(81, 161)
    }


def test_bfcl_wants_a_call() -> None:
    assert {prompt.form for prompt in load("bfcl").prompts} == {Form.TOOL_CALL}
    for prompt in load("bfcl").prompts:
        assert prompt.tools
        assert [message["role"] for message in prompt.messages] == ["user"]
