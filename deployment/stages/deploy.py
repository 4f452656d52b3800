"""The stacks: first of all, and without a Trainium node."""

from __future__ import annotations

from dataclasses import dataclass

from deployment import lifecycle
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed, Way


@dataclass(frozen=True)
class Deploy:
    """Every stack as it is synthesised."""

    way: Way
    name = "deploy"
    costs = True

    def there(self) -> str | None:
        """Compares what CloudFormation has with what synthesis writes. Raises DeploymentError."""
        stacks = lifecycle.compared(self.way.place)
        if all(stack.same for stack in stacks):
            return f"{len(stacks)} stacks, and none has changed"
        return None

    def perform(self, shown: Shown) -> str:
        """Runs the CLI, which shows itself. Raises DeploymentError."""
        place = self.way.place
        shown.until(lambda: _at_rest(shown, lifecycle.compared(place)))
        if lifecycle.deploy(place.experiment, place.file, [], yes=True):
            raise StageFailed("the deploy failed, as the CDK CLI says above")
        return "all stacks"


def _at_rest(shown: Shown, stacks: list[lifecycle.Compared]) -> bool | None:
    """CloudFormation refuses to change what it is still changing, after a deploy was ended."""
    busy = [s for s in stacks if s.status and s.status.endswith("_IN_PROGRESS")]
    if busy:
        shown.waits(", ".join(f"{stack.name} is {stack.status}" for stack in busy))
    return None if busy else True
