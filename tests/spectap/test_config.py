"""The configuration: what is accepted, and how the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectap import config
from spectap.errors import ConfigError
from tests.spectap import samples

CASE = {"name": "x", "line": None, "structure": "structured"}


def write(folder: Path, contents: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(contents), encoding="utf-8")
    return path


def test_what_is_dumped_is_read_back(tmp_path: Path) -> None:
    mt_bench = {"known": "mt-bench", "classes": ["coding", "math"], "limit": 8}
    contents = samples.settings(test_cases=[CASE, {"name": "y", "prompts": mt_bench}])
    loaded = config.read(write(tmp_path, contents | {"model": "Größe 🎉"}))
    # A template keeps ASCII alone.
    assert config.dump(loaded).isascii()
    assert config.Config.model_validate_json(config.dump(loaded)) == loaded
    line, of_set = json.loads(config.dump(loaded))["test_cases"]
    assert "prompts" not in line
    assert of_set["prompts"].items() >= mt_bench.items()
    assert [case.source for case in loaded.test_cases] == [
        "llmperf's own text (Shakespeare's sonnets)",
        "mt-bench (coding, math), 8 of them",
    ]


VARIANTS: list[dict[str, Any]] = [
    {"name": "Base", "endpoint": "http://h:1/v1"},
    {"name": "k7", "endpoint": "http://h:2/v1", "baseline": "Base", "window": 7},
    {"name": "k3", "endpoint": "http://h:3/v1", "baseline": "Base", "window": 3},
]


def variants(*changes: dict[str, Any]) -> dict[str, Any]:
    changed = [variant | change for variant, change in zip(VARIANTS, changes, strict=False)]
    return samples.settings(variants=changed)


def loads(*points: dict[str, Any]) -> dict[str, Any]:
    return samples.settings(load=samples.loads(*points))


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (loads(), "load.points: Tuple should have at least 1 item"),
        (
            loads({"concurrency": 1, "rate": 1, "requests": 1}, {"rate": 1, "requests": 1}),
            "load.points.0: needs either concurrency or rate",
        ),
        (
            loads({"rate": 2, "requests": 1}, {"rate": 2.0, "requests": 3}),
            "load: points: rate-2 is duplicated",
        ),
        (
            samples.settings(objectives={"ttft_p90_ms": 500, "e2e_p90_ms": 400}),
            "objectives: e2e_p90_ms must be more than ttft_p90_ms, 500",
        ),
        (samples.settings(bucket=""), "bucket: String should have at least 1 character"),
        (
            samples.settings(load=samples.load(mean_input_tokens=40)),
            "load.mean_input_tokens: .* 41",
        ),
        (samples.settings(test_cases=[CASE] * 2), "test_cases: x is duplicated"),
        (
            variants({"endpoint": "http://me:hidden@h:1/v1"}),
            r"config.json: variants.0.endpoint: String should match pattern '[^']*'$",
        ),
        (variants({}, {"name": "Base"}), "variants: Base is duplicated"),
        (variants({}, {"baseline": "k9"}), "variants: k7: k9 is no baseline"),
        (variants({"endpoint": "h"}), r"variants.0.endpoint: .* pattern"),
        (samples.settings(load=samples.load(rounds=0)), "load.rounds: must be at least 1"),
    ],
)
def test_refuses_in_one_line(tmp_path: Path, contents: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        config.read(write(tmp_path, contents))
    assert "\n" not in str(refusal.value)
    assert "config.json: " in str(refusal.value)


def test_refuses_with_a_line_for_each_error_and_files_that_are_no_json(tmp_path: Path) -> None:
    path = write(tmp_path, samples.settings(cost={}))
    with pytest.raises(ConfigError) as refusal:
        config.read(path)
    assert str(refusal.value).splitlines() == [
        f"{path}: cost.{field}: Field required"
        for field in ("usd_per_hour", "as_of", "share", "denominator")
    ]
    path.write_text('{"model":', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config.json: Invalid JSON"):
        config.read(path)
