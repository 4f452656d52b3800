"""Configurations and records that several tests start from."""

from pathlib import Path
from typing import Any, Final

from spectap.analysis.summary import Cell
from spectap.inputs.config import Config
from spectap.inputs.prompt import Prompt
from spectap.records.record import Record


def settings(**changes: Any) -> dict[str, Any]:
    """The contents of a small valid configuration file; ``changes`` replace top-level keys."""
    return {
        "experiment": "article",
        "model": "Qwen/Qwen3-32B",
        "variants": variants(Base="http://127.0.0.1:1/v1", SD="http://127.0.0.1:2/v1"),
        "region": "us-east-2",
        "bucket": "results-bucket",
        "load": load(),
        "test_cases": [
            {"name": "counting", "line": "counting ", "structure": "structured", "headline": True},
            {"name": "sonnets", "line": None, "structure": "open-ended", "headline": True},
        ],
        "cost": {
            "usd_per_hour": 35.7608,
            "price_of": "capacity-block in us-east-2",
            "as_of": "2026-05-21",
            "share": 0.5,
            "denominator": "8 of 16 devices of one trn2.48xlarge",
        },
        "settings": {"Target": "Qwen/Qwen3-32B"},
    } | changes


def variants(**endpoints: str) -> list[dict[str, Any]]:
    """``variants`` of ``settings``, from names and base URLs; the first is the only baseline."""
    first = next(iter(endpoints))
    return [
        {"name": name, "endpoint": url, "baseline": None if name == first else first}
        for name, url in endpoints.items()
    ]


def load(**changes: Any) -> dict[str, Any]:
    """The ``load`` of ``settings``; ``concurrency`` and ``requests`` are its one load point's."""
    point = {key: changes.pop(key, 2) for key in ("concurrency", "requests")}
    return {
        "mean_input_tokens": 64,
        "stddev_input_tokens": 0,
        "mean_output_tokens": 20,
        "stddev_output_tokens": 0,
        "points": [point],
        "rounds": 2,
        "timeout_seconds": 20,
        "sampling": {"temperature": 0.0},
    } | changes


def loads(*points: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The ``load`` of ``settings``, at these load points."""
    return load(points=[*points], **changes)


def config(**changes: Any) -> Config:
    """``settings``, validated."""
    return Config.model_validate(settings(**changes))


RECORD: Final[dict[str, Any]] = {
    "run": "r",
    "variant": "SD",
    "case": "counting",
    "round": 1,
    "request": "q",
    "sent": 1_800_000_000.0,
    "status": 200,
    "error": None,
    "prompt_tokens": 64,
    "output_tokens": 8,
    "stream": True,
    "per_chunk": True,
    "chunks": ((0.2, 1), (0.3, 4), (0.4, 3)),
    "end": 0.5,
}


def record(**changes: Any) -> Record:
    """A good streamed request of 1 + 4 + 3 tokens at 0.2, 0.3 and 0.4 s."""
    return Record(**(RECORD | changes))


def prompt(name: str = "p", text: str = "?", **fields: Any) -> Prompt:
    """A prompt of one message."""
    return Prompt(name=name, messages=({"role": "user", "content": text},), **fields)


def cell(variant: str, **changes: Any) -> Cell:
    """A cell of 24 good requests, of which nothing else is known."""
    values: dict[str, Any] = {
        "variant": variant,
        "test_case": "counting",
        "load": None,
        "requests": 24,
        "errors": 0,
        "most_frequent_error": None,
        "repeated_errors": 0,
        "expected": None,
        "missing": 0,
        "measures": {},
        "tokens_per_second": None,
        "tokens_per_second_interval": None,
        "usd_per_million_output_tokens": None,
        "usd_per_million_output_tokens_interval": None,
        "steps": None,
    }
    return Cell(**(values | changes))


def contents(folder: Path) -> dict[str, bytes]:
    """What each file in ``folder`` has, by its path there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
