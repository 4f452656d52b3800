"""What comes before anything costs: the preflight, the stacks, a proved guard, all objects."""

from __future__ import annotations

from typing import Any

from kubernetes.client import ApiClient

from deployment import guard, lifecycle, nodes, objects, proof
from deployment.account import DeploymentError
from deployment.cluster import connected
from deployment.nodes import Group
from deployment.preflight import Status, checks
from deployment.preflight.account import changing_stacks
from deployment.stages.stage import Progress, Stage, StageFailed


class Check(Stage):
    """The preflight, once no deploy goes on. It says only what is not as it should be."""

    name = "preflight"
    costs = False

    def perform(self, progress: Progress) -> str:
        """Raises DeploymentError, also where a check refuses."""
        progress.until(lambda: self._at_rest(progress))
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

    def _at_rest(self, progress: Progress) -> bool | None:
        """CloudFormation goes on with a deploy that was ended, and refuses another meanwhile."""
        if changes := changing_stacks(self.deployment):
            progress.wait("; ".join(changes))
            return None
        return True


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
                existing = objects.find(api, manifest)
                if existing is None or _is_ending(existing):
                    return None
        return f"all {len(manifests)} exist"

    def perform(self, progress: Progress) -> str:
        """Makes those that are gone."""
        made: list[str] = []
        with connected(self.deployment) as api:
            progress.until(lambda: self._look(api, made, progress))
        return f"{', '.join(made)} made again" if made else "nothing was missing"

    def _look(self, api: ApiClient, made: list[str], progress: Progress) -> bool | None:
        """One that is being deleted still has its name, so that it cannot be made again yet."""
        ending = []
        for manifest in lifecycle.manifests(self.deployment):
            name = f"{manifest['kind']} {manifest['metadata']['name']}"
            existing = objects.find(api, manifest)
            if existing is None:
                objects.create(api, manifest)
                made.append(name)
            elif _is_ending(existing):
                ending.append(name)
        if ending:
            progress.wait(f"still being deleted: {', '.join(ending)}")
            return None
        return True


def _is_ending(existing: Any) -> bool:
    return existing.metadata.deletion_timestamp is not None
