"""Turns the chart's vLLM command into one that runs here, and lists every difference."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal import RehearsalError
from rehearsal.as_process import differences
from rehearsal.manifest import Pod
from rehearsal.setting import Server

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
    "VLLM_RPC_TIMEOUT": "removed from vLLM together with V0",
    "VLLM_USE_V1": "removed from vLLM: only V1 is left",
    "VLLM_CACHE_ROOT": "a folder of the pod",
}
"""Flags and variables of the chart that are not passed on, each with the reason.

Nor are variables with Neuron in their names. Everything else is.
"""

_REASONS: Final[Mapping[str, str]] = {
    **LEFT_OUT,
    "--port": "a free port on loopback",
    "--tensor-parallel-size": "one core in place of NeuronCores",
    "--host": "loopback only",
    "--dtype": "a core without AVX-512 takes several times as long for bfloat16, so that checking "
    "eight tokens takes several times as long as one",
    "--enforce-eager": "compiling 64 layers takes minutes on a CPU",
    "--no-enable-prefix-caching": "on by default upstream; the article's runtime has none, and "
    "a repeated prompt would skip its prefill",
    _SPECULATIVE: "since upstream keeps other methods for heads; it drafts the whole window in a "
    "step, NxDI one token fewer",
}

ENVIRONMENT_ADDED: Final[Mapping[str, str]] = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Served:
    python: Path
    """The interpreter that has vLLM."""
    target: Path
    draft: Path
    port: int
    core: int
    """Number of the CPU that it serves on."""
    home: Path


def server_command(pod: Pod, served: Served) -> tuple[Server, list[str]]:
    """The server of ``pod``, to be run here, and a line for each difference from the chart's.

    Raises RehearsalError.
    """
    chart, lines = pod.command or (), []
    if len(chart) > 2 and chart[1].endswith(_WITH_KEY):
        chart = chart[3:]
        lines.append(f"{_WITH_KEY}: left out; the key comes from the embedded Secrets Manager")
    if chart[:2] != _SERVE or len(chart) < 3:
        raise RehearsalError("the chart's command is not vllm serve MODEL")
    of_pod = dict(_flags(chart[3:]))
    flags = {flag: value for flag, value in of_pod.items() if flag not in LEFT_OUT}
    flags |= {
        "--port": str(served.port),
        "--tensor-parallel-size": "1",
        "--host": "127.0.0.1",
        "--dtype": "float32",
        "--enforce-eager": None,
        "--no-enable-prefix-caching": None,
    }
    if text := of_pod.get(_SPECULATIVE):
        settings: dict[str, Any] = json.loads(text)
        if (method := settings.get("method")) != _ANY_DRAFT:
            raise RehearsalError(f"{_SPECULATIVE}: method {method}: {NO_SUCH_DRAFT}")
        settings |= {"method": "draft_model", "model": str(served.draft)}
        flags[_SPECULATIVE] = json.dumps(settings, separators=(",", ":"))
    environment = {
        name: value
        for name, value in pod.environment.items()
        if name not in LEFT_OUT and "NEURON" not in name
    }
    environment |= ENVIRONMENT_ADDED
    environment |= {"HOME": str(served.home), "VLLM_CPU_OMP_THREADS_BIND": str(served.core)}
    lines += [
        f"{' '.join(_SERVE)}: {' '.join(_MODULE)} in Python, whose wheel has no such command",
        f"model: a pair made for this rehearsal in place of {chart[2]}",
        f"one core, number {served.core}, which all variants share in turn",
    ]
    for line in (*differences(of_pod, flags), *differences(dict(pod.environment), environment)):
        reason = _REASONS.get(line.partition(":")[0])
        lines.append(f"{line}, {reason}" if reason else line)
    words = [word for flag in flags.items() for word in flag if word is not None]
    command = (str(served.python), *_MODULE, "--model", str(served.target), *words)
    return Server(f"http://127.0.0.1:{served.port}/v1", command, environment), lines


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
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
