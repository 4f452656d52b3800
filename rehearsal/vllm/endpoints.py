"""Real vLLM servers on the CPU, started with the charts' own commands.

They compute on one core, since another one may be slower, and so would be what is served on it.
That holds for what answers requests, too. On another core it may have to wait for longer than a
step takes, and vLLM then sends the tokens of two steps at once: seen beside other work, in 2 of 144
steps. Variants are measured in turn, and a server that nobody asks anything takes no time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from experiment import Experiment
from experiment.runtimes import Mode
from experiment.variants import variants
from rehearsal import RehearsalError
from rehearsal.pod.manifest import IndexedJob, read_pod
from rehearsal.processes import START_SECONDS, lasting_port
from rehearsal.setting import Caps, Endpoints, Layout, Server, Servers, Setting
from rehearsal.vllm import model_pair
from rehearsal.vllm.server_command import (
    NO_SUCH_DRAFT,
    Served,
    ServerCommand,
    server_command,
)


def _servers(setting: Setting, job: IndexedJob | None) -> Servers:
    """By the charts' commands. Makes the model pair, which is a stage.

    Raises RehearsalError or ProcessError.
    """
    experiment, layout = setting.experiment, setting.layout
    for variant in variants(experiment):
        if variant.mode not in (None, Mode.FUSED):
            raise RehearsalError(f"{variant.name}: mode {variant.mode}: {NO_SUCH_DRAFT}")
    commands = {
        variant.name: server_command(
            job.server_of(index)
            if job
            else read_pod(layout.manifests, "Deployment", variant.service),
            _served(experiment, layout),
        )
        for index, variant in enumerate(variants(experiment))
    }
    _make_pair(setting)
    environment = setting.serving_environment
    outside = {name: environment[name] for name in ("PATH", "VLLM_API_KEY") if name in environment}
    servers = {
        name: Server(
            f"{server.url}/v1",
            ("taskset", "--cpu-list", str(_core()), *server.command),
            {**outside, **server.environment},
        )
        for name, server in commands.items()
    }
    return Servers(servers, tuple(_description(commands)))


def _core() -> int:
    return max(os.sched_getaffinity(0))


def _make_pair(setting: Setting) -> None:
    layout = setting.layout
    if not layout.vllm.exists():
        raise RehearsalError(f"{layout.vllm}: is missing; make rehearse-vllm sets it up")
    folder = model_pair.folder(setting.experiment, layout)
    known = folder.is_dir()
    with setting.console.stage("make the model pair", shows_itself=not known) as stage:
        if not known:
            model_pair.make(setting.experiment, layout)
        stage.result = os.path.relpath(folder, layout.root)


def _served(experiment: Experiment, layout: Layout) -> Served:
    home = layout.work / "vllm"
    home.mkdir(parents=True, exist_ok=True)
    pair = model_pair.folder(experiment, layout)
    # vLLM does not report its port if it is told to take any.
    return Served(layout.vllm, pair / "target", pair / "draft", lasting_port(), _core(), home)


def _description(servers: Mapping[str, ServerCommand]) -> Iterator[str]:
    yield "vLLM on the CPU, by the charts' commands. Differences from the pods:"
    of_each = [server.differences for server in servers.values()]
    common = [line for line in of_each[0] if all(line in lines for lines in of_each)]
    yield from common
    for name, lines in zip(servers, of_each, strict=True):
        yield from (f"{name}: {line}" for line in lines if line not in common)


VLLM: Final = Endpoints(
    name="vLLM on the CPU with a pair of tiny models",
    kind="vLLM servers",
    servers=_servers,
    # The servers have one core: with more sequences at once, a turn takes minutes.
    caps=Caps(concurrency=4, rate_seconds=8, prompts=12, launches=1),
    start_seconds=round(START_SECONDS),
    stages=1,
    drafts_whole_window=True,
    # The load generator wants a core, too.
    at_once=1,
    plays_jobs=False,
)
"""vLLM as PyPI has it, with a model pair made on this machine."""
