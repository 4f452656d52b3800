"""A small experiment of the same shape, to try a deployment in minutes."""

from __future__ import annotations

import io
from typing import Any, Final

from ruamel.yaml import YAML

from experiment.fields import ExperimentError
from experiment.runtimes import Mode, Workload, serving_in_words
from experiment.schema import Experiment

# Both have 16 heads, as the article's draft has, which NxDI shards over 32 cores as well.
TARGET: Final = ("Qwen/Qwen3-1.7B", "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e")
DRAFT: Final = ("Qwen/Qwen3-0.6B", "c1899de289a04d12100db370d81485cdf75e47ca")
LENGTH: Final = 512
TOKENS: Final = 64
REQUESTS: Final = 8

# Their names differ from the experiment's: these figures must not appear in its curves.
CASES: Final = tuple(
    {"name": f"smoke-{structure}", "line": line, "structure": structure, "headline": True}
    for structure, line in (
        ("structured", "counting numbers from 1 "),
        ("open-ended", "I believe the meaning of life is"),
    )
)


def smoke_experiment(experiment: Experiment, file: str) -> str:
    """YAML of ``experiment``, read from ``file``, with small models, few tokens and few requests.

    It has the same name, and so the same stacks and nodes. No small heads are known, so its
    variants use a draft model: fused, or vanilla where they are jobs. Of a sweep it has one window.

    Raises ExperimentError for a runtime without that mode.
    """
    mode = Mode.VANILLA if experiment.workload is Workload.JOB else Mode.FUSED
    if mode not in experiment.serving_runtime.modes:
        raise ExperimentError(
            f'{file}: runtime = "{experiment.runtime}": services are tried in mode {mode} alone, '
            f"which is served by {serving_in_words(mode)}; deploy {file} itself"
        )
    data: dict[str, Any] = experiment.model_dump(mode="json")
    for speculation in data["speculation"] or ():
        least = experiment.serving_runtime.modes[mode].minimum_tokens
        window = max(speculation["num_speculative_tokens"], least)
        speculation |= {"mode": str(mode), "draft": None, "num_speculative_tokens": window}
    if experiment.sweep:
        # Each batch keeps one variant and its baseline, and no more nodes than those.
        batches = data["sweep"]["batches"] or (None,)
        widest = max(s.num_speculative_tokens for s in experiment.speculations)
        data["sweep"] |= {"mode": str(mode), "drafts": None, "windows": [widest]}
        data["capacity"]["nodes"] = min(experiment.capacity.nodes, 2 * len(batches))
    data["models"] = {
        role: {"id": name, "revision": revision}
        for role, (name, revision) in (("target", TARGET), ("draft", DRAFT))
    }
    data["serving"]["length"] = LENGTH
    data["benchmark"] |= {
        "concurrency": experiment.concurrency_without_a_queue,
        "load": None,
        "requests": REQUESTS,
        "rounds": 1,
        "mean_input_tokens": TOKENS,
        "stddev_input_tokens": 0,
        "mean_output_tokens": TOKENS,
        "stddev_output_tokens": 0,
        "test_cases": list(CASES),
    }
    data["published"] = []
    if experiment.quality:
        data["quality"]["limit"] = 1
    untried = sorted({str(s.mode) for s in experiment.speculations if s.mode is not mode})
    text = io.StringIO()
    text.write(f"# Made by make smoke from {file}: the same stacks, tried with a small pair.\n")
    text.write(f"# Deploy it before {file}. Its results say nothing about speculation.\n")
    if untried:
        modes = ", ".join(untried)
        text.write(f"# Not tried: mode {modes}, and what prepares it; in its place is {mode}.\n")
    text.write("\n")
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(data, text)
    return text.getvalue()
