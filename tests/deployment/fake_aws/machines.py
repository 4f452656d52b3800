"""Step Functions, with one state machine: the stopper. It waits, and then asks EKS until it may."""

from __future__ import annotations

import datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from tests.deployment.fake_aws.clock import MINUTE, Clock
from tests.deployment.fake_aws.eks import Eks

_ATTEMPTS: Final = 20


class Machines:
    """Its operations, as boto3 spells them."""

    def __init__(self, clock: Clock, eks: Eks) -> None:
        self._clock, self._eks = clock, eks
        self._running: list[str] = []
        self._succeeded: list[tuple[str, datetime.datetime]] = []
        self._count = 0

    def list_executions(
        self, *, stateMachineArn: str, statusFilter: str, maxResults: int
    ) -> dict[str, Any]:
        """Those that run, or those that have ended well, from the newest on."""
        if statusFilter == "RUNNING":
            return {"executions": [{"executionArn": arn} for arn in self._running]}
        ended = [{"executionArn": arn, "stopDate": when} for arn, when in self._succeeded[::-1]]
        return {"executions": ended[:maxResults]}

    def stop_execution(self, *, executionArn: str, cause: str) -> dict[str, Any]:
        """Ends one, also if it has ended."""
        if executionArn in self._running:
            self._running.remove(executionArn)
        return {}

    def start(self, node_group: str) -> None:
        """As the pod does it at the end of a run."""
        self._count += 1
        execution = f"execution-{self._count}"
        self._running.append(execution)
        self._clock.after(MINUTE, lambda: self._ask(execution, node_group, _ATTEMPTS, 30.0))

    def _ask(self, execution: str, node_group: str, left: int, pause: float) -> None:
        if execution not in self._running:
            return
        sizes = {"minSize": 0, "desiredSize": 0}
        try:
            self._eks.update_nodegroup_config(
                clusterName="", nodegroupName=node_group, scalingConfig=sizes
            )
        except ClientError:
            if left:
                longer = min(pause * 1.5, 5 * MINUTE)
                self._clock.after(pause, lambda: self._ask(execution, node_group, left - 1, longer))
                return
        else:
            self._succeeded.append((execution, self._clock.now()))
        self._running.remove(execution)
