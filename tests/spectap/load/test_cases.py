"""Test cases and prompts out of files."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.config import PromptSource
from spectap.errors import ConfigError
from spectap.load import cases
from spectap.load.cases import of_round
from spectap.load.mix import mixed
from spectap.names import WARM_UP
from spectap.prompt import Prompt

GOOD = '{"name": "a", "line": "b", "structure": "structured"}\n'


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.chdir(tmp_path)

    def written(text: str) -> Path:
        Path("f").write_text(text, encoding="utf-8")
        return Path("f")

    return written


def test_the_first_two_cases_are_drawn_where_none_says_so(write: Callable[[str], Path]) -> None:
    path = write("".join(GOOD.replace('"a"', f'"{name}"') for name in "abc"))
    assert [case.headline for case in cases.read_cases(path)] == [True, True, False]
    path.write_text(GOOD.replace('"a"', '"z"') + GOOD.replace("}", ', "headline": true}'), "utf-8")
    assert [case.headline for case in cases.read_cases(path)] == [False, True]


def test_a_file_of_prompts_is_a_test_case(write: Callable[[str], Path]) -> None:
    path = write("Why?\n\nHow so?\n")
    case = cases.read_prompts(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert case.prompts == PromptSource(file="f", digest=digest)
    assert (case.line, case.structure, case.headline) == (None, None, True)


@pytest.mark.parametrize(
    ("name", "case"), [("my prompts v2.jsonl.gz", "my-prompts-v2"), ("ü.txt", "prompts")]
)
def test_prompts_are_named_after_their_file(tmp_path: Path, name: str, case: str) -> None:
    path = tmp_path / name
    plain = json.dumps({"prompt": "Why?"}).encode()
    path.write_bytes(gzip.compress(plain) if name.endswith("gz") else plain)
    assert cases.read_prompts(path).name == case


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (cases.read_cases, "\n", "f: has no line"),
        (cases.read_cases, GOOD + "\nx", "f:3: Invalid JSON: "),
        (
            cases.read_cases,
            '{"name": "a", "line": "b"}',
            "f:1: structure: must be structured or open-ended",
        ),
        (cases.read_cases, GOOD.replace("structured", "loose"), "f:1: structure: "),
        (cases.read_prompts, "", "f: has no prompt: it is empty"),
        (
            cases.read_prompts,
            '{"prompt": "a"}\n{"prompt": 1}',
            "f:2: prompt = 1: must be a valid string",
        ),
    ],
)
def test_a_bad_line_is_named(
    write: Callable[[str], Path], read: Callable[[Path], object], text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(write(text))
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none: cannot be read: No such file or directory"):
        cases.read_cases(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="binary: is not UTF-8: invalid start byte at byte 0"):
        cases.read_cases(tmp_path / "binary")


@given(
    count=st.integers(1, 20),
    requests=st.integers(1, 30),
    rounds=st.integers(1, 12),
)
def test_prompts_are_dealt_like_cards(count: int, requests: int, rounds: int) -> None:
    prompts = [
        Prompt(name=f"prompt {number}", messages=({"role": "user", "content": "a"},))
        for number in range(count)
    ]
    dealt = [of_round(prompts, number, requests) for number in range(1, rounds + 1)]
    assert [len(of_one) for of_one in dealt] == [requests] * rounds
    in_turn = islice(cycle(mixed(prompts)), requests * rounds)
    assert [prompt for of_one in dealt for prompt in of_one] == [*in_turn]
    assert of_round(prompts, WARM_UP, requests) == of_round(prompts, 1, requests)


def test_of_no_prompts_none_is_sent() -> None:
    assert of_round((), 3, 8) == ()
