"""The configuration: what is accepted, and how it is said what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from benchmark import config
from benchmark.errors import ConfigError
from tests.benchmark import samples

CASE = {"name": "x", "line": None, "structure": "structured"}


def write(folder: Path, contents: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(contents), encoding="utf-8")
    return path


def test_reads_back_what_it_dumps(tmp_path: Path) -> None:
    loaded = config.load(write(tmp_path, samples.settings()))
    (tmp_path / "again.json").write_text(config.dump(loaded), encoding="utf-8")
    assert config.load(tmp_path / "again.json") == loaded


def test_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(samples.config(), "model", "another")  # noqa: B010 (mypy knows it is read-only)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "colour = 'red': Extra inputs are not permitted"),
        ({"bucket": ""}, "bucket = '': String should have at least 1 character"),
        ({"load": samples.load(concurrency=0)}, "load.concurrency = 0: Input should be greater"),
        ({"load": samples.load(mean_input_tokens=40)}, "load.mean_input_tokens = 40: .* 41"),
        ({"endpoints": {"Base": "http://h/v1"}}, "endpoints: must name Base and SD"),
        ({"endpoints": {"Base": "h", "SD": "http://h"}}, r"endpoints.Base = 'h': .* pattern"),
        ({"test_cases": []}, r"test_cases = \[\]: "),
        (
            {"test_cases": [CASE | {"name": "../x"}]},
            r"test_cases\[0\].name = '../x': .* pattern",
        ),
        (
            {"test_cases": [CASE | {"structure": "prose"}]},
            r"test_cases\[0\].structure = 'prose': Input should be 'structured' or 'open-ended'",
        ),
        (
            {"test_cases": [CASE] * 2},
            "test_cases: x is there twice; names must be unique",
        ),
    ],
)
def test_refuses_in_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        config.load(write(tmp_path, samples.settings(**change)))
    assert "\n" not in str(refusal.value)
    assert "config.json: " in str(refusal.value)


def test_refuses_with_a_line_for_each_error(tmp_path: Path) -> None:
    path = write(tmp_path, samples.settings(cost={}, bucket=""))
    with pytest.raises(ConfigError) as refusal:
        config.load(path)
    assert str(refusal.value).splitlines() == [
        f"{path}: bucket = '': String should have at least 1 character",
        *(
            f"{path}: cost.{field}: Field required"
            for field in ("usd_per_hour", "as_of", "share", "denominator")
        ),
    ]


def test_counts_what_would_be_scrolled_past(tmp_path: Path) -> None:
    path = write(tmp_path, samples.settings(test_cases=[CASE | {"name": "../x"}] * 40))
    with pytest.raises(ConfigError) as refusal:
        config.load(path)
    lines = str(refusal.value).splitlines()
    assert len(lines) == config.MOST_SHOWN + 1
    assert lines[-1] == f"{path}: and 20 more"


def test_names_a_file_that_is_not_there_or_not_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.json: cannot be read: No such file"):
        config.load(tmp_path / "none.json")
    (tmp_path / "half.json").write_text('{"model":', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"half.json: is not JSON"):
        config.load(tmp_path / "half.json")
