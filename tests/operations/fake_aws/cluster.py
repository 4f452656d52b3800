"""What happens in the cluster: objects that a deploy has applied, and what becomes of them.

It looks four times a minute at what each pod needs, and for how long the pod has had that. The API
server of ``tests/cluster`` is a real one; this one has the stages see a pod wait, run, and lose its
node.
"""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charts.benchmark import benchmark_config
from charts.names import (
    NODE_GROUP_LABEL,
    TRAINIUM_NODES,
    Deployed,
    artifact_prefix,
    model_prefix,
    namespace,
    node_label,
)
from charts.sweep_job import indexed_config, run_id
from experiment import Experiment
from experiment.variants import variants
from spectap.inputs import config
from spectap.names import COMPLETE, CONFIG, MERGED, results_key, variant_run
from stacks.limits import LAST_APPLIED
from tests.experiment.files import REGION
from tests.operations.api import Objects, path
from tests.operations.fake_aws import FakeAws
from tests.operations.fake_aws.service import MINUTE

Manifest = dict[str, Any]

_LOOK: Final = 15.0
_VERSION: Final = (
    *("major", "minor", "gitVersion", "gitCommit", "gitTreeState"),
    *("buildDate", "goVersion", "compiler", "platform"),
)


@dataclass
class Work:
    """What one pod does, once it has what it needs, and again if it loses that."""

    name: str
    manifest: Manifest
    seconds: float
    needs: Callable[[], bool]
    begins: Callable[[], None] = lambda: None
    ends: Callable[[], None] = lambda: None
    serves: bool = False
    """Whether it goes on afterwards, for as long as it has what it needs."""
    elapsed: float = 0.0
    is_over: bool = False

    def look(self, seconds: float) -> bool:
        """Goes on for so long; whether it has just begun."""
        if self.is_over and not self.serves:
            return False
        if not self.needs():
            self.elapsed, self.is_over = 0.0, False
            return False
        has_begun = not self.elapsed
        if has_begun:
            self.begins()
        self.elapsed += seconds
        if self.elapsed >= self.seconds and not self.is_over:
            self.is_over = True
            self.ends()
        return has_begun

    @property
    def phase(self) -> str:
        if self.is_over and not self.serves:
            return "Succeeded"
        return "Running" if self.elapsed else "Pending"


