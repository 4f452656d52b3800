"""What two files say differently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.diff.fields import differences, most_similar, read
from tests.experiment.files import ARTICLE, EXPERIMENTS, edited


@pytest.fixture
def article() -> dict[str, Any]:
    return dict(read(ARTICLE))


def of(tmp_path: Path, changes: dict[str, Any]) -> dict[str, Any]:
    file = tmp_path / "mine.yaml"
    file.write_text(edited(changes))
    return dict(read(file))


def test_layout_and_comments_are_no_difference(article: dict[str, Any], tmp_path: Path) -> None:
    assert differences(article, of(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"capacity.nodes": 2}, ["capacity.nodes: 1 -> 2"]),
        ({"benchmark.temperature": 0.5}, ["benchmark.temperature: 0.0 -> 0.5"]),
        (
            {"aws.api_access": ["10.0.0.0/8"]},
            [
                "aws.api_access[0]: absent -> 10.0.0.0/8",
                "aws.api_access: [] -> absent",
            ],
        ),
        (
            {"benchmark.test_cases.2.line": "a "},
            [
                'benchmark.test_cases[counting].line: "counting numbers from 1 " -> "a "',
            ],
        ),
        (
            {"benchmark.test_cases.4.line": None},
            [
                "benchmark.test_cases[single-letter].line: a -> null",
            ],
        ),
        ({"compiling": {"node": "trainium"}}, ["compiling.node: cpu -> trainium"]),
    ],
)
def test_each_field_is_a_line(
    article: dict[str, Any], tmp_path: Path, changes: dict[str, Any], lines: list[str]
) -> None:
    assert differences(article, of(tmp_path, changes)) == lines


def test_what_has_a_name_goes_by_it(article: dict[str, Any], tmp_path: Path) -> None:
    """A test case that is left out moves none of those after it."""
    without = dict(article)
    for path in article:
        if "[repeat-line]" in path:
            del without[path]
    assert differences(article, without) == ["benchmark.test_cases[repeat-line]: gone"]
    assert differences(without, article) == ["benchmark.test_cases[repeat-line]: new"]


def test_a_copy_is_most_similar_to_what_it_was_copied_from() -> None:
    files = {path.stem: read(path) for path in sorted(EXPERIMENTS.glob("*.yaml"))}
    for name, fields in files.items():
        copied = {**fields, "name": "mine", "capacity.nodes": 8, "benchmark.rounds": 99}
        assert most_similar(copied, files) == name


def test_a_shorter_file_of_another_model_or_mode_is_less_similar() -> None:
    files = {path.stem: read(path) for path in sorted(EXPERIMENTS.glob("*.yaml"))}
    # As little as is possible of the article's: most of what any file says differs from it.
    fused = {name: files["article"][name] for name in ("models.target.id", "speculation.mode")}
    for mode, target, similar in (
        ("eagle3", "Qwen/Qwen3-32B", "eagle3-qwen3"),
        ("eagle3", "meta-llama/Llama-3.3-70B-Instruct", "eagle3"),
        ("medusa", "lmsys/vicuna-7b-v1.3", "medusa"),
    ):
        changed = {**fused, "models.target.id": target, "speculation.mode": mode}
        assert most_similar(changed, files) == similar


def test_nothing_is_similar_to_nothing() -> None:
    assert most_similar({"name": "mine"}, {}) is None
