"""Asks everything and prints the screen."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from deployment.cluster import NoCluster, Unreachable, connected, kubernetes_in_words
from deployment.errors import DeploymentError
from deployment.place import Place
from deployment.status import account
from deployment.status.cluster import Cluster
from deployment.status.screen import Row, Section, asked, rendered


def show(place: Place) -> int:
    """``make status``: changes nothing; returns the exit status. Raises DeploymentError."""
    width = shutil.get_terminal_size().columns
    now = datetime.datetime.now(datetime.UTC)
    print(f"{place.headline}, {now:%Y-%m-%d %H:%M} UTC", flush=True)
    for line in rendered(sections(place), width):
        print(line)
    return 0


def sections(place: Place) -> Iterator[Section]:
    """All that is known, in the order of the way: what cannot be asked says why."""
    yield asked("stacks", partial(account.stacks, place))
    yield from _of_cluster(place)
    yield asked("results", partial(account.runs, place))
    yield asked("cost", partial(account.cost, place))
    yield asked("guard", partial(account.guards, place))


def _of_cluster(place: Place) -> list[Section]:
    """What the cluster knows; what AWS knows of the nodes if the cluster cannot be asked."""
    try:
        with connected(place) as api, kubernetes_in_words():
            cluster = Cluster(api, place)
            return [
                asked(title, partial(_in_words, rows))
                for title, rows in (
                    ("nodes", cluster.nodes),
                    ("claims", cluster.claims),
                    ("jobs", cluster.jobs),
                    ("services", cluster.services),
                    ("run", cluster.run),
                )
            ]
    except NoCluster:
        return []
    except DeploymentError as error:
        hint = " (docs/runbook.md, Reach a private API)" if isinstance(error, Unreachable) else ""
        unknown = Section("cluster", [Row("", f"not known{hint}: {error}")])
        return [unknown, asked("nodes", partial(account.groups, place))]


def _in_words(rows: Callable[[], Iterable[Row]]) -> list[Row]:
    with kubernetes_in_words():
        return [*rows()]
