"""The two sides of the comparison. They differ in speculation and in nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from experiment.artifacts import CompileInputs, artifact_key
from experiment.runtimes import compact
from experiment.schema import Experiment, Model, Speculation

BASELINE_SERVICE: Final = "qwen-vllm"
SPECULATIVE_SERVICE: Final = "qwen-sd-vllm"


@dataclass(frozen=True)
class Variant:
    """One vLLM service of an experiment."""

    service: str
    """Name of the Kubernetes Service and Deployment."""
    experiment: Experiment
    speculation: Speculation | None
    """None for the baseline."""

    @property
    def draft(self) -> Model | None:
        """The draft model; None for the baseline."""
        return self.experiment.models.draft if self.speculation else None

    @property
    def neuron_configuration(self) -> dict[str, Any]:
        """NxDI's NeuronConfig keys that vLLM's own flags cannot say.

        Sampling and sequence parallelism are given on both sides: left to its defaults, the
        loader switches sequence parallelism and dynamic sampling on for the baseline only.
        Sharded checkpoints make a start read shards instead of sharding again, and avoid
        NxDI's failure on tied embeddings ("Cannot copy out of meta tensor").
        """
        shared = {
            "save_sharded_checkpoint": True,
            "sequence_parallel_enabled": True,
            "on_device_sampling_config": {"top_k": 1, "do_sample": False},
            "logical_nc_config": self.experiment.serving.logical_core_size,
        }
        if self.speculation is None:
            return shared
        return shared | dict(self.experiment.serving_runtime.modes[self.speculation.mode].overrides)

    @property
    def artifact(self) -> str:
        """Key of this variant's compiled artifact."""
        experiment, serving = self.experiment, self.experiment.serving
        return artifact_key(
            CompileInputs(
                target=experiment.models.target.id,
                target_revision=experiment.models.target.revision,
                draft=self.draft.id if self.draft else None,
                draft_revision=self.draft.revision if self.draft else None,
                mode=self.speculation.mode if self.speculation else None,
                num_speculative_tokens=(
                    self.speculation.num_speculative_tokens if self.speculation else None
                ),
                tensor_parallel=serving.tensor_parallel,
                logical_core_size=serving.logical_core_size,
                batch=serving.batch,
                length=serving.length,
                instance_type=experiment.capacity.instance_type,
                image=experiment.serving_runtime.image,
                neuron_configuration=compact(self.neuron_configuration),
            )
        )


def variants(experiment: Experiment) -> tuple[Variant, Variant]:
    """The baseline and the speculative variant of ``experiment``."""
    return (
        Variant(BASELINE_SERVICE, experiment, None),
        Variant(SPECULATIVE_SERVICE, experiment, experiment.speculation),
    )
