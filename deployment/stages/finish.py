"""What comes after the last result: the nodes go, the run comes home."""

from __future__ import annotations

from dataclasses import dataclass

from deployment import guard, nodes, results
from deployment.errors import DeploymentError
from deployment.nodes import Kind
from deployment.stages import runs
from deployment.stages.shown import Shown
from deployment.stages.stage import Way


@dataclass(frozen=True)
class Stop:
    """Both groups at 0, unless the experiment keeps its Trainium nodes."""

    way: Way
    name = "stop"
    costs = False

    def there(self) -> str | None:
        """Only that there are no groups, or that they are kept: EKS may report an old size.

        Raises DeploymentError.
        """
        if any(group.kind in self._kinds for group in nodes.groups(self.way.place)):
            return None
        return "no group of nodes is to be stopped"

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        for kind in self._kinds:
            guard.stop(self.way.place, kind)
        return f"{' and '.join(self._kinds)} nodes are scaled to 0"

    @property
    def _kinds(self) -> list[Kind]:
        stops = self.way.place.experiment.capacity.stops_after_run
        return [kind for kind in Kind if stops or kind is not Kind.TRAINIUM]


@dataclass(frozen=True)
class Results:
    """The run at home, with its report and its table."""

    way: Way
    name = "results"
    costs = False

    def there(self) -> str | None:
        """Never: what is at home already is not brought again."""
        return None

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        run = runs.complete(self.way.place)
        if run is None:
            raise DeploymentError("the bucket has no complete run of this experiment")
        folder = results.bring(self.way.place, run, say=shown.say)
        try:
            table = results.draw(folder)
        except DeploymentError as error:
            shown.say(str(error))
            return f"{folder}, which has no report"
        # As wide as the terminal: with an indent its lines would wrap.
        print(table, flush=True)
        return str(folder / results.REPORT)
