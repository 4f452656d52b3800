"""What is true of a way however often it was called: paid only while measuring, nothing twice."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Final

from charts.names import COMPILE_NODES, COMPILED_PREFIX, MODELS_PREFIX, TRAINIUM_NODES
from experiment.schema import CompileNode
from experiment.variants import variants
from rehearsal.account import timeline
from rehearsal.account.world import World
from rehearsal.cluster.kubelet import Played
from spectap.names import RESULTS_PREFIX
from tests.cluster.way import Way

_WORK: Final = ("download", "compile", "llmperf", "benchmark", "generate")
"""Containers that make what is kept, by their names."""


def holds(way: Way) -> None:
    """All of it, of a way that has come to its end."""
    _made_once(way.world)
    _paid_only_while_measuring(way.world)
    (run,) = runs(way)
    assert (way.root / "results" / run / "report.html").is_file()


def runs(way: Way) -> set[str]:
    """Those in the bucket."""
    return {key.split("/")[1] for key in timeline.written(way.world, RESULTS_PREFIX)}


def sizes(account: World, label: str) -> list[int]:
    """Those that a group of nodes has had, from the oldest on."""
    return [size for _, size in timeline.sizes(account).get(label, [])]


def _made_once(account: World) -> None:
    for container in _WORK:
        pods = Counter(map(_of, account.kubelets.ran(container)))
        assert {*pods.values()} <= {1}, container
    executed = account.aws.calls().count("cloudformation:ExecuteChangeSet")
    stacks = account.aws.client("cloudformation").describe_stacks()["Stacks"]
    assert executed == len(stacks)


def _paid_only_while_measuring(account: World) -> None:
    experiment, graphs = account.experiment, _markers(account, COMPILED_PREFIX)
    on_cpu = experiment.compile_node is CompileNode.CPU
    assert len(graphs) == len(variants(experiment))
    assert sizes(account, TRAINIUM_NODES) == [0, experiment.capacity.nodes, 0]
    _, (up, _), (down, _) = timeline.sizes(account)[TRAINIUM_NODES]
    # What compiles on the Trainium nodes needs no more of them than the checkpoints.
    needed = graphs if on_cpu else _markers(account, MODELS_PREFIX)
    assert up >= max(needed.values())
    assert down >= max(graphs.values())
    assert down >= max(timeline.written(account, RESULTS_PREFIX).values())
    if on_cpu:
        assert sizes(account, COMPILE_NODES)[-1] == 0
        assert max(sizes(account, COMPILE_NODES)) == len(graphs)
    else:
        assert sizes(account, COMPILE_NODES) == []


def _markers(account: World, prefix: str) -> dict[str, datetime.datetime]:
    found = timeline.written(account, prefix)
    return {key: time for key, time in found.items() if key.endswith(f"/{timeline.MARKER}")}


def _of(pod: Played) -> tuple[str, str]:
    """What a pod is one of: the index of a Job, or the only one of its kind."""
    labels = dict(pod.labels)
    job = labels.get("batch.kubernetes.io/job-name") or labels["app"]
    return job, labels.get("batch.kubernetes.io/job-completion-index", "")