class Cluster:
    """The namespace, and the nodes that have joined."""

    def __init__(self, aws: FakeAws, objects: Objects, experiment: Experiment, bucket: str) -> None:
        self.experiment, self.bucket = experiment, bucket
        self.begun = Counter[str]()
        """How often each work that comes to an end was begun."""
        self.written: dict[str, float] = {}
        """When each object of the bucket was written first."""
        self._aws, self._objects = aws, objects
        self._works: list[Work] = []
        every = variants(experiment)
        self._graphs = [artifact_prefix(variant.artifact) for variant in every]
        models = [experiment.models.target, *(variant.draft for variant in every)]
        self._models = [model_prefix(model) for model in models if model]
        objects.on_created, objects.on_deleted = self._made_again, self._deleted
        objects.named["version/"] = dict.fromkeys(_VERSION, "any")

    def make_bucket(self, imports: bool) -> bool:
        """As the deploy does it; whether it can: one that is there has to be taken back."""
        if self.bucket in self._aws.store.buckets:
            return imports
        self._aws.store.buckets[self.bucket] = {}
        return True

    def apply(self, manifests: Sequence[Manifest]) -> None:
        """As the deploy does it; from now on what they say goes on."""
        was_empty, self._works = not self._works, []
        for manifest in manifests:
            applied = json.dumps(manifest)
            manifest["metadata"]["annotations"] = {LAST_APPLIED: applied}
            self._objects.named[path(manifest)] = manifest
            self._create(manifest)
        if was_empty:
            self._look()

    def _create(self, manifest: Manifest) -> None:
        manifest["metadata"] |= {
            "uid": str(uuid.uuid4()),
            "generation": 1,
            "namespace": namespace(self.experiment),
            "creationTimestamp": self._aws.clock.now().isoformat(),
        }
        if work := self._work(manifest):
            self._works.append(work)

    def _made_again(self, manifest: Manifest) -> None:
        self._create(manifest)
        self._show()

    def _deleted(self, name: str) -> None:
        self._works = [work for work in self._works if work.name != name]

    def nodes(self, group: str) -> list[float]:
        groups = self._aws.eks.groups.values()
        return [node for each in groups if each.name.startswith(group) for node in each.nodes]

    def _work(self, manifest: Manifest) -> Work | None:
        name, labels = manifest["metadata"]["name"], manifest["metadata"].get("labels", {})
        if labels.get("step") == "download":
            return Work(name, manifest, MINUTE, lambda: True, ends=lambda: self._mark(self._models))
        if labels.get("step") == "compile":
            # Each on a node of its own.
            number = sum(work.name.startswith("compile-") for work in self._works)
            return Work(
                *(name, manifest, 2 * MINUTE),
                lambda: len(self.nodes("compile")) > number and self._has_checkpoints(),
                ends=lambda: self._mark([self._graphs[number]]),
            )
        if manifest["kind"] == "Deployment":
            return Work(name, manifest, MINUTE, self._can_serve, serves=True)
        if manifest["kind"] == "Pod":
            run = manifest["metadata"]["uid"]
            return Work(
                *(name, manifest, 2 * MINUTE),
                self._all_serve,
                begins=lambda: self._put(results_key(run, "ledger.jsonl")),
                ends=lambda: self._measured(run),
            )
        if manifest["kind"] == "Job" and name.startswith("qwen-sweep"):
            return Work(name, manifest, 2 * MINUTE, self._can_serve, ends=self._swept)
        return None

    def _has_checkpoints(self) -> bool:
        return all(work.is_over for work in self._works if work.name.startswith("download"))

    def _can_serve(self) -> bool:
        nodes = len(self.nodes(TRAINIUM_NODES)) >= self.experiment.capacity.nodes
        return nodes and all(f"{graph}{COMPLETE}" in self.written for graph in self._graphs)

    def _all_serve(self) -> bool:
        return all(work.is_over for work in self._works if work.serves)

    def _mark(self, prefixes: Sequence[str]) -> None:
        for prefix in prefixes:
            self._put(f"{prefix}{COMPLETE}")

    def _measured(self, run: str) -> None:
        written = benchmark_config(self.experiment, Deployed(self.bucket, "any"))
        self._put(results_key(run, CONFIG), config.dump(written))
        self._put(results_key(run, COMPLETE))
        self._stop()

    def _swept(self) -> None:
        run = run_id(self.experiment)
        written = indexed_config(self.experiment, Deployed(self.bucket, "any"))
        for variant in written.variants:
            self._put(results_key(variant_run(run, variant.folder), COMPLETE))
        self._put(results_key(run, CONFIG), config.dump(written))
        self._put(results_key(run, MERGED), json.dumps({"complete": [*written.names]}))
        self._stop()

    def _stop(self) -> None:
        (group,) = (g.name for g in self._aws.eks.groups.values() if g.name.startswith("trainium"))
        self._aws.machines.start(group)

    def _put(self, key: str, body: str = "") -> None:
        self.written.setdefault(key, self._aws.clock.seconds)
        self._aws.store.put(self.bucket, key, body)

    def _look(self) -> None:
        for work in self._works:
            if work.look(_LOOK) and not work.serves:
                self.begun[work.name] += 1
        self._show()
        self._aws.clock.after(_LOOK, self._look)

    def _show(self) -> None:
        lists = self._objects.lists
        joined = self.nodes(TRAINIUM_NODES)
        lists["nodes"] = [self._node(number, since) for number, since in enumerate(joined)]
        now = self._aws.clock.now().isoformat()
        lists["pods"] = [_pod(work, now) for work in self._works]
        lists["jobs"] = [_job(work, now) for work in self._works if work.manifest["kind"] == "Job"]
        lists["deployments"] = [_deployment(work) for work in self._works if work.serves]
        for pod in lists["pods"]:
            self._objects.named[f"pods/{pod['metadata']['name']}"] = pod

    def _node(self, number: int, since: float) -> Manifest:
        return {
            "metadata": {
                "name": f"trainium-{number}",
                "labels": {NODE_GROUP_LABEL: node_label(self.experiment, TRAINIUM_NODES)},
                "creationTimestamp": self._aws.clock.moment(since).isoformat(),
            },
            "spec": {"providerID": f"aws:///{REGION}b/i-{number}"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }


def _pod(work: Work, now: str) -> Manifest:
    manifest = work.manifest
    spec = manifest["spec"] if manifest["kind"] == "Pod" else manifest["spec"]["template"]["spec"]
    ready = "True" if work.phase == "Running" and (work.is_over or not work.serves) else "False"
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": now}
    placed = {"nodeName": "any"} if work.elapsed else {}
    return {
        "metadata": dict(manifest["metadata"]),
        "spec": {**spec, **placed},
        "status": {"phase": work.phase, "conditions": [condition]},
    }


def _job(work: Work, now: str) -> Manifest:
    complete = {"type": "Complete", "status": "True"}
    over: Mapping[str, Any] = {"conditions": [complete], "completionTime": now}
    return {**work.manifest, "status": over if work.is_over else {"active": 1}}


def _deployment(work: Work) -> Manifest:
    ready = {"readyReplicas": 1} if work.is_over else {}
    return {**work.manifest, "status": {"observedGeneration": 1, **ready}}
