"""One pod, played: its containers in their order, each a program of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kubernetes.client import ApiException

from rehearsal.cluster import statuses
from rehearsal.cluster.api import Api, Manifest
from rehearsal.cluster.disk import Disk
from rehearsal.cluster.programs import Playing, Program, StandIns

_POLL_SECONDS: Final = 0.2
_GONE: Final = (404, 409)


class PlayedPod:
    """A pod on a node of ours, from its start to its end, in a thread of its own."""

    def __init__(
        self, api: Api, pod: Manifest, stand_ins: StandIns, folder: Path, address: str
    ) -> None:
        self.pod: Final = pod
        self._api, self._address = api, address
        disk = Disk(api, pod, folder / "volumes")
        spec = pod["spec"]

        def playing(one: dict[str, Any], policy: str) -> Playing:
            def prepare() -> Program:
                return stand_ins.program(disk.container(one))

            return Playing(one, policy, prepare, folder / "logs" / one["name"])

        policy = spec["restartPolicy"]
        begins = "Never" if policy == "Never" else "OnFailure"
        self._init = [
            playing(one, one.get("restartPolicy", begins)) for one in spec.get("initContainers", [])
        ]
        self._sidecars = {
            one["name"] for one in spec.get("initContainers", []) if "restartPolicy" in one
        }
        self._main = [playing(one, policy) for one in spec["containers"]]
        self._initialized = False
        self._began = statuses.now()
        self._reported: Manifest = {}
        self._stop = threading.Event()
        self._over = threading.Event()
        self.failure: Exception | None = None
        threading.Thread(target=self._work, daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether nothing runs any more."""
        return self._over.is_set()

    def stop(self) -> None:
        """Asks its programs to end, and returns."""
        self._stop.set()

    def end(self) -> None:
        """Ends its programs."""
        self.stop()
        self._over.wait()

    def container(self, name: str) -> Playing | None:
        """One of its containers."""
        return next((one for one in self._all() if one.name == name), None)

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                phase = self._advance()
                self._report(phase)
                if phase is not None:
                    break
                self._stop.wait(_POLL_SECONDS)
        except ApiException as error:
            if error.status not in _GONE:  # otherwise the pod is gone
                self.failure = error
        except Exception as failure:
            self.failure = failure
        finally:
            for one in self._all():
                one.end()
            self._over.set()

    def _advance(self) -> str | None:
        """Does what is to be done now; the pod's phase if it has ended."""
        if self._begun():
            for one in self._main:
                one.advance()
            ended = [one.status for one in self._main]
            if None not in ended:
                for one in self._all():
                    one.end()
                return "Failed" if any(ended) else "Succeeded"
        elif any(one.status for one in self._init):
            return "Failed"
        return None

    def _begun(self) -> bool:
        """Brings the containers that begin the pod on; whether they have begun it."""
        for one in self._init:
            if one.status is None:
                one.advance()
            over = one.runs if one.name in self._sidecars else one.status == 0
            if not (over or self._initialized):
                return False
        self._initialized = True
        return True

    def _report(self, phase: str | None) -> None:
        its = statuses.living(
            self.pod,
            self._address,
            self._began,
            [one.reported() for one in self._init],
            [one.reported() for one in self._main],
            initialized=self._initialized,
        )
        if phase is not None:
            its |= statuses.ended(self.pod, phase)
        if _timeless(its) != _timeless(self._reported):
            self._api.patch(self.pod, {"status": its}, status=True)
            self._reported = its

    def _all(self) -> Iterator[Playing]:
        yield from self._main
        yield from reversed(self._init)


def _timeless(status: Manifest) -> Manifest:
    """Without the times of its conditions, which are those of the asking."""
    conditions = [(one["type"], one["status"]) for one in status.get("conditions", [])]
    return status | {"conditions": conditions}
