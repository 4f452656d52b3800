"""The configuration: what is accepted, and how the rest is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from spectap.errors import ConfigError
from spectap.inputs import config
from spectap.inputs.load_points import LoadPoint
from tests import samples

CASE = {"name": "x", "line": None, "structure": "structured"}


def write(folder: Path, contents: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(contents), encoding="utf-8")
    return path


def test_what_is_dumped_is_read_back(tmp_path: Path) -> None:
    mt_bench = {"set": "mt-bench", "classes": ["coding", "math"], "limit": 8}
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


BASE = {"name": "Base", "endpoint": "http://h:1/v1"}
K7 = {"name": "k7", "endpoint": "http://h:2/v1", "baseline": "Base", "window": 7}
TWICE = samples.loads({"rate": 2, "requests": 1}, {"rate": 2.0, "requests": 3})
ONE = {"rate": 1, "requests": 1}
BOTH = samples.loads({**ONE, "concurrency": 1}, ONE)
TPOT = {"figure": "tpot-ms", "variant": "Base"}
TWO_VALUES = {
    "source": "https://example.org",
    "conditions": "TP 8",
    "test_case": "x",
    "concurrency": 1,
    "figures": [{**TPOT, "value": 15}, {**TPOT, "value": 16}],
}
LAUNCHES = samples.load(rounds=3, launches=3)
PASSWORD = {**BASE, "endpoint": "http://me:hidden@h:1/v1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"load": BOTH}, "load.points.0: needs either concurrency or rate"),
        ({"load": TWICE}, "load: points: rate-2 is duplicated"),
        ({"load": samples.load(mean_input_tokens=40)}, "load.mean_input_tokens: .* 41"),
        ({"load": samples.load(rounds=0)}, "load.rounds: must be at least 1"),
        ({"load": samples.load(rounds=10**12)}, "load.rounds.at_most: .* equal to 10000"),
        ({"load": samples.load(launches=2)}, "load: launches: must be 1 or at least 3"),
        ({"load": samples.load(launches=3)}, "load: launches: rounds must be a multiple of 3"),
        ({"load": LAUNCHES, "isolated": True}, "launches: must be 1 where"),
        ({"objectives": {"ttft_p90_ms": 5, "e2e_p90_ms": 4}}, "e2e_p90_ms must be more than ttft"),
        ({"variants": []}, "the first must be a baseline"),
        ({"variants": [BASE, BASE]}, "variants: Base is duplicated"),
        ({"variants": [BASE, {**K7, "baseline": "k9"}]}, "variants: k7: k9 is not a baseline"),
        ({"variants": [BASE, {**K7, "endpoint": None}]}, "all or none must have an endpoint"),
        ({"variants": [PASSWORD]}, "endpoint: String should match pattern '[^']*'$"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"published": [TWO_VALUES]}, "published.0.figures: .*tpot-ms of Base has two values"),
        ({"bucket": None}, "bucket and region: both or neither"),
    ],
)
def test_refuses_in_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        config.read(write(tmp_path, samples.settings(**changes)))
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
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"config.json: Invalid JSON"):
        config.read(path)


@pytest.mark.parametrize(("batch", "needed"), [(None, 2), (2, 2), (1, 1)])
def test_beyond_the_batch_failures_are_what_the_load_does(batch: int | None, needed: int) -> None:
    """Two requests at once: a turn is not repeated until neither of them fails."""
    base = {"name": "Base", "endpoint": "http://h:1/v1", "batch": batch}
    configured = samples.config(variants=[base])
    assert configured.needed(configured.load.points[0]) == needed
    # At rates a control is a full batch.
    rates = samples.config(variants=[base], load=samples.loads({"rate": 20.0, "requests": 2}))
    assert rates.wave == LoadPoint(concurrency=batch or 1, requests=batch or 1)
