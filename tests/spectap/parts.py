"""A sweep's folder as its indexes leave it in the bucket, made up with known figures."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.spectap import generated_runs
from tests.spectap.generated_runs import CONCURRENCY, TWO_BASELINES, Line

NAMES = tuple(str(variant["name"]) for variant in TWO_BASELINES)


def sweep_configuration(**changes: Any) -> Line:
    """The configuration of all variants: two batches, each with a baseline and a window."""
    generated = generated_runs.config(variants=TWO_BASELINES, rounds=3)
    endpoint = "http://127.0.0.1:8000/v1"
    variants = [{**variant, "endpoint": endpoint} for variant in generated["variants"]]
    return {**generated, "apart": True, "variants": variants, **changes}


def variant_configuration(configuration: Line, name: str) -> Line:
    """The configuration of one variant."""
    (chosen,) = (variant for variant in configuration["variants"] if variant["name"] == name)
    return {**configuration, "variants": [{**chosen, "baseline": None}]}


def write(folder: Path, complete: Collection[str] = NAMES) -> Path:
    """A sweep in which these variants are complete, and the others are under way."""
    configuration = sweep_configuration()
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps(configuration), encoding="utf-8")
    for seed, name in enumerate(NAMES):
        results = folder / "variants" / name
        of_one = variant_configuration(configuration, name)
        lines = [*generated_runs.ledger(of_one, seed)]
        lines = [*controls(lines, 1), *lines, *controls(lines, 2)]
        generated_runs.write(results, of_one, [{**line, "run": name} for line in lines])
        generated_runs.write_llmperf(results, [line for line in lines if line["round"] > 0])
        if name in complete:
            (results / "_COMPLETE").touch()
    return folder


def controls(lines: Iterable[Line], attempt: int, requests: int = CONCURRENCY) -> Iterator[Line]:
    """A control of so many requests, like the warm-up among ``lines``."""
    first = [line for line in lines if line["round"] == 0][:requests]
    for line in first:
        request = f"{line['request']}-control-{attempt}"
        yield {**line, "round": -1, "attempt": attempt, "request": request}


def append(path: Path, lines: Iterable[Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def files(folder: Path) -> dict[str, bytes]:
    """What is in the run itself, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] != "variants"
    }
