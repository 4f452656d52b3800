"""The setting of a rehearsal: servers, caps and folders, and its outcome."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from charts.names import bucket_name
from experiment import Experiment
from operations.console import Console
from rehearsal.aws import Aws
from rehearsal.manifest import IndexedJob
from spectap.inputs.config import Config, TestCase
from spectap.inputs.load_points import LoadPoint, Rounds
from spectap.report import terminal

BENCHMARK_SECONDS: Final = 900.0
"""For each variant, where none hangs: with vLLM on two busy cores, two take 15 minutes."""
RECORDED_OUTPUT: Final = "an output of inference_demo that no device made"
"""The stand-in for services where variants run as jobs."""
STAND_INS: Final = "stand-ins.txt"
"""In the run's folder: what stood in for what."""


class Layout:
    """The folders of one checkout."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root
        self.work: Final = root / ".cache" / "rehearsal"
        self.assembly: Final = self.work / "cdk.out"
        self.manifests: Final = self.assembly / "dist"
        """Files of one rehearsal."""
        self.logs: Final = self.work / "logs"
        self.pods: Final = self.work / "pods"
        """A folder for each pod of an Indexed Job, with one for each path that it mounts."""
        self.mounts: Final = {
            "/etc/benchmark": self.work / "etc-benchmark",
            "/results": root / "results",
            "/tmp": self.work / "tmp",
        }
        """The folder here for each path that the benchmark pod mounts."""


@dataclass(frozen=True)
class Server:
    """A server that stands in for a vLLM service, not started yet."""

    url: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Servers:
    """A server for each variant."""

    by_variant: Mapping[str, Server]
    """By the name of the variant; of a sweep, in the order of the indexes."""
    description: tuple[str, ...]
    """For the file that lists what stood in for what."""

    @property
    def urls(self) -> dict[str, str]:
        return {name: server.url for name, server in self.by_variant.items()}


@dataclass(frozen=True)
class Caps:
    """Upper limits of the load of a rehearsal. None: as in the pod's configuration."""

    rounds: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    """Load points with more in flight are left out; if there are no others, the first has it."""
    rate_seconds: float | None = None
    """How long an open loop lasts in a round."""
    prompts: int | None = None
    """The most prompts of a set."""
    launches: int | None = None

    def applied(self, of_pod: Config) -> Config:
        load, cases = of_pod.load, tuple(map(self._case, of_pod.test_cases))
        rounds, launches = load.rounds, _least(load.launches, self.launches)
        if self.rounds is not None and rounds.at_most > self.rounds:
            # As many in each launch.
            rounds = Rounds.model_validate(max(1, self.rounds // launches) * launches)
        changes = {
            "rounds": rounds,
            "launches": launches,
            "spread_minutes": 0,
            "mean_output_tokens": _least(load.mean_output_tokens, self.output_tokens),
            "points": tuple(self._points(load.points)),
        }
        capped = {"load": load.model_copy(update=changes), "test_cases": cases}
        return of_pod.model_copy(update=capped)

    def _points(self, points: tuple[LoadPoint, ...]) -> Iterator[LoadPoint]:
        most = self.concurrency or math.inf
        fitting = [point for point in points if (point.concurrency or 0) <= most]
        for point in fitting or [points[0].model_copy(update={"concurrency": self.concurrency})]:
            requests = point.requests
            if point.rate is not None and self.rate_seconds is not None:
                requests = min(requests, max(1, round(point.rate * self.rate_seconds)))
            yield point.model_copy(update={"requests": requests})

    def _case(self, case: TestCase) -> TestCase:
        if case.prompts is None or self.prompts is None:
            return case
        limit = _least(case.prompts.limit or self.prompts, self.prompts)
        return case.model_copy(update={"prompts": case.prompts.model_copy(update={"limit": limit})})


def _least(value: int, cap: int | None) -> int:
    return value if cap is None else min(value, cap)


@dataclass(frozen=True)
class Endpoints:
    """A kind of stand-ins for the vLLM services."""

    name: str
    servers: Callable[[Setting, IndexedJob | None], Servers]
    """Makes servers for the services, or a Job's indexes. Raises RehearsalError or ProcessError."""
    caps: Caps
    """The most that they are asked for."""
    start_seconds: int
    """How long the benchmark of an index waits for one."""
    stages: int = 0
    """How many stages ``servers`` shows."""
    drafts_whole_window: bool = False
    """Whether a step drafts as many tokens as its window has, as upstream vLLM does."""
    at_once: int | None = None
    """How many of a sweep's can serve at the same time; None: as many as there are cores."""
    plays_jobs: bool = True
    """Whether variants that run as jobs can be rehearsed where these stand in for services."""


@dataclass(frozen=True)
class Setting:
    """The experiment, and all that it is measured with."""

    experiment: Experiment
    run_id: str
    layout: Layout
    aws: Aws
    endpoints: Endpoints
    console: Console

    @property
    def run_dir(self) -> Path:
        return self.layout.mounts["/results"] / self.run_id

    @property
    def bucket(self) -> str:
        return bucket_name(self.experiment, self.aws.account)

    @property
    def serving_environment(self) -> Mapping[str, str]:
        """Variables that servers start with: where they ask for a key, that of the deploy."""
        secret = self.experiment.api_key_secret
        if secret is None:
            return self.aws.environment
        store = self.aws.client("secretsmanager")
        key = store.get_secret_value(SecretId=secret)["SecretString"]
        return {**self.aws.environment, "VLLM_API_KEY": key}


@dataclass(frozen=True)
class Outcome:
    """The results of the benchmark, and how it ran."""

    run_dir: Path
    differences: tuple[str, ...]
    """Everything in which the benchmark ran differently from its pod."""
    endpoints: tuple[str, ...]
    failed: tuple[str, ...] = ()
    """A line for each index that failed."""

    def summary(self, console: Console) -> str:
        width = terminal.terminal_width()
        lines = [terminal.render(self.run_dir, width)]
        if self.failed:
            lines.append("Failed, and so in no figure:")
            lines += [f"  {line}" for line in self.failed]
        times = ", ".join(f"{stage.title} {stage.seconds:.0f}" for stage in console.done)
        time = f"Time: {console.seconds:.0f} s ({times})"
        lines += [
            textwrap.fill(time, width, subsequent_indent="  ") if width else time,
            f"What stood in for what: {os.path.relpath(self.run_dir / STAND_INS)}",
            f"Report: {os.path.relpath(self.run_dir / 'report.html')}",
        ]
        return "\n".join(lines)

    def write_stand_ins(self) -> None:
        lines = [
            "Not as in the pod:",
            *(f"  {line}" for line in self.differences),
            f"Endpoints: {self.endpoints[0]}",
            *(f"  {line}" for line in self.endpoints[1:]),
            "AWS: moto, with a bucket and metrics; no stack was deployed",
        ]
        text = "".join(f"{line}\n" for line in lines)
        (self.run_dir / STAND_INS).write_text(text, encoding="utf-8")
