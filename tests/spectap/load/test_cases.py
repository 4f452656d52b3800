"""Test cases and prompts out of files, and which prompts a round sends."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectap.config import PromptSource
from spectap.errors import ConfigError
from spectap.load import cases
from spectap.load.cases import mixed, of_round
from spectap.names import WARM_UP
from spectap.prompt import Prompt

GOOD = '{"name": "a", "line": "b", "structure": "structured"}\n'


def prompts(classes: Mapping[str, int]) -> list[Prompt]:
    return [
        Prompt(name=f"{name}-{n}", prompt_class=name, messages=({"role": "user", "content": "a"},))
        for name, count in classes.items()
        for n in range(count)
    ]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30)), st.data())
@settings(max_examples=40)
def test_any_beginning_has_its_share_of_each_class(
    classes: dict[str, int], data: st.DataObject
) -> None:
    members = prompts(classes)
    order = mixed(members)
    assert sorted(order, key=str) == sorted(members, key=str)
    length = data.draw(st.integers(0, len(order)))
    counts = Counter(prompt.prompt_class for prompt in order[:length])
    for name, count in classes.items():
        # A class is off by less than one from where the order is cut, which itself is off by
        # less than one prompt of each class.
        assert abs(counts[name] - length * count / len(order)) <= 1 + len(classes)


@given(count=st.integers(1, 20), requests=st.integers(1, 30), rounds=st.integers(1, 12))
@settings(max_examples=30)
def test_prompts_are_sent_in_turn_over_the_rounds(count: int, requests: int, rounds: int) -> None:
    members = prompts({"a": count})
    hands = [of_round(members, number, requests) for number in range(1, rounds + 1)]
    assert [prompt.name for prompt in mixed(prompts({"a": 100}))[:2]] == ["a-73", "a-33"]
    in_turn = islice(cycle(mixed(members)), requests * rounds)
    assert [prompt for hand in hands for prompt in hand] == [*in_turn]
    assert of_round(members, WARM_UP, requests) == hands[0]
    assert of_round((), 3, requests) == ()


def test_the_first_two_cases_are_drawn_where_none_says_so(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("".join(GOOD.replace('"a"', f'"{name}"') for name in "abc"), "utf-8")
    assert [case.headline for case in cases.read_cases(path)] == [True, True, False]
    path.write_text(GOOD.replace('"a"', '"z"') + GOOD.replace("}", ', "headline": true}'), "utf-8")
    assert [case.headline for case in cases.read_cases(path)] == [False, True]


@pytest.mark.parametrize(
    ("name", "case"), [("my prompts v2.jsonl", "my-prompts-v2"), ("ü.txt", "prompts")]
)
def test_a_file_of_prompts_is_a_test_case_named_after_it(
    tmp_path: Path, name: str, case: str
) -> None:
    plain = b'{"prompt": "Why?"}'
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
    tmp_path: Path, read: Callable[[Path], object], content: bytes | None, message: str
) -> None:
    path = tmp_path / "f"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        read(path)
    assert str(refusal.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(refusal.value)
