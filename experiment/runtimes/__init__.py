"""The runtimes: image generations that compile and serve on Trainium.

A new one is a ``Runtime``, in a module of its own unless it is one of NxDI's, and an entry in
``RUNTIMES``.
"""

from typing import Final

from experiment.known_models import Mode
from experiment.runtimes import nxdi, vllm_neuron
from experiment.runtimes.runtime import (
    EngineConfig,
    ModeSupport,
    Paths,
    Preparation,
    Runtime,
    Workload,
)
from spectap.names import Engine

__all__ = [
    "RUNTIMES",
    "Engine",
    "EngineConfig",
    "Mode",
    "ModeSupport",
    "Paths",
    "Preparation",
    "Runtime",
    "Workload",
    "families",
    "runtimes_serving",
    "serving_in_words",
]

RUNTIMES: Final[dict[str, Runtime]] = {
    runtime.name: runtime for runtime in (nxdi.FORK, nxdi.PLUGIN, vllm_neuron.RUNTIME)
}


def runtimes_serving(mode: Mode) -> tuple[str, ...]:
    """Names of the runtimes that can serve ``mode``."""
    return tuple(name for name, runtime in RUNTIMES.items() if mode in runtime.modes)


def serving_in_words(mode: Mode) -> str:
    """The runtimes that serve ``mode``, with their families: ``vllm-0.16-nxdi (llama)``."""
    return ", ".join(
        f"{name} ({families(RUNTIMES[name].modes[mode])})" for name in runtimes_serving(mode)
    )


def families(support: ModeSupport) -> str:
    """The families of a mode's targets, and whether it is a job: ``llama, qwen3, as a job``."""
    as_job = ["as a job"] if support.workload is Workload.JOB else []
    return ", ".join([*sorted(support.families), *as_job])
