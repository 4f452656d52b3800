"""Parts of a ``vllm serve`` command line that generations of runtimes share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from experiment.runtimes.runtime import Paths

if TYPE_CHECKING:  # at run time variants import runtimes
    from experiment.schema import Experiment

IMAGES: Final = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"


def serve(experiment: Experiment, paths: Paths, port: int) -> tuple[str, ...]:
    """What is served, under which name, and where."""
    return (
        *("vllm", "serve", paths.target),
        *("--served-model-name", experiment.models.target.id),
        *("--port", str(port)),
    )


def tools(experiment: Experiment) -> tuple[str, ...]:
    """Flags for calls of tools, where the prompts have some: all services get them or none."""
    parser = experiment.models.target.known.tool_parser
    if not experiment.calls_tools or parser is None:
        return ()
    return ("--enable-auto-tool-choice", "--tool-call-parser", parser)


def compact(value: Mapping[str, Any]) -> str:
    """JSON for a command line: one line, keys in the given order."""
    return json.dumps(value, separators=(",", ":"))
