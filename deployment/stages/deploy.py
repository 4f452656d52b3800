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
        stacks = lifecycle.synthesised(self.way.place)
        if all(map(lifecycle.unchanged, stacks)):
            return f"{len(stacks)} stacks, of which none has changed"
        return None

    def perform(self, shown: Shown) -> str:
        """Runs the CLI, which shows itself. Raises DeploymentError."""
        place = self.way.place
        # There is no stage without a look at what is there, which has written the assembly.
        if lifecycle.deploy(place, [], yes=True, is_synthesised=True):
            raise StageFailed("the deploy failed, as the CDK CLI says above")
        return f"{len(lifecycle.assembled())} stacks"
