"""A small experiment of the same shape on nodes of one device, to try a deployment in minutes."""

import io
from typing import Any, Final

from ruamel.yaml import YAML

from experiment.fields import ExperimentError
from experiment.hardware import TRN2_3XLARGE
from experiment.runtimes import Mode, Workload, serving_in_words
from experiment.schema import Experiment

# Both have 16 heads, which NxDI shards over the 4 or 8 logical cores of one device.
TARGET: Final = ("Qwen/Qwen3-1.7B", "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e")
DRAFT: Final = ("Qwen/Qwen3-0.6B", "c1899de289a04d12100db370d81485cdf75e47ca")
REGION: Final = "ap-southeast-4"
PRICE: Final = {
    "instance_type": TRN2_3XLARGE.name,
    "usd_per_hour": 2.235,
    "purchase": "on-demand",
    "region": REGION,
    "as_of": "2026-05-02",
    "source": "a third party's table, which others could not confirm (docs/cost.md)",
}
LENGTH: Final = 512
TOKENS: Final = 64
REQUESTS: Final = 8

# Their names differ from the experiment's: these figures must not appear in its curves.
CASES: Final = tuple(
    {"name": f"smoke-{structure}", "line": line, "structure": structure, "headline": True}
    for structure, line in (
        ("structured", "counting numbers from 1 "),
        ("open-ended", "I believe the meaning of life is"),
    )
)


def smoke_experiment(experiment: Experiment, file: str) -> str:
    """YAML of ``experiment``, read from ``file``, with small models, few tokens and few requests.

    Each variant has a node of one device, on demand; where those are not offered, in ``REGION``. It
    has a name of its own, for dashboards' are unique in an account. No small heads are known, so it
    uses a draft model: fused, or vanilla where its variants are jobs. Of several variants it has
    the first, of a sweep the widest window.

    Raises ExperimentError for a runtime without that mode.
    """
    mode = Mode.VANILLA if experiment.workload is Workload.JOB else Mode.FUSED
    if mode not in experiment.serving_runtime.modes:
        raise ExperimentError(
            f'{file}: runtime = "{experiment.runtime}": services are tried in mode {mode} alone, '
            f"which is served by {serving_in_words(mode)}; deploy {file} itself"
        )
    data: dict[str, Any] = experiment.model_dump(mode="json")
    data["name"] = f"{experiment.name[:14]}-smoke"
    capacity = data["capacity"]
    capacity |= {"purchase": "on-demand", "reservation_id": None, "price": PRICE, "nodes": 2}
    capacity["instance_type"] = TRN2_3XLARGE.name
    if experiment.workload is Workload.JOB:
        capacity["nodes"] = 1
    if experiment.aws.region not in TRN2_3XLARGE.regions:
        zones = [f"{REGION}{letter}" for letter in "ac"]
        public = [b for b in experiment.aws.api_access if b not in experiment.aws.private_access]
        data["aws"] = {"region": REGION, "availability_zones": zones, "api_access": public}
        capacity["availability_zone"] = zones[-1]  # the only one that had them on 2026-10-03
    if experiment.speculation:
        least = experiment.serving_runtime.modes[mode].minimum_tokens
        first = experiment.speculations[0]
        window = max(first.num_speculative_tokens, least)
        named = {"name": first.name, "mode": str(mode), "num_speculative_tokens": window}
        data["speculation"] = [named]
    if experiment.sweep:
        # Each batch keeps one variant and its baseline, and no more nodes than those.
        batches = data["sweep"]["batches"] or (None,)
        widest = max(s.num_speculative_tokens for s in experiment.speculations)
        data["sweep"] |= {"mode": str(mode), "drafts": None, "windows": [widest]}
        capacity["nodes"] = min(experiment.capacity.nodes, 2 * len(batches))
    data["models"] = {
        role: {"id": name, "revision": revision}
        for role, (name, revision) in (("target", TARGET), ("draft", DRAFT))
    }
    logical_cores = TRN2_3XLARGE.cores_per_device // experiment.serving.logical_core_size
    data["serving"] |= {"length": LENGTH, "devices": 1, "tensor_parallel": logical_cores}
    data["benchmark"] |= {
        "concurrency": experiment.concurrency_without_a_queue,
        "load": None,
        "requests": REQUESTS,
        "rounds": 1,
        "mean_input_tokens": TOKENS,
        "stddev_input_tokens": 0,
        "mean_output_tokens": TOKENS,
        "stddev_output_tokens": 0,
        "test_cases": list(CASES),
    }
    data["published"] = []
    if experiment.quality:
        data["quality"]["limit"] = 1
    untried = sorted({str(s.mode) for s in experiment.speculations if s.mode is not mode})
    text = io.StringIO()
    text.write(
        f"# Made by make smoke from {file}: the same steps with a small pair on small nodes.\n"
    )
    text.write(f"# Deploy it before {file}. Its results say nothing about speculation.\n")
    text.write("# Not tried: EFA, a group of devices, and whether larger nodes can be had.\n")
    if data["aws"]["region"] != experiment.aws.region:
        left = f", without {experiment.aws.vpc} and what is in it" if experiment.aws.vpc else ""
        text.write(f"# In {REGION}, which offers such nodes{left}.\n")
    if untried:
        modes = ", ".join(untried)
        text.write(f"# Not tried: mode {modes}, and what prepares it; in its place is {mode}.\n")
    text.write("\n")
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(data, text)
    return text.getvalue()
