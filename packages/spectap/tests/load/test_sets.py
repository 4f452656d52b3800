"""Test cases and prompts out of files and known sets, and which prompts a round sends."""

import functools
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectap.errors import ConfigError
from spectap.inputs import prompt
from spectap.inputs.config import PromptSource
from spectap.inputs.load_points import Load, LoadPoint
from spectap.inputs.prompt import Form, Prompt
from spectap.load import cases, sets
from spectap.load.cases import mixed, of_turn
from spectap.load.sets import KNOWN, LoadedSet
from spectap.names import CONTROL, WARM_UP
from tests import samples

PINS_FILE = Path(sets.__file__).with_name("requirements.txt")
PINS = dict(
    line.removesuffix(" \\").split("==")
    for line in PINS_FILE.read_text("utf-8").split("\n")
    if "==" in line
)


@functools.cache
def load(name: str) -> LoadedSet:
    return sets.load(PromptSource(set=name), Path())


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
        sets.load(PromptSource(set="bfcl"), Path())
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
        (PromptSource(set="gsm8k"), f"gsm8k: is not a known set of prompts: {', '.join(KNOWN)}"),
        (PromptSource(set="mt-bench", classes=("maths",)), "mt-bench: has no class maths; its "),
        (PromptSource(file="mine.txt", digest="0" * 64), "mine.txt: was changed: its SHA-256 is "),
    ],
)
def test_a_source_that_cannot_be_loaded(tmp_path: Path, source: PromptSource, message: str) -> None:
    (tmp_path / "mine.txt").write_text("Why?\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        sets.load(source, tmp_path)
    assert str(refused.value).removeprefix(f"{tmp_path}/").startswith(message)


GOOD = '{"name": "a", "line": "b", "structure": "structured"}\n'


def made(classes: Mapping[str, int]) -> list[Prompt]:
    return [
        samples.prompt(f"{name}-{n}", prompt_class=name)
        for name, count in classes.items()
        for n in range(count)
    ]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30)), st.data())
@settings(max_examples=40)
def test_any_beginning_has_its_share_of_each_class(
    classes: dict[str, int], data: st.DataObject
) -> None:
    members = made(classes)
    order = mixed(members)
    assert sorted(order, key=str) == sorted(members, key=str)
    length = data.draw(st.integers(0, len(order)))
    counts = Counter(prompt.prompt_class for prompt in order[:length])
    for name, count in classes.items():
        # A class is off by less than one from where the order is cut, which itself is off by
        # less than one prompt of each class.
        assert abs(counts[name] - length * count / len(order)) <= 1 + len(classes)


@given(count=st.integers(1, 40), requests=st.integers(1, 9), rounds=st.integers(1, 6))
@settings(max_examples=30)
def test_prompts_return_only_when_all_were_sent(count: int, requests: int, rounds: int) -> None:
    """Over rounds and load points; the warm-up's and a control's are those that are sent last."""
    members = made({"a": count})
    load = Load.model_validate(
        samples.loads(*({"concurrency": c, "requests": requests} for c in (1, 2)))
    )
    turns = [(number, point) for number in range(1, rounds + 1) for point in load.points]
    hands = [of_turn(members, load, *turn) for turn in turns]
    assert [prompt.name for prompt in mixed(made({"a": 100}))[:2]] == ["a-73", "a-33"]
    in_turn = islice(cycle(mixed(members)), 2 * requests * rounds)
    assert [prompt for hand in hands for prompt in hand] == [*in_turn]
    wave = LoadPoint(concurrency=2, requests=2)
    warm = of_turn(members, load, WARM_UP, wave)
    assert warm == of_turn(members, load, CONTROL, wave)
    assert warm[-1] == mixed(members)[-1]
    if count >= 2 * requests * rounds + 2:
        assert not any(prompt in in_turn for prompt in warm)
    assert of_turn((), load, 3, load.points[0], 2) == ()
    filled = of_turn(members, load, 1, load.points[1], requests)
    assert filled == hands[0] + hands[1]


def test_the_first_two_cases_are_drawn_where_none_says_so(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("".join(GOOD.replace('"a"', f'"{name}"') for name in "abc"), "utf-8")
    assert [case.headline for case in cases.read_cases(path)] == [True, True, False]
    path.write_text(GOOD.replace('"a"', '"z"') + GOOD.replace("}", ', "headline": true}'), "utf-8")
    assert [case.headline for case in cases.read_cases(path)] == [False, True]


def test_a_file_of_prompts_is_a_test_case_named_after_it(tmp_path: Path) -> None:
    plain = b'{"prompt": "Why?"}'
    for name, case in (("my prompts v2.jsonl", "my-prompts-v2"), ("ü.txt", "prompts")):
        (tmp_path / name).write_bytes(plain)
        read = cases.read_prompts(tmp_path / name)
        source = PromptSource(file=name, digest=hashlib.sha256(plain).hexdigest())
        assert (read.name, read.prompts, read.headline) == (case, source, True)


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (cases.read_cases, b"\xff", "f: is not UTF-8: invalid start byte at byte 0"),
        (cases.read_cases, GOOD.encode() + b"\nx", "f:3: Invalid JSON: "),
        (cases.read_cases, b'{"name": "a", "line": "b"}', "f:1: structure: must be structured or "),
        (cases.read_prompts, b'{"prompt": "a"}\n{"prompt": 1}', "f:2: prompt = 1: must be a "),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, read: Callable[[Path], object], content: bytes, message: str
) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        read(path)
    assert str(refusal.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(refusal.value)
