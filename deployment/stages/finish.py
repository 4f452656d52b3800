"""What comes after the last result, or after a failure: no node, and what is worth bringing."""

from __future__ import annotations

import datetime
from typing import Final

from charts.names import LOGS_PREFIX
from deployment import guard, nodes, objects, pods, results
from deployment.account import Deployment, DeploymentError
from deployment.bucket import Bucket
from deployment.cluster import connected
from deployment.logs import sources
from deployment.nodes import Kind
from deployment.stages import runs
from deployment.stages.stage import Progress, Stage

_LINES: Final = 100_000
"""Of each container, the last ones."""


class Stop(Stage):
    """Both groups at 0, unless the experiment keeps its Trainium nodes."""

    name = "stop"
    costs = False

    def existing(self) -> str | None:
        """Only that there are no groups, or that they are kept: EKS may report an old size."""
        if any(group.kind in self._kinds for group in nodes.groups(self.deployment)):
            return None
        return "no group of nodes is to be stopped"

    def perform(self, progress: Progress) -> str:
        """Returns once EKS has carried it out."""
        for kind in self._kinds:
            guard.stop(self.deployment, kind)
        return f"{' and '.join(self._kinds)} nodes are scaled to 0"

    @property
    def _kinds(self) -> list[Kind]:
        stops = self.deployment.experiment.capacity.stops_after_run
        return [kind for kind in Kind if stops or kind is not Kind.TRAINIUM]


class Results(Stage):
    """The downloaded run, with its report and its table."""

    name = "results"
    costs = False
    shows_itself = True

    def perform(self, progress: Progress) -> str:
        """What is downloaded already is not downloaded again."""
        run = runs.complete(self.deployment)
        if run is None:
            raise DeploymentError("the bucket has no complete run of this experiment")
        listing = results.listing(self.deployment)
        if listing.refusal:
            progress.say(listing.refusal)
        chosen = results.chosen(listing.runs, run)
        folder = results.download(self.deployment, chosen, say=progress.say)
        try:
            table = results.draw(folder)
        except DeploymentError as error:
            progress.say(str(error))
            return f"{folder}, which has no report"
        # As wide as the terminal: with an indent its lines would wrap.
        print(table, flush=True)
        return str(folder / results.REPORT)


def end_nodes(deployment: Deployment) -> str:
    """Stores the logs, then scales both groups to 0; returns what was done, a line each.

    Raises DeploymentError where there is neither group.
    """
    kinds = [group.kind for group in nodes.groups(deployment)]
    if not kinds:
        raise DeploymentError("there are no nodes to end")
    try:
        lines = [f"logs of all pods: {_store_logs(deployment)}"]
    except DeploymentError as error:
        lines = [f"logs are not stored: {error}"]
    for kind in kinds:
        try:
            guard.stop(deployment, kind)
            lines.append(f"{kind} nodes: scaled to 0 (capacity.after_failure)")
        except DeploymentError as error:  # the other group is to end all the same
            lines.append(f"{kind} nodes: {error}")
    return "\n".join(lines)


def _store_logs(deployment: Deployment) -> str:
    """Puts what each container has written, and its last start before, into the bucket."""
    bucket = Bucket(deployment)
    folder = f"{LOGS_PREFIX}{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}/"
    with connected(deployment) as api:
        for pod in objects.pods(api):
            for source in sources(pod):
                text = pods.log(api, pod, source.container, _LINES, previous=source.previous)
                before = ".previous" if source.previous else ""
                key = f"{folder}{source.pod}/{source.container}{before}.log"
                bucket.write(key, text.encode())
    return f"s3://{bucket.name}/{folder}"
