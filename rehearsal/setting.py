"""What an experiment is measured in on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from deployment.console import Console
from experiment import Experiment
from rehearsal.aws.client import Aws
from rehearsal.endpoints import Endpoints
from rehearsal.layout import Layout
from rehearsal.pod.as_process import Place
from rehearsal.pod.manifest import entry_point
from spectap.config import Variant

BENCHMARK_SECONDS: Final = 450.0
"""For each variant."""


@dataclass(frozen=True)
class Setting:
    """The experiment, and all that it is measured with."""

    experiment: Experiment
    run_id: str
    layout: Layout
    aws: Aws
    endpoints: Endpoints
    console: Console

    def place(
        self,
        urls: Mapping[str, str],
        variables: Mapping[str, str] | None = None,
        beside: tuple[Variant, ...] = (),
    ) -> Place:
        """Where the benchmark runs. ``urls``: base URLs by the name of the variant."""
        return Place(
            run_id=self.run_id,
            account=self.aws.account,
            endpoints=urls,
            mounts=self.layout.mounts,
            environment=self.aws.environment,
            caps=self.endpoints.caps,
            stand_in=self.endpoints.name,
            drafts_whole_window=self.endpoints.drafts_whole_window,
            variables=variables or {},
            beside=beside,
        )

    @property
    def serving_environment(self) -> Mapping[str, str]:
        """What servers are started with: where they ask for a key, that of the deploy."""
        secret = self.experiment.api_key_secret
        if secret is None:
            return self.aws.environment
        store = self.aws.client("secretsmanager")
        key = store.get_secret_value(SecretId=secret)["SecretString"]
        return {**self.aws.environment, "VLLM_API_KEY": key}

    @property
    def entry_point(self) -> tuple[str, ...]:
        """What the benchmark's image runs. Raises RehearsalError."""
        return entry_point(self.layout.root / "spectap" / "Dockerfile")
