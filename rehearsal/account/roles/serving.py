"""In place of vLLM a golden endpoint; the benchmark is its own."""

from __future__ import annotations

from pathlib import Path

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


def serve(container: Container, around: Around) -> Program:
    """The endpoint of a service."""
    server = around.servers[around.of_service(container.labels["app"]).name]
    return _serving(server, around)


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


def _serving(server: Server, around: Around) -> Program:
    return Program(server.command, server.environment, around.root, server.url.removesuffix("/v1"))


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
    return around.root / "benchmark" / "Dockerfile"
