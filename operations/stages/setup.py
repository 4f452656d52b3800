"""Stages before the Trainium nodes: stacks, all objects, what is compiled."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from charts.names import artifact_prefix, model_prefix
from experiment.hardware import compile_nodes
from experiment.schema import CompileNode
from experiment.variants import checkpoints, variants
from operations import cluster, guard, lifecycle, nodes, pods
from operations.account import Bucket, DeploymentError
from operations.cluster import Api, connected
from operations.nodes import Kind
from operations.preflight import Status, checks
from operations.preflight.account import changing_stacks
from operations.stages.nodes import not_ready, why_no_nodes
from operations.stages.stage import Progress, Stage, StageFailed


class Check(Stage):
    """Runs the preflight once no deploy goes on, and says only what is not as it should be."""

    name = "preflight"
    costs = False

    def perform(self, progress: Progress) -> str:
        def at_rest() -> bool | None:
            # CloudFormation goes on with a deploy that was ended, and refuses another then.
            if changes := changing_stacks(self.deployment):
                progress.wait("; ".join(changes))
                return None
            return True

        progress.until(at_rest)
        findings = checks(self.deployment)
        problems = [finding for finding in findings if finding.status is not Status.OK]
        for finding in problems:
            parts = (finding.status, finding.subject, finding.text, finding.remedy)
            progress.say(": ".join(parts))
        if refused := sum(finding.status is Status.REFUSED for finding in problems):
            raise DeploymentError(
                f"{refused} of {len(findings)} checks refuse; make preflight lists all"
            )
        return f"{len(findings)} checks"


class Deploy(Stage):
    """Every stack, without a Trainium node."""

    name = "deploy"
    shows_itself = True

    def existing(self) -> str | None:
        stacks = lifecycle.synthesised(self.deployment)
        if all(lifecycle.unchanged(self.deployment, stack) for stack in stacks):
            return f"{len(stacks)} stacks, of which none has changed"
        return None

    def perform(self, progress: Progress) -> str:
        if lifecycle.deploy(self.deployment, [], yes=True):
            raise StageFailed("the deploy failed, as the CDK CLI says above")
        return "all stacks are as the file says"


class Restore(Stage):
    """Makes the objects of the manifests that are gone, which a deploy without a change does not.

    It comes before any node is paid for: whatever waits for such an object waits in vain.
    """

    name = "objects"

    def perform(self, progress: Progress) -> str:
        manifests, created = lifecycle.manifests(self.deployment), list[str]()

        def look() -> bool | None:
            # One that is being deleted still has its name, so it cannot be made again yet.
            ending = []
            for manifest in manifests:
                name = f"{manifest['kind']} {manifest['metadata']['name']}"
                existing = cluster.find(api, manifest)
                if existing is None:
                    cluster.create(api, manifest)
                    created.append(name)
                elif existing.metadata.deletion_timestamp is not None:
                    ending.append(name)
            if ending:
                progress.wait(f"still being deleted: {', '.join(ending)}")
            return None if ending else True

        with connected(self.deployment) as api:
            progress.until(look)
        if created:
            return f"{', '.join(created)} made again"
        return f"all {len(manifests)} exist"


class _Prepare(Stage):
    """By the Jobs of one step, which mark in the bucket what they have made."""

    noun: ClassVar[str]

    @property
    @abstractmethod
    def prefixes(self) -> Sequence[str]:
        """Prefixes in the bucket of what it makes, for all variants."""

    def existing(self) -> str | None:
        missing = Bucket(self.deployment).incomplete(self.prefixes)
        return None if missing else f"{self.noun}: {len(self.prefixes)}"

    def perform(self, progress: Progress) -> str:
        """Waits until everything is marked.

        Makes Jobs anew that an earlier attempt has left failed. Where one fails now it says so,
        waits for the others, and raises StageFailed.
        """
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
            ends = ("Complete", "Failed")
            if given_up and all(any(cluster.condition(job, end) for end in ends) for job in jobs):
                return False
            complete = len(self.prefixes) - len(missing)
            stored = f"{complete} of {len(self.prefixes)} are in the bucket"
            waiting = not_ready(api, f"step={self.name}")
            progress.wait("; ".join([stored, *self._why_no_nodes(api), *waiting]))
            return None

        with connected(self.deployment) as api:
            for job in cluster.jobs(api, f"step={self.name}"):
                if cluster.failure(job):
                    progress.say(f"{job.metadata.name} has failed, and begins again")
                    cluster.replace(api, job)
            if not progress.until(look):
                raise StageFailed("\n".join(given_up.values()))
        return f"{self.noun}: {len(self.prefixes)}"

    def _why_no_nodes(self, api: Api) -> Iterable[str]:
        """Where there is no node for the pods, why not. Raises StageFailed if none will come."""
        return ()


class Download(_Prepare):
    """The checkpoints, which pass through a CPU node."""

    name = "download"
    noun = "checkpoints"

    @property
    def prefixes(self) -> Sequence[str]:
        return [*map(model_prefix, checkpoints(self.deployment.experiment))]


class Compile(_Prepare):
    """The graphs, on nodes that run only for that long unless they are the Trainium nodes."""

    name = "compile"
    noun = "graphs"

    def existing(self) -> str | None:
        prepared = super().existing()
        if prepared:  # Nodes that an earlier attempt has left are not part of it.
            self._end()
        return prepared

    def perform(self, progress: Progress) -> str:
        if self._has_nodes:
            size = compile_nodes(len(Bucket(self.deployment).incomplete(self.prefixes)))
            until = guard.start(self.deployment, Kind.COMPILE, size)
            progress.say(f"CPU nodes: {size}, until {until:%Y-%m-%d %H:%M} UTC")
        try:
            prepared = super().perform(progress)
        except StageFailed:
            self._end()
            raise
        self._end()  # but not where it is interrupted
        return prepared

    @property
    def prefixes(self) -> Sequence[str]:
        artifacts = (variant.artifact for variant in variants(self.deployment.experiment))
        return [*dict.fromkeys(artifact_prefix(artifact) for artifact in artifacts)]

    @property
    def _has_nodes(self) -> bool:
        return self.deployment.experiment.compile_node is CompileNode.CPU

    def _end(self) -> None:
        if self._has_nodes:
            guard.stop(self.deployment, Kind.COMPILE)

    def _why_no_nodes(self, api: Api) -> Iterable[str]:
        if not self._has_nodes:
            return ()
        group = nodes.find(self.deployment, Kind.COMPILE)
        if group is None or not group.size:
            raise StageFailed("the compile nodes were scaled to 0, by hand or the guard")
        return why_no_nodes(api, group)
