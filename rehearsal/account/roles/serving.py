"""In place of vLLM a golden endpoint; the benchmark is its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from charts.names import VLLM_PORT
from experiment.runtimes import Preparation
from experiment.variants import variants
from rehearsal.account.roles.around import Around, scripted
from rehearsal.cluster.disk import Container, NotThere, write
from rehearsal.cluster.programs import Program
from rehearsal.endpoints import Server
from rehearsal.errors import RehearsalError
from rehearsal.golden.endpoints import SPEED
from rehearsal.pod.as_process import Place, as_process, here
from rehearsal.pod.caps import Caps
from rehearsal.pod.manifest import Pod, entry_point

STAND_IN = f"golden endpoints at {SPEED} times the article's speed"
_PATIENCE = {"START_SECONDS": "60"}
_INDEX = "JOB_COMPLETION_INDEX"
_CONFIG = "/etc/benchmark"


def devices(container: Container, around: Around) -> Program:
    """The pod's own script, with files in place of devices."""
    directory = here("/tmp", container.mounts) / "devices"
    directory.mkdir(exist_ok=True)
    count, _ = container.spec["args"]
    for number in range(int(count)):
        write(directory / f"neuron{number}", b"")
    program = scripted(container, around)
    return replace(program, command=[*program.command[:-1], str(directory)])


def serve(container: Container, around: Around) -> Program:
    """The endpoint of a service."""
    variant, server = around.of_service(container.labels["app"]), _server(container, around)
    if variant.runtime.preparation is Preparation.FIRST_START:
        return _first_start(container, server, around)
    return Program(server.command, server.environment, around.root, _root(server))


def keep_cache(container: Container, around: Around) -> Program:
    """The pod's own script, told where the endpoint is."""
    program, port = scripted(container, around), urlsplit(_server(container, around).url).port
    told = [str(port) if word == str(VLLM_PORT) else word for word in program.command]
    return replace(program, command=told)


def serve_index(container: Container, around: Around) -> Program:
    """The sidecar of a sweep's index: its own script, with the endpoint's command."""
    index = container.environment[_INDEX]
    variant = container.files[f"{_CONFIG}/{index}.variant"].decode().strip()
    server = around.servers[variant]
    told = "\n".join([*server.command, ""]).encode()
    write(here(f"{_CONFIG}/{index}.serve", container.mounts), told)
    program = scripted(container, around)
    return Program(program.command, {**program.environment, **server.environment}, around.root)


def benchmark(container: Container, around: Around) -> Program:
    """The benchmark's own process with the pod's configuration. Raises NotThere."""
    _await_first_starts(around)
    variables = _PATIENCE if _INDEX in container.environment else {}
    place = Place(
        run_id=container.environment["RUN_ID"],
        account=around.account,
        endpoints={name: server.url for name, server in around.servers.items()},
        mounts=container.mounts,
        environment=around.environment,
        caps=Caps(),  # the experiment is small itself
        stand_in=STAND_IN,
        variables=variables,
        stops_nodes=True,
    )
    try:
        process = as_process(_pod(container), entry_point(_dockerfile(around)), place)
    except RehearsalError as error:
        raise NotThere(str(error)) from None
    process.write()
    return Program(process.command, process.environment, around.root)


def _first_start(container: Container, server: Server, around: Around) -> Program:
    """The pod's own script, and in place of vLLM what leaves a cache before it serves."""
    program = scripted(container, around)
    script = program.command[: container.command.index("vllm")]
    compiler = (sys.executable, "-m", "rehearsal.account.cache")
    environment = {**program.environment, **server.environment}
    command = [*script, *compiler, *server.command]
    return Program(command, environment, around.root, _root(server))


def _server(container: Container, around: Around) -> Server:
    """What serves the variant of a service's pod."""
    return around.servers[around.of_service(container.labels["app"]).name]


def _root(server: Server) -> str:
    return server.url.removesuffix("/v1")


def _await_first_starts(around: Around) -> None:
    """Such a service answers before its pod is ready, and its Service lets nobody to it till then.

    The benchmark asks the endpoint itself here. Raises NotThere.
    """
    for variant in variants(around.experiment):
        starts_first = variant.runtime.preparation is Preparation.FIRST_START
        if starts_first and not around.is_ready(variant.service):
            raise NotThere(f"no pod of {variant.service} is ready")


def _pod(container: Container) -> Pod:
    """With its configuration alone: the other files are there already, as stand-ins want them."""
    spec, path = container.spec, container.environment["BENCHMARK_CONFIG"]
    return Pod(
        command=tuple(spec["command"]) if "command" in spec else None,
        arguments=tuple(spec.get("args", ())),
        environment=container.environment,
        fields={},
        mounts=tuple(container.mounts),
        files={path: container.files[path]},
    )


def _dockerfile(around: Around) -> Path:
    return around.root / "spectap" / "Dockerfile"
