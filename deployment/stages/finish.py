"""What comes after the last result: the nodes go, the run comes home."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from deployment import guard, nodes, results
from deployment.errors import DeploymentError
from deployment.lifecycle import ROOT
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
        """Asks EKS. Raises DeploymentError."""
        place = self.way.place
        standing = [group.kind for group in nodes.groups(place) if group.size]
        guarded = [kind for kind in self._kinds if guard.find(place, kind)]
        if {*standing, *guarded} & {*self._kinds}:
            return None
        if standing:
            return "the Trainium nodes stay: the experiment keeps them after a run"
        return "no node stands"

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
        report = folder / results.REPORT
        # The benchmark is a program of its own: no other part of the project imports it.
        drawn = subprocess.run(
            [sys.executable, "-m", "benchmark", "report", str(folder.resolve())],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if drawn.returncode:
            shown.say(f"its table: make report RUN={run}")
        else:
            # As wide as the terminal: with an indent its lines would wrap.
            print(drawn.stdout, flush=True)
        return f"{report}" if report.exists() else f"{folder}, which has no report"
