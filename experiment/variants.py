"""The variants of an experiment: what is compared, how each differs, and its graph's key.

NxDI loads any graph that it finds at ``NEURON_COMPILED_ARTIFACTS``, and ignores flags that differ
from those of the compile. If a key left out an input, one window would silently run on another
window's graph.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from experiment.known_models import Model
from experiment.runtimes import RUNTIMES, EngineConfig, Mode, ModeSupport, Runtime
from experiment.schema import Experiment
from experiment.speculation import Speculation


def artifact_key(inputs: Mapping[str, Any]) -> str:
    """A readable prefix and 16 hex digits of SHA-256 over all that changes what is compiled.

    For example ``qwen3-32b-fused-7-0123456789abcdef``; safe as an object key, a label value and
    part of a file name.
    """
    canonical = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    mode, window = inputs["mode"], inputs["num_speculative_tokens"]
    # A label value holds 63 characters.
    model = inputs["target"].rpartition("/")[2].lower()[:24].strip(".-_")
    return f"{model}-{f'{mode}-{window}' if mode else 'base'}-{digest}"


@dataclass(frozen=True)
class Variant:
    """One way of decoding under test."""

    name: str
    """Value of the CloudWatch dimension Variant."""
    experiment: Experiment
    speculation: Speculation | None
    """None for a baseline."""
    baseline: str | None
    """The name of the baseline of its batch; None for a baseline."""
    batch: int
    """Sequences decoded together."""
    without: str | None = None
    """A feature of the runtime that it is served without; None where it has all."""

    @property
    def service(self) -> str:
        """The name of its Service and Deployment. ``Base`` and ``SD`` have the article's."""
        of_variant = [] if self.name == "Base" else [self.name.lower()]
        return "-".join([self.experiment.name_prefix, *of_variant, "vllm"])

    @property
    def runtime(self) -> Runtime:
        return self.experiment.serving_runtime

    @property
    def mode(self) -> Mode | None:
        return self.speculation.mode if self.speculation else None

    @property
    def matched(self) -> bool:
        """Whether it is a baseline that is served like the variants that speculate.

        It explains what separates these from the deciding baseline; nothing is compared with it.
        """
        return self.speculation is None and self.without is not None

    @property
    def support(self) -> ModeSupport | None:
        return self.runtime.modes[self.mode] if self.mode else None

    @property
    def window(self) -> int | None:
        return self.speculation.num_speculative_tokens if self.speculation else None

    @property
    def drafts_per_step(self) -> int | None:
        """Drafts that a step verifies, which yields at most one token more; None for a baseline."""
        if self.support is None or self.window is None:
            return None
        return self.support.drafts_per_step(self.window)

    @property
    def draft(self) -> Model | None:
        if self.speculation is None or self.support is None or self.support.draft is None:
            return None
        return self.speculation.draft or self.experiment.models.draft

    @property
    def models(self) -> tuple[Model, ...]:
        """The target, and the draft if there is one."""
        target, draft = self.experiment.models.target, self.draft
        return (target, draft) if draft else (target,)

    @property
    def engine_config(self) -> EngineConfig:
        target = self.experiment.models.target
        architecture = target.resolved_architecture
        return EngineConfig(
            target=target.id,
            family=architecture.family,
            tool_parser=architecture.tool_parser if self.experiment.calls_tools else None,
            platform=self.experiment.capacity.instance.platform,
            serving=self.experiment.serving,
            batch=self.batch,
            served_length=self.experiment.served_length,
            answer_tokens=self.experiment.benchmark.mean_output_tokens,
            mode=self.mode,
            window=self.window,
            has_draft=self.draft is not None,
            modes=tuple(dict.fromkeys(each.mode for each in self.experiment.speculations)),
            without=self.without,
        )

    @property
    def compile_flags(self) -> tuple[str, ...]:
        return self.runtime.compile_flags(self.engine_config)

    @property
    def artifact(self) -> str:
        serving, target, draft = self.experiment.serving, self.experiment.models.target, self.draft
        return artifact_key(
            {
                "target": target.id,
                "target_revision": target.revision,
                "draft": draft.id if draft else None,
                "draft_revision": draft.revision if draft else None,
                "mode": self.mode,
                "num_speculative_tokens": self.window,
                "tensor_parallel": serving.tensor_parallel,
                "logical_core_size": serving.logical_core_size,
                "batch": self.batch,
                "length": serving.length,
                "instance_type": self.experiment.capacity.instance_type,
                "image": self.runtime.image,
                "family": target.resolved_architecture.family,
                # Beside them, so that the keys of all that needs no prepared draft stay the same.
                "compile_flags": (
                    *self.compile_flags,
                    *self.runtime.draft_version(self.engine_config),
                ),
            }
        )


def variants(experiment: Experiment) -> tuple[Variant, ...]:
    """The variants of ``experiment``, in the order in which they are shown.

    Each batch's baseline is followed by what is compared with it, and the batch of ``serving``
    comes first. Matched baselines come last, where the runtime has any, as many as the nodes have
    devices for.
    """
    usual = experiment.serving.batch
    batches = dict.fromkeys(speculation.batch or usual for speculation in experiment.speculations)
    listed: list[Variant] = []
    for batch in sorted(batches, key=lambda batch: batch != usual):
        baseline = "Base" if batch == usual else f"Base-batch-{batch}"
        listed.append(Variant(baseline, experiment, None, None, batch))
        listed += (
            Variant(s.name, experiment, s, baseline, batch, _without(experiment, s))
            for s in experiment.speculations
            if (s.batch or usual) == batch
        )
    return (*listed, *_matched(experiment, listed))


def checkpoints(experiment: Experiment) -> tuple[Model, ...]:
    """The models of all variants, each once: variants may share a draft."""
    models = (model for variant in variants(experiment) for model in variant.models)
    return tuple({(model.id, model.revision): model for model in models}.values())


def _matched(experiment: Experiment, listed: Sequence[Variant]) -> Sequence[Variant]:
    """The matched baselines, as many as fit on the nodes beside the deciding variants."""
    per_node = experiment.capacity.instance.devices // experiment.serving.devices
    without = {f"{v.baseline}-matched": (v.batch, v.without) for v in listed if v.without}
    free = max(0, experiment.capacity.nodes * per_node - len(listed))
    matched = islice(without.items(), free)
    return [Variant(name, experiment, None, None, *settings) for name, settings in matched]


def _without(experiment: Experiment, speculation: Speculation) -> str | None:
    runtime = RUNTIMES.get(experiment.runtime)  # no such runtime is refused by a rule, elsewhere
    support = runtime.modes.get(speculation.mode) if runtime else None
    return support.speculates_without if support and not speculation.async_scheduling else None
