"""The two sides of the comparison. They differ in speculation and in nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from experiment.artifacts import CompileInputs, artifact_key
from experiment.compilation import compile_flags
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
    def compile_flags(self) -> tuple[str, ...]:
        """What the compiler is told."""
        return compile_flags(self.experiment, self.speculation)

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
                family=experiment.models.target.known.family,
                compile_flags=self.compile_flags,
            )
        )


def variants(experiment: Experiment) -> tuple[Variant, Variant]:
    """The baseline and the speculative variant of ``experiment``."""
    return (
        Variant(BASELINE_SERVICE, experiment, None),
        Variant(SPECULATIVE_SERVICE, experiment, experiment.speculation),
    )
