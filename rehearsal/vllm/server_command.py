"""The chart's vLLM command, to be run here: all in which it differs from the pod's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal.errors import RehearsalError
from rehearsal.pod.manifest import Pod

_SERVE: Final = ("vllm", "serve")
_MODULE: Final = ("-m", "vllm.entrypoints.openai.api_server")
_SPECULATIVE: Final = "--speculative-config"

LEFT_OUT: Final[Mapping[str, str]] = {
    "--override-neuron-config": "settings of the Neuron backend",
    "--additional-config": "settings of the Neuron backend, in the newer image's spelling",
    "--disable-log-requests": "gone from vLLM, which has not logged requests by default since 0.10",
}
"""Flag of the chart -> why it is not passed on. Every other flag is."""

REPLACED: Final[Mapping[str, str]] = {
    "--port": "a free one of the loopback",
    "--tensor-parallel-size": "1: one core in place of NeuronCores",
}
"""Flag of the chart -> what its value is here."""

ADDED: Final[Mapping[str, str]] = {
    "--host": "127.0.0.1: loopback only",
    "--enforce-eager": "compiling 64 layers takes minutes on a CPU",
    "--no-enable-prefix-caching": "on by default upstream; the article's runtime has none, and "
    "equal prompts would go without a prefill",
}
"""Flag that the chart does not have -> why it is here. A flag that the chart has stays."""

ENVIRONMENT_LEFT_OUT: Final[Mapping[str, str]] = {
    "VLLM_NEURON_FRAMEWORK": "Neuron's",
    "VLLM_RPC_TIMEOUT": "gone from vLLM with V0",
    "VLLM_USE_V1": "gone from vLLM: there is no V0 any more",
    "NEURON_COMPILED_ARTIFACTS": "Neuron's",
    "NEURON_LOGICAL_NC_CONFIG": "Neuron's",
}
"""Variable of the chart -> why it is not passed on. Every other variable is."""

ENVIRONMENT_ADDED: Final[Mapping[str, str]] = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Served:
    """What is served here, by which Python and where; ``core`` is the CPU's number."""

    python: Path
    target: Path
    draft: Path
    port: int
    core: int
    home: Path


@dataclass(frozen=True)
class Server:
    """A command with its environment, where it serves, and what was changed of the chart's."""

    url: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    differences: tuple[str, ...]


def adapt(pod: Pod, served: Served) -> Server:
    """The server of ``pod``, to be run here. Raises RehearsalError."""
    if pod.command is None or pod.command[:2] != _SERVE or len(pod.command) < 3:
        raise RehearsalError("the chart's command is not vllm serve MODEL")
    said = [f"{' '.join(_SERVE)}: {' '.join(_MODULE)} in Python, whose wheel has no such command"]
    model = pod.command[2]
    arguments = [*_MODULE, "--model", str(served.target)]
    said.append(f"model: a pair made for this rehearsal in place of {model}")
    for flag, value in _flags(pod.command[3:]):
        if reason := LEFT_OUT.get(flag):
            said.append(f"{flag}: left out, {reason}")
        else:
            arguments += [flag, *_value(flag, value, served, said)]
    for flag, reason in ADDED.items():
        if flag not in pod.command:
            arguments += [flag, *(["127.0.0.1"] if flag == "--host" else [])]
            said.append(f"{flag}: added, {reason}")
    environment = _environment(pod, served, said)
    # On a core of its own, or the faster of the two would take the other's time as well.
    pinned = ("taskset", "--cpu-list", str(served.core))
    said.append(f"one core, number {served.core}")
    url = f"http://127.0.0.1:{served.port}"
    return Server(url, (*pinned, str(served.python), *arguments), environment, tuple(said))


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Flags with their values, None where there is none."""
    rest = list(arguments)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if not flag.startswith("--"):
            raise RehearsalError(f"the chart's command: {flag} belongs to no flag")
        if equals:
            yield flag, value
        else:
            yield flag, rest.pop(0) if rest and not rest[0].startswith("--") else None


def _value(flag: str, value: str | None, served: Served, said: list[str]) -> list[str]:
    if flag == _SPECULATIVE and value is not None:
        return [_speculative(value, served, said)]
    if flag in REPLACED:
        said.append(f"{flag}: {REPLACED[flag]}")
        return [str(served.port) if flag == "--port" else "1"]
    return [] if value is None else [value]


def _speculative(value: str, served: Served, said: list[str]) -> str:
    settings: dict[str, Any] = json.loads(value)
    if "method" in settings:
        raise RehearsalError(
            f"{_SPECULATIVE}: method {settings['method']}: the pair made here has an ordinary "
            "draft model, which only mode fused serves"
        )
    said.append(
        f"{_SPECULATIVE}: method draft_model, which the article's runtime never reads; upstream "
        f"drafts {settings['num_speculative_tokens']} tokens a step, NxDI one fewer"
    )
    draft = {"method": "draft_model", "model": str(served.draft)}
    return json.dumps(settings | draft, separators=(",", ":"))


def _environment(pod: Pod, served: Served, said: list[str]) -> dict[str, str]:
    kept = {}
    for name, value in pod.environment.items():
        if reason := ENVIRONMENT_LEFT_OUT.get(name):
            said.append(f"{name}: left out, {reason}")
        else:
            kept[name] = value
    said += [f"{name}: {value}" for name, value in ENVIRONMENT_ADDED.items()]
    own = {"HOME": str(served.home), "VLLM_CPU_OMP_THREADS_BIND": str(served.core)}
    return kept | dict(ENVIRONMENT_ADDED) | own
