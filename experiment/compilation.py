"""How a variant's graph is compiled: NxDI's ``inference_demo`` and its flags.

Flags: neuronx-distributed-inference, ``inference_demo.py``. They stand here and not beside the
Job that passes them on, because every one of them is part of the artifact's key.
"""

from __future__ import annotations

from typing import Any

from experiment.schema import Experiment, Speculation


def neuron_configuration(experiment: Experiment, speculation: Speculation | None) -> dict[str, Any]:
    """NxDI's NeuronConfig keys that vLLM's own flags cannot say.

    Sampling and sequence parallelism are given on both sides: left to its defaults, the loader
    switches sequence parallelism and dynamic sampling on for the baseline only. Sharded
    checkpoints make a start read shards instead of sharding again, and avoid NxDI's failure on
    tied embeddings ("Cannot copy out of meta tensor").
    """
    shared = {
        "save_sharded_checkpoint": True,
        "sequence_parallel_enabled": True,
        "on_device_sampling_config": {"top_k": 1, "do_sample": False},
        "logical_nc_config": experiment.serving.logical_core_size,
    }
    if speculation is None:
        return shared
    return shared | dict(experiment.serving_runtime.modes[speculation.mode].overrides)


def compile_flags(experiment: Experiment, speculation: Speculation | None) -> tuple[str, ...]:
    """Flags that decide what is compiled; paths of models and output are not among them.

    ``ctx-batch-size`` 1 is what vLLM's loader compiles prefill with. The rest says the same as
    ``neuron_configuration``, in the command's words.
    """
    serving = experiment.serving
    shared = (
        *("--torch-dtype", "bfloat16"),
        *("--tp-degree", str(serving.tensor_parallel)),
        *("--logical-nc-config", str(serving.logical_core_size)),
        *("--batch-size", str(serving.batch), "--ctx-batch-size", "1"),
        *("--tkg-batch-size", str(serving.batch), "--is-continuous-batching"),
        *("--seq-len", str(serving.length), "--max-context-length", str(serving.length)),
        *("--padding-side", "right", "--enable-bucketing"),
        *("--on-device-sampling", "--top-k", "1"),
        *("--sequence-parallel-enabled", "--save-sharded-checkpoint"),
    )
    if speculation is None:
        return shared
    overrides = experiment.serving_runtime.modes[speculation.mode].overrides
    return (
        *shared,
        *("--speculation-length", str(speculation.num_speculative_tokens)),
        *(f"--{key.replace('_', '-')}" for key in overrides),
    )
