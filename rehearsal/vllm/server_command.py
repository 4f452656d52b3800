"""Turns the chart's vLLM command into one that runs here, and lists every difference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal import RehearsalError
from rehearsal.pod.manifest import Pod

_WITH_KEY: Final = "with-key.sh"
_SERVE: Final = ("vllm", "serve")
_MODULE: Final = ("-m", "vllm.entrypoints.openai.api_server")
_SPECULATIVE: Final = "--speculative-config"
_ANY_DRAFT: Final = "eagle"
"""What the article's runtime is told of an ordinary draft model, too."""

NO_SUCH_DRAFT: Final = (
    "the pair made here has an ordinary draft model, which only mode fused serves; make rehearse "
    "plays the other modes, with golden endpoints"
)

LEFT_OUT: Final[Mapping[str, str]] = {
    "--override-neuron-config": "settings of the Neuron backend",
    "--additional-config": "settings of the Neuron backend, as the newer image spells them",
    "--num-gpu-blocks-override": "blocks of the Neuron backend, whose number its graphs need",
    "--disable-log-requests": "removed from vLLM, which logs no requests by default since 0.10",
}
"""Flags of the chart that are not passed on, each with the reason. Every other flag is."""

REPLACED: Final[Mapping[str, str]] = {
    "--port": "a free port on loopback",
    "--tensor-parallel-size": "1: one core in place of NeuronCores",
}
"""Flags of the chart whose value differs here, each with that value."""

ADDED: Final[Mapping[str, str]] = {
    "--host": "127.0.0.1: loopback only",
    "--enforce-eager": "compiling 64 layers takes minutes on a CPU",
    "--no-enable-prefix-caching": "on by default upstream; the article's runtime has none, and "
    "a repeated prompt would skip its prefill",
}
"""Flags that are added unless the chart has them, each with the reason."""

ENVIRONMENT_LEFT_OUT: Final[Mapping[str, str]] = {
    "VLLM_RPC_TIMEOUT": "removed from vLLM together with V0",
    "VLLM_USE_V1": "removed from vLLM: only V1 is left",
    "VLLM_CACHE_ROOT": "a folder of the pod",
}
"""Variables of the chart that are not passed on, each with the reason.

Nor are Neuron's, which have it in their names. Every other one is.
"""

ENVIRONMENT_ADDED: Final[Mapping[str, str]] = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Served:
    """What is served here, and by what."""

    python: Path
    """The interpreter that has vLLM."""
    target: Path
    draft: Path
    port: int
    core: int
    """Number of the CPU that it serves on."""
    home: Path


@dataclass(frozen=True)
class ServerCommand:
    """How to start a server here."""

    url: str
    """Where it will serve, without ``/v1``."""
    command: tuple[str, ...]
    environment: Mapping[str, str]
    differences: tuple[str, ...]
    """One line for each difference from the chart's command."""


def server_command(pod: Pod, served: Served) -> ServerCommand:
    """The command of ``pod``, to be run here. Raises RehearsalError."""
    chart, keyed = _without_key(pod.command or ())
    if chart[:2] != _SERVE or len(chart) < 3:
        raise RehearsalError("the chart's command is not vllm serve MODEL")
    lines = [
        *keyed,
        f"{' '.join(_SERVE)}: {' '.join(_MODULE)} in Python, whose wheel has no such command",
    ]
    model = chart[2]
    arguments = [*_MODULE, "--model", str(served.target)]
    lines.append(f"model: a pair made for this rehearsal in place of {model}")
    for flag, value in _flags(chart[3:]):
        if reason := LEFT_OUT.get(flag):
            lines.append(f"{flag}: left out, {reason}")
        else:
            arguments += [flag, *_value(flag, value, served, lines)]
    for flag, reason in ADDED.items():
        if flag not in chart:
            arguments += [flag, *(["127.0.0.1"] if flag == "--host" else [])]
            lines.append(f"{flag}: added, {reason}")
    environment = _environment(pod, served, lines)
    lines.append(f"one core, number {served.core}, which all variants share in turn")
    url = f"http://127.0.0.1:{served.port}"
    command = (str(served.python), *arguments)
    return ServerCommand(url, command, environment, tuple(lines))


def _without_key(command: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """The command without what gives it the key of a file, and the line that says so."""
    if len(command) < 3 or not command[1].endswith(_WITH_KEY):
        return command, []
    return command[3:], [f"{_WITH_KEY}: left out; the key comes from the embedded Secrets Manager"]


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Flags with their values, None where there is none."""
    remaining = list(arguments)
    while remaining:
        flag, equals, value = remaining.pop(0).partition("=")
        if not flag.startswith("--"):
            raise RehearsalError(f"the chart's command: {flag} belongs to no flag")
        if equals:
            yield flag, value
        else:
            yield (
                flag,
                remaining.pop(0) if remaining and not remaining[0].startswith("--") else None,
            )


def _value(flag: str, value: str | None, served: Served, lines: list[str]) -> list[str]:
    if flag == _SPECULATIVE and value is not None:
        return [_speculative(value, served, lines)]
    if flag in REPLACED:
        lines.append(f"{flag}: {REPLACED[flag]}")
        return [str(served.port) if flag == "--port" else "1"]
    return [] if value is None else [value]


def _speculative(value: str, served: Served, lines: list[str]) -> str:
    settings: dict[str, Any] = json.loads(value)
    method = settings.get("method")
    if method != _ANY_DRAFT:
        raise RehearsalError(f"{_SPECULATIVE}: method {method}: {NO_SUCH_DRAFT}")
    lines.append(
        f"{_SPECULATIVE}: method draft_model in place of {method}, which upstream keeps for heads; "
        f"it drafts {settings['num_speculative_tokens']} tokens a step, NxDI one fewer"
    )
    draft = {"method": "draft_model", "model": str(served.draft)}
    return json.dumps(settings | draft, separators=(",", ":"))


def _environment(pod: Pod, served: Served, lines: list[str]) -> dict[str, str]:
    passed_on = {}
    for name, value in pod.environment.items():
        if reason := "Neuron's" if "NEURON" in name else ENVIRONMENT_LEFT_OUT.get(name):
            lines.append(f"{name}: left out, {reason}")
        else:
            passed_on[name] = value
    lines += [f"{name}: {value}" for name, value in ENVIRONMENT_ADDED.items()]
    of_machine = {"HOME": str(served.home), "VLLM_CPU_OMP_THREADS_BIND": str(served.core)}
    return passed_on | dict(ENVIRONMENT_ADDED) | of_machine
