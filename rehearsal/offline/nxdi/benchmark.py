"""What ``inference_demo --benchmark`` measures and writes: ``utils/benchmark.py``.

Twenty runs, whose throughput counts as many tokens as the graph could hold, those of the prompt
included, whatever the answer's length. The draft is not reset between two runs.
"""

from __future__ import annotations

import copy
import json
import random
import statistics
from pathlib import Path
from typing import Any, Final

from rehearsal.offline.nxdi.device import Imagined
from rehearsal.offline.nxdi.generation import HuggingFaceGenerationAdapter
from rehearsal.offline.nxdi.graphs import Graph
from rehearsal.offline.nxdi.model import Model
from rehearsal.offline.nxdi.tensor import Tensor

RUNS: Final = 20
_PERCENTILES: Final = (50, 90, 95, 99, 100)


def benchmark_sampling(
    model: Model,
    draft_model: Model | None,
    generation_config: Any,
    benchmark_report_path: str = "./benchmark_report.json",
) -> None:
    """Leaves the report. It takes the time that it says on a clock of its own."""
    clock, config = Imagined(), model.neuron_config
    model.device, model.timed = clock.device, False
    told = copy.deepcopy(generation_config)
    if model.on_device_sampling:
        told.eos_token_id = []
    length = config.max_context_length
    if length == config.max_length:
        length //= 2
    chance = random.Random(0)
    ids = Tensor([[chance.randrange(100) for _ in range(length)]])
    others: dict[str, Any] = {}
    if draft_model is not None:
        assistant = HuggingFaceGenerationAdapter(draft_model)
        assistant.generation_config.num_assistant_tokens = config.speculation_length
        others["assistant_model"] = assistant
    collected = {
        graph.name: _Collector(graph, clock)
        for graph in (model.context_encoding_model, model.get_generation_model())
    }
    whole = []
    for run in range(RUNS + 1):
        model.reset()
        if run == 1:  # after the warm-up
            for collector in collected.values():
                collector.begin()
        began = clock.now
        HuggingFaceGenerationAdapter(model).generate(
            ids,
            attention_mask=Tensor([[1] * length]),
            generation_config=told,
            max_new_tokens=config.max_new_tokens,
            max_length=config.max_length,
            **others,
        )
        whole.append(clock.now - began)
    report = {"e2e_model": _figures(whole[1:], config.max_length)}
    for name, collector in collected.items():
        report[name] = _figures(collector.seconds, config.max_length)
    Path(benchmark_report_path).write_text(json.dumps(report), encoding="utf-8")


class _Collector:
    """How long each call of a graph takes."""

    def __init__(self, graph: Graph, clock: Imagined) -> None:
        self._graph, self._clock = graph, clock
        self._began = 0.0
        self.seconds: list[float] = []

    def begin(self) -> None:
        """From now on."""
        self._graph.register_forward_pre_hook(self._before)
        self._graph.register_forward_hook(self._after)

    def _before(self, *_: object) -> None:
        self._began = self._clock.now

    def _after(self, *_: object) -> None:
        self.seconds.append(self._clock.now - self._began)


def _figures(seconds: list[float], length: int) -> dict[str, float] | None:
    if not seconds:
        return None
    at = sorted(seconds)
    found = {
        f"latency_ms_p{percent}": 1000 * at[max(0, -(-len(at) * percent // 100) - 1)]
        for percent in _PERCENTILES
    }
    return {
        **found,
        "latency_ms_avg": 1000 * statistics.fmean(seconds),
        "throughput": RUNS * length / sum(seconds),
    }
