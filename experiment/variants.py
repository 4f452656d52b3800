"""The variants of an experiment: what is compared, and what each differs in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from experiment.artifacts import CompileInputs, artifact_key
from experiment.compilation import compile_flags
from experiment.runtimes import Mode, Runtime
from experiment.schema import Experiment, Model, Speculation


class Workload(StrEnum):
    """How a variant lives in Kubernetes."""

    SERVICE = "service"
    """A Deployment and a Service."""
    JOB = "job"


@dataclass(frozen=True)
class Variant:
    """One way of decoding under test."""

    name: str
    """Value of the CloudWatch dimension Variant."""
    service: str
    """Name of the Kubernetes Service and Deployment."""
    experiment: Experiment
    speculation: Speculation | None
    """None for a baseline."""
    baseline: str | None
    """Name of the variant it is compared with: the baseline of its batch; None for a baseline."""
    workload: Workload = Workload.SERVICE

    @property
    def runtime(self) -> Runtime:
        """The image generation that serves it."""
        return self.experiment.serving_runtime

    @property
    def mode(self) -> Mode | None:
        """Speculation mode; None for a baseline."""
        return self.speculation.mode if self.speculation else None

    @property
    def window(self) -> int | None:
        """``num_speculative_tokens``; None for a baseline."""
        return self.speculation.num_speculative_tokens if self.speculation else None

    @property
    def batch(self) -> int:
        """Sequences decoded together."""
        return self.experiment.serving.batch

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
                mode=self.mode,
                num_speculative_tokens=self.window,
                tensor_parallel=serving.tensor_parallel,
                logical_core_size=serving.logical_core_size,
                batch=self.batch,
                length=serving.length,
                instance_type=experiment.capacity.instance_type,
                image=experiment.serving_runtime.image,
                family=experiment.models.target.known.family,
                compile_flags=self.compile_flags,
            )
        )


def variants(experiment: Experiment) -> tuple[Variant, ...]:
    """The variants of ``experiment``, in the order they are shown in; the first is a baseline."""
    return (
        Variant("Base", "qwen-vllm", experiment, None, None),
        Variant("SD", "qwen-sd-vllm", experiment, experiment.speculation, "Base"),
    )
