"""The ``qwen-offline`` Job: one index a variant that no server serves, one after the other."""

from __future__ import annotations

from cdk8s import Chart
from constructs import Construct

from charts.names import NAMESPACE
from charts.scripts import Scripts
from experiment.schema import Experiment


class OfflineChart(Chart):
    """An Indexed Job of which one index runs at a time, on a claim of its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        experiment: Experiment,
        bucket: str,
        image: str,
        scripts: Scripts,
    ) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        raise NotImplementedError(experiment.name + bucket + image + str(len(scripts)))
