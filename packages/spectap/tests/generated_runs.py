"""Runs made up for the tests: a folder as the benchmark leaves it, with known figures in it.

The times follow speculative decoding: a step of a variant with a window costs ``SD_STEP`` seconds
and yields one token plus the accepted drafts. A baseline yields one token every ``BASE_STEP``
seconds.
"""

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spectap.records.record import Record, Speculation
from tests import samples

Line = dict[str, Any]

BASE_STEP = 0.045
SD_STEP = 0.064
STARTED = 1_780_000_000.0
CONCURRENCY = 4

# Acceptance per drafted token: 4.3 tokens a step give 3x, 1.42 give 1x.
ACCEPTANCE = {"structured": 0.84, "open-ended": 0.297}

ARTICLE: tuple[Line, ...] = (
    {"name": "Base", "endpoint": "http://127.0.0.1:8000/v1", "baseline": None, "batch": 4},
    {
        **{"name": "SD", "endpoint": "http://127.0.0.1:8001/v1", "baseline": "Base", "batch": 4},
        **{"mode": "fused", "draft": "Qwen/Qwen3-1.7B", "window": 7},
    },
)
TWO_WINDOWS: tuple[Line, ...] = (
    ARTICLE[0],
    {**ARTICLE[1], "name": "k3", "window": 3},
    {**ARTICLE[1], "name": "k7"},
)
TWO_BASELINES: tuple[Line, ...] = (
    ARTICLE[0],
    {**ARTICLE[1], "name": "k7"},
    {**ARTICLE[0], "name": "Base-b8", "batch": 8},
    {**ARTICLE[1], "name": "k7-b8", "baseline": "Base-b8", "batch": 8},
)

CASES: tuple[tuple[str, str, bool], ...] = (
    ("repetition", "structured", True),
    ("counting", "structured", False),
    ("open-ended", "open-ended", True),
)


def config(
    cases: Iterable[tuple[str, str, bool]] = CASES,
    requests: int = 4,
    rounds: int | Line = 6,
    output_tokens: int = 100,
    variants: Iterable[Line] = ARTICLE,
) -> Line:
    """The content of ``config.json``."""
    return samples.settings(
        variants=[*variants],
        load=samples.load(
            concurrency=CONCURRENCY,
            requests=requests,
            rounds=rounds,
            mean_output_tokens=output_tokens,
            timeout_seconds=1200,
        ),
        test_cases=[
            {"name": name, "line": f"{name} ", "structure": structure, "headline": headline}
            for name, structure, headline in cases
        ],
        settings={
            "Target": "Qwen/Qwen3-32B",
            "Draft": "Qwen/Qwen3-1.7B",
            "Speculation": "fused, 7 tokens",
            "Devices": "8 per service",
            "Tensor parallel": "32",
        },
    )


def ledger(
    configuration: Line, seed: int = 1, acceptance: Mapping[str, float] = ACCEPTANCE
) -> list[Line]:
    """Every line of a run of the most rounds it may have, a warm-up round included.

    ``acceptance``: how often a draft is accepted, by the structure of the test case.
    """
    chance = random.Random(seed)
    load, rounds = configuration["load"], configuration["load"]["rounds"]
    [point] = load["points"]
    most = rounds if isinstance(rounds, int) else rounds["at_most"]
    lines: list[Line] = []
    clock = STARTED
    for number in range(most + 1):
        for case in configuration["test_cases"]:
            took = 0.0
            for variant in configuration["variants"]:
                share, window = acceptance[case["structure"]], variant.get("window")
                name = f"{case['name']}-{variant['name']}-{number}"
                # A slot has one request in flight; the next follows when that has ended.
                free = [clock + slot * 0.001 for slot in range(point["concurrency"])]
                for index in range(point["requests"] if number else point["concurrency"]):
                    slot = free.index(min(free))
                    chunks = _chunks(share, window, load["mean_output_tokens"], chance)
                    end = chunks[-1][0] + 0.002
                    took = max(took, free[slot] + end - clock)
                    lines.append(
                        samples.RECORD
                        | {
                            "run": "article-20260521-0940",
                            "variant": variant["name"],
                            "case": case["name"],
                            "round": number,
                            "request": f"{name}-{index}",
                            "sent": free[slot],
                            "output_tokens": load["mean_output_tokens"],
                            "chunks": chunks,
                            "end": end,
                            "speculation": _speculation(chunks, window),
                        }
                    )
                    free[slot] += end + 0.05
            clock += took + 1
    return lines


def write(folder: Path, configuration: Line, lines: Iterable[Line], torn: bool = False) -> Path:
    """Writes a run's folder, the last line of its ledger torn if asked for, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "ledger.jsonl").write_text(text[:-30] if torn else text, encoding="utf-8")
    return folder


def write_llmperf(folder: Path, lines: Iterable[Line]) -> None:
    """Writes llmperf's files for the same requests, counted as llmperf counts them."""
    grouped: dict[Path, list[Line]] = {}
    for line in lines:
        of_round = folder / "llmperf" / line["case"] / line["variant"] / f"round-{line['round']}"
        failed = line["error"] is not None
        grouped.setdefault(of_round / "model_64_100_individual_responses.json", []).append(
            {
                "error_code": 500 if failed else None,
                "error_msg": line["error"] or "",
                "inter_token_latency_s": 0
                if failed
                else line["chunks"][-1][0] / (len(line["chunks"]) + 1),
                "end_to_end_latency_s": line["end"],
            }
        )
    for path, responses in grouped.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(responses), encoding="utf-8")


def record(line: Line) -> Record:
    """A line of a generated ledger."""
    told = line["speculation"] and Speculation(**line["speculation"])
    return Record(**{**line, "chunks": tuple(map(tuple, line["chunks"])), "speculation": told})


def fail(line: Line, error: str = "the server reset the connection") -> Line:
    """The same request, failed in mid-stream."""
    return {**line, "error": error, "chunks": line["chunks"][:2], "output_tokens": None}


def slowed(line: Line, factor: float) -> Line:
    """The same request, ``factor`` times slower."""
    chunks = [[offset * factor, tokens] for offset, tokens in line["chunks"]]
    return {**line, "chunks": chunks, "end": line["end"] * factor}


def uncounted(line: Line) -> Line:
    """The same request from a server that counts tokens per request only."""
    return {**line, "per_chunk": False, "chunks": [[offset, 0] for offset, _ in line["chunks"]]}


def _speculation(chunks: list[list[float]], window: int | None) -> Line | None:
    """What vLLM tells of a request, where it is asked to."""
    steps = len(chunks) - 1
    accepted = sum(int(tokens) - 1 for _, tokens in chunks[1:])
    return {"drafts": window * steps, "accepted": accepted, "steps": steps} if window else None


def _chunks(
    acceptance: float, window: int | None, tokens: int, chance: random.Random
) -> list[list[float]]:
    pace = chance.gauss(1, 0.02)
    offset = 0.21 * chance.gauss(1, 0.05)
    chunks, written = [[offset, 1]], 1
    while written < tokens:
        size = 1
        while window and size < window and chance.random() < acceptance:
            size += 1
        size = min(size, tokens - written)
        offset += (BASE_STEP if window is None else SD_STEP) * pace
        chunks.append([offset, size])
        written += size
    return chunks
