"""Where a command acts: one experiment in one account."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deployment.account import account_id, client
from experiment import Experiment, load


@dataclass(frozen=True)
class Place:
    """What every command on an account needs to know."""

    experiment: Experiment
    file: str
    """As the user named it."""
    account: str
    """Twelve digits."""
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict, compare=False, repr=False)
    """By service and region: to make one takes longer than most calls."""

    @property
    def region(self) -> str:
        """The experiment's."""
        return self.experiment.aws.region

    @property
    def name(self) -> str:
        """The experiment's, which is its cluster's, too."""
        return self.experiment.name

    @property
    def headline(self) -> str:
        """What a command begins with."""
        return f"experiment {self.name} ({self.file}), account {self.account}, {self.region}"

    def client(self, service: str, region: str | None = None) -> Any:
        """A client of ``service`` in the experiment's region, or another."""
        wanted = service, region or self.region
        if wanted not in self._clients:
            self._clients[wanted] = client(*wanted)
        return self._clients[wanted]


def find(file: str) -> Place:
    """Reads the experiment and asks whose credentials these are.

    Raises ExperimentError or DeploymentError.
    """
    experiment = load(file)
    return Place(experiment, file, account_id(experiment.aws.region))
