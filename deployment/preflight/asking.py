"""A place that is asked many things within seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deployment.place import Place


@dataclass(frozen=True)
class Asking(Place):
    """Makes each client once, which takes longer than most calls. Threads may share it.

    Not for what takes hours: credentials may be renewed meanwhile.
    """

    clients: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False, compare=False)

    def client(self, service: str, region: str | None = None) -> Any:
        """A client of ``service`` in the experiment's region, or another."""
        where = (service, region or self.region)
        if where not in self.clients:
            self.clients[where] = super().client(*where)
        return self.clients[where]
