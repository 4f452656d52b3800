"""What comes before the Trainium nodes: stacks, a proved guard, all objects, what is compiled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from kubernetes.client import ApiClient, V1Job

from charts.names import artifact_prefix, model_prefix
from deployment import cluster, guard, lifecycle, nodes, pods, proof
from deployment.account import Bucket, DeploymentError
from deployment.cluster import connected
from deployment.nodes import Group, Kind
from deployment.preflight import Status, checks
from deployment.preflight.account import changing_stacks
from deployment.stages.nodes import not_ready, why_no_nodes
from deployment.stages.stage import Progress, Stage, StageFailed
from experiment import Experiment
from experiment.hardware import compile_nodes
from experiment.schema import CompileNode
from experiment.variants import variants


class Check(Stage):
    """The preflight, once no deploy goes on. It says only what is not as it should be."""

    name = "preflight"
    costs = False

    def perform(self, progress: Progress) -> str:
        """Raises DeploymentError, also where a check refuses."""

        def at_rest() -> bool | None:
            """CloudFormation goes on with a deploy that was ended, and refuses another then."""
            if changes := changing_stacks(self.deployment):
                progress.wait("; ".join(changes))
                return None
            return True

        progress.until(at_rest)
        findings = checks(self.deployment)
        problems = [finding for finding in findings if finding.status is not Status.OK]
        for finding in problems:
            progress.say(": ".join(finding))
        refused = sum(finding.status is Status.REFUSED for finding in problems)
        if refused:
            raise DeploymentError(
                f"{refused} of {len(findings)} checks refuse; make preflight lists all"
            )
        return f"{len(findings)} checks"


class Deploy(Stage):
    """Every stack as it is synthesised, without a Trainium node."""

    name = "deploy"
    shows_itself = True

    def existing(self) -> str | None:
        """Compares what CloudFormation has with what synthesis writes."""
        stacks = lifecycle.synthesised(self.deployment)
        if all(lifecycle.unchanged(self.deployment, stack) for stack in stacks):
            return f"{len(stacks)} stacks, of which none has changed"
        return None

    def perform(self, progress: Progress) -> str:
        """Runs the CLI. The assembly is up to date: ``existing`` has written it."""
        if lifecycle.deploy(self.deployment, [], yes=True, is_synthesised=True):
            raise StageFailed("the deploy failed, as the CDK CLI says above")
        return f"{len(lifecycle.assembled(self.deployment))} stacks"


class Prove(Stage):
    """The guard, seen to act once on each group: after a deploy that makes or replaces them."""

    name = "guard"

    def existing(self) -> str | None:
        """Asks for the proofs. Nodes that are running are not ended for one."""
        if self._unproved():
            return None
        groups = nodes.groups(self.deployment)
        if all(proof.is_proved(self.deployment, group) for group in groups):
            return "seen to scale nodes to 0"
        return "not tried while nodes are running"

    def perform(self, progress: Progress) -> str:
        """Before any node is paid for."""
        groups = self._unproved()
        proved = proof.prove(self.deployment, groups, progress.wait)
        if len(proved) < len(groups):
            return "not tried: EKS makes no update of a size that a group has already"
        return f"seen to scale {' and '.join(group.kind for group in proved)} nodes to 0"

    def _unproved(self) -> list[Group]:
        return [
            group
            for group in nodes.groups(self.deployment)
            if not group.size
            and not guard.find(self.deployment, group.kind)
            and not proof.is_proved(self.deployment, group)
        ]


class Restore(Stage):
    """Every object of the manifests. A deploy that changes nothing makes none.

    Before any node is paid for: whatever waits for an object that is gone waits in vain.
    """

    name = "objects"

    def existing(self) -> str | None:
        """Asks for each."""
        manifests = lifecycle.manifests(self.deployment)
        with connected(self.deployment) as api:
            for manifest in manifests:
                existing = cluster.find(api, manifest)
                if existing is None or _is_ending(existing):
                    return None
        return f"all {len(manifests)} exist"

    def perform(self, progress: Progress) -> str:
        """Makes those that are gone."""
        created: list[str] = []

        def look() -> bool | None:
            """One that is being deleted still has its name, so it cannot be made again yet."""
            ending = []
            for manifest in lifecycle.manifests(self.deployment):
                name = f"{manifest['kind']} {manifest['metadata']['name']}"
                existing = cluster.find(api, manifest)
                if existing is None:
                    cluster.create(api, manifest)
                    created.append(name)
                elif _is_ending(existing):
                    ending.append(name)
            if ending:
                progress.wait(f"still being deleted: {', '.join(ending)}")
            return None if ending else True

        with connected(self.deployment) as api:
            progress.until(look)
        return f"{', '.join(created)} made again" if created else "nothing was missing"


def _is_ending(existing: Any) -> bool:
    return existing.metadata.deletion_timestamp is not None


class _Prepare(Stage):
    """By the Jobs of one step, which mark in the bucket what they have made."""

    noun: ClassVar[str]

    @property
    @abstractmethod
    def prefixes(self) -> Sequence[str]:
        """Prefixes in the bucket."""

    @property
    def prepared(self) -> str:
        """What there is in the end, in words."""
        return f"{self.noun}: {len(self.prefixes)}"

    def existing(self) -> str | None:
        """Asks the bucket."""
        missing = Bucket(self.deployment).incomplete(self.prefixes)
        return None if missing else self.prepared

    def perform(self, progress: Progress) -> str:
        """Waits until everything is marked."""
        with connected(self.deployment) as api:
            self._await(api, progress)
        return self.prepared

    def _await(self, api: ApiClient, progress: Progress) -> None:
        """Where a Job has failed it says so, waits for the others, and raises StageFailed."""
        self._revive(api, progress)
        bucket, given_up = Bucket(self.deployment), dict[str, str]()

        def look() -> bool | None:
            missing = bucket.incomplete(self.prefixes)
            if not missing:
                return True
            jobs = cluster.jobs(api, f"step={self.name}")
            for job in jobs:
                name, reason = job.metadata.name, cluster.failure(job)
                if reason and name not in given_up:
                    given_up[name] = f"{name} failed: {reason}"
                    last = cluster.pods_of(api, job)[-1:]
                    words = (pods.last_words(api, pod) for pod in last)
                    progress.say("\n".join([given_up[name], *words]))
            if given_up and all(map(_is_over, jobs)):
                return False
            complete = len(self.prefixes) - len(missing)
            stored = f"{complete} of {len(self.prefixes)} are in the bucket"
            progress.wait("; ".join([stored, *self._waiting(api)]))
            return None

        if not progress.until(look):
            raise StageFailed("\n".join(given_up.values()))

    def _revive(self, api: ApiClient, progress: Progress) -> None:
        """Makes Jobs anew that an earlier attempt has left failed."""
        for job in cluster.jobs(api, f"step={self.name}"):
            if cluster.failure(job):
                progress.say(f"{job.metadata.name} has failed, and begins again")
                cluster.replace(api, job)

    def _waiting(self, api: ApiClient) -> Iterator[str]:
        """What the pods wait for."""
        yield from not_ready(api, f"step={self.name}")


class Download(_Prepare):
    """The checkpoints, which pass through a CPU node."""

    name = "download"
    noun = "checkpoints"

    @property
    def prefixes(self) -> Sequence[str]:
        """Of the checkpoints of all variants."""
        return checkpoints(self.deployment.experiment)


class Compile(_Prepare):
    """The graphs, on nodes that run only for that long unless they are the Trainium nodes."""

    name = "compile"
    noun = "graphs"

    def existing(self) -> str | None:
        """Asks the bucket. Nodes that an earlier attempt has left are no part of it."""
        prepared = super().existing()
        if prepared:
            self._end()
        return prepared

    def perform(self, progress: Progress) -> str:
        """Ends its nodes, unless it is interrupted."""
        missing = len(Bucket(self.deployment).incomplete(self.prefixes))
        with connected(self.deployment) as api:
            self._revive(api, progress)
            if self._has_nodes:
                size = compile_nodes(missing)
                until = guard.start(self.deployment, Kind.COMPILE, size)
                progress.say(f"CPU nodes: {size}, until {until.at:%Y-%m-%d %H:%M} UTC")
            try:
                self._await(api, progress)
            except StageFailed:
                self._end()
                raise
        self._end()
        return self.prepared

    @property
    def prefixes(self) -> Sequence[str]:
        """Of the compiled graphs of all variants."""
        return graphs(self.deployment.experiment)

    @property
    def _has_nodes(self) -> bool:
        """Whether there are nodes that only compile."""
        return self.deployment.experiment.compile_node is CompileNode.CPU

    def _end(self) -> None:
        if self._has_nodes:
            guard.stop(self.deployment, Kind.COMPILE)

    def _waiting(self, api: ApiClient) -> Iterator[str]:
        """Where there is no node for the pods, why not."""
        if self._has_nodes:
            group = nodes.find(self.deployment, Kind.COMPILE)
            if group and not group.size:
                raise StageFailed("the compile nodes were scaled to 0, by hand or the guard")
            yield from why_no_nodes(self.deployment, group)
        yield from super()._waiting(api)


def _is_over(job: V1Job) -> bool:
    conditions = job.status.conditions or []
    ended = {condition.type for condition in conditions if condition.status == "True"}
    return bool(ended & {"Complete", "Failed"})


def checkpoints(experiment: Experiment) -> list[str]:
    """Prefixes of the checkpoints of all variants."""
    drafts = (variant.draft for variant in variants(experiment))
    models = [model for model in (experiment.models.target, *drafts) if model]
    return [*dict.fromkeys(model_prefix(model.id, model.revision) for model in models)]


def graphs(experiment: Experiment) -> list[str]:
    """Prefixes of the compiled graphs of all variants."""
    artifacts = (variant.artifact for variant in variants(experiment))
    return [*dict.fromkeys(artifact_prefix(artifact) for artifact in artifacts)]
