"""How a variant's graph is compiled: NxDI's ``inference_demo`` and its flags.

Flags: neuronx-distributed-inference v0.6.10598, ``inference_demo.py``. They stand here and not
beside the Job that passes them on, because every one of them is part of the artifact's key.
"""

from __future__ import annotations

from experiment.schema import Experiment, Speculation


def compile_flags(
    experiment: Experiment, speculation: Speculation | None, batch: int
) -> tuple[str, ...]:
    """Flags that decide what is compiled; paths of models and output are not among them.

    NxDI writes them into the artifact's ``neuron_config.json``, from which a service takes its
    configuration. All variants are compiled to sample greedily on the device and without sequence
    parallelism, as the article's were: its loader's defaults differ between the two. Prefill has a
    batch of 1, as the loader's. Sharded checkpoints make a start read shards instead of sharding
    again, and avoid NxDI's failure on tied embeddings ("Cannot copy out of meta tensor").
    """
    serving = experiment.serving
    shared = (
        *("--torch-dtype", "bfloat16"),
        *("--tp-degree", str(serving.tensor_parallel)),
        *("--logical-nc-config", str(serving.logical_core_size)),
        *("--batch-size", str(batch), "--ctx-batch-size", "1"),
        *("--tkg-batch-size", str(batch), "--is-continuous-batching"),
        *("--seq-len", str(serving.length), "--max-context-length", str(serving.length)),
        *("--padding-side", "right", "--enable-bucketing"),
        *("--on-device-sampling", "--top-k", "1"),
        "--save-sharded-checkpoint",
    )
    if speculation is None:
        return shared
    overrides = experiment.serving_runtime.modes[speculation.mode].overrides
    return (
        *shared,
        *("--speculation-length", str(speculation.num_speculative_tokens)),
        *(f"--{key.replace('_', '-')}" for key in overrides),
    )
