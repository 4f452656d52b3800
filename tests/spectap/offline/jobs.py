"""Job variants with an empty disk of their own, and a generator whose truth is known."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spectap import samples
from tests.spectap.commands.indexes import stored

Line = dict[str, Any]

RUN_ID = "offline-1a2b3c4d"
PREFILL, BASE_STEP, STEP = 0.2, 0.05, 0.08
"""Seconds. A step of vanilla runs the draft seven times and the target once."""
WINDOW = 7
ACCEPTANCE = 0.8
TIMES: Line = {
    "latency_ms_p50": 51.0,
    "latency_ms_p90": 52.0,
    "latency_ms_p95": 53.0,
    "latency_ms_p99": 54.0,
    "latency_ms_p100": 55.0,
    "latency_ms_avg": 51.5,
    "throughput": 1234.5,
}
VARIANTS: list[Line] = [
    {"name": "Base", "baseline": None, "batch": 1, "served": "0a1b2c3d"},
    {
        **{"name": "vanilla", "baseline": "Base", "batch": 1, "served": "4e5f6a7b"},
        **{"mode": "vanilla", "draft": "Qwen/Qwen3-1.7B @ 70d244cc"},
        **{"window": WINDOW, "drafts_per_step": WINDOW - 1},
    },
]
NAMES = [one["name"] for one in VARIANTS]


def settings(**changes: Any) -> Line:
    """The configuration of both variants."""
    load = samples.load(concurrency=1, requests=2, rounds=3, mean_output_tokens=40)
    told = {"apart": True, "variants": VARIANTS, "load": load}
    return samples.settings(**(told | changes))


def generations(asked: list[Line], variant: str, start: float) -> Iterator[Line]:
    """What a generator makes of these lines of ``generate.jsonl``, one prompt after the other."""
    clock = start
    for number, line in enumerate(asked):
        chance = random.Random(f"{variant} {number} {line['case']}")
        steps = [*_steps(chance, variant, line["max_tokens"])]
        copied = ("case", "load", "round", "attempt", "prompt", "prompt_class")
        yield {
            **{key: line[key] for key in copied},
            "sent": clock,
            "prompt_tokens": 64,
            "steps": steps,
            "end": steps[-1][0] + 0.001,
            "output_tokens": sum(tokens for _, tokens in steps),
            "text": f"the answer to {line['messages'][-1]['content'][:200]}",
            "finish": "length",
            "error": None,
        }
        clock += steps[-1][0] + 0.01


def failed(line: Line, error: str) -> Line:
    """The same generation, which came to nothing."""
    nothing = {"steps": [], "end": 0.5, "output_tokens": 0, "text": "", "finish": None}
    return {**line, **nothing, "error": error}


def _steps(chance: random.Random, variant: str, most: int) -> Iterator[tuple[float, int]]:
    at, written = PREFILL, 1
    yield at, 1
    while written < most:
        size = 1
        while variant != "Base" and size < WINDOW and chance.random() < ACCEPTANCE:
            size += 1
        size = min(size, most - written)
        at += (BASE_STEP if variant == "Base" else STEP) * chance.gauss(1, 0.01)
        written += size
        yield at, size


class Jobs:
    """Their configuration on the disk, and what the containers of an index's pod are told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run_id, self.pods = folder, RUN_ID, 0
        # CloudWatch takes nothing that is older than two weeks.
        self.clock = time.time() - 3600
        self.write()

    def write(self, **changes: Any) -> None:
        """The configuration; ``changes`` replace top-level keys."""
        (self.folder / "config.json").write_text(json.dumps(settings(**changes)), encoding="utf-8")

    def pod(self, variant: str) -> dict[str, str]:
        """The environment of a new pod of this variant's index, with an empty disk."""
        self.pods += 1
        return {
            "BENCHMARK_CONFIG": str(self.folder / "config.json"),
            "RESULTS_DIR": str(self.folder / f"pod-{self.pods}"),
            "RUN_ID": self.run_id,
            "JOB_COMPLETION_INDEX": str(NAMES.index(variant)),
        }

    @property
    def root(self) -> Path:
        """The whole run's folder in the pod that was made last."""
        return self.folder / f"pod-{self.pods}" / self.run_id

    def own(self, variant: str) -> Path:
        """The variant's folder in the pod that was made last."""
        served = next(one["served"] for one in VARIANTS if one["name"] == variant)
        return self.root / "variants" / f"{variant}-{served}"

    def asked(self, variant: str) -> list[Line]:
        """What is to be generated."""
        path = self.own(variant) / "generate.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def generate(
        self, variant: str, *, until: int | None = None, status: int = 0, fails: str = ""
    ) -> None:
        """Generates what is asked, or as many prompts of it, and ends; the last may fail."""
        lines = [*generations(self.asked(variant)[:until], variant, self.clock)]
        if lines:
            self.clock = lines[-1]["sent"] + 600
        if fails:
            lines[-1] = failed(lines[-1], fails)
        with (self.own(variant) / "generations.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        self.end(variant, status)

    def end(self, variant: str, status: int = 0) -> None:
        """Says that generating has ended."""
        (self.own(variant) / "generate.ended").write_text(f"{status}\n", encoding="utf-8")

    def stored(self) -> dict[str, bytes]:
        """What the bucket has of the run, by path in the run's folder."""
        return stored(self.run_id)
