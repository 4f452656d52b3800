"""The guard, before any node is paid for: seen to act once on each group."""

from __future__ import annotations

from dataclasses import dataclass

from deployment import guard, nodes, proof
from deployment.nodes import Group
from deployment.stages.shown import Shown
from deployment.stages.stage import Way


@dataclass(frozen=True)
class Prove:
    """Once after a deploy that has made the groups, and after one that replaces what acts."""

    way: Way
    name = "guard"
    costs = True

    def there(self) -> str | None:
        """Asks for the proofs. Nodes that stand are not ended for one. Raises DeploymentError."""
        if self._unproved():
            return None
        if all(proof.is_proved(self.way.place, group) for group in nodes.groups(self.way.place)):
            return "seen to scale nodes to 0"
        return "not tried while nodes stand"

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        groups = self._unproved()
        proved = proof.prove(self.way.place, groups, shown.waits)
        if len(proved) < len(groups):
            return "not tried: EKS makes no update of a size that a group has already"
        return f"seen to scale {' and '.join(group.kind for group in proved)} nodes to 0"

    def _unproved(self) -> list[Group]:
        place = self.way.place
        return [
            group
            for group in nodes.groups(place)
            if not group.size
            and not guard.find(place, group.kind)
            and not proof.is_proved(place, group)
        ]
