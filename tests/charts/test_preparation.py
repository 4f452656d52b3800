"""Jobs that download and compile; of each kind a whole manifest is a snapshot."""

from __future__ import annotations

import re

import pytest

from charts import scripts
from charts.pods import digest
from experiment import Experiment
from experiment.loader import parse
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.runtimes.nxdi import ServedMode
from experiment.variants import variants
from tests.charts.test_vllm import compared
from tests.experiment.files import ON_TRAINIUM, edited
from tests.synthesis import ACCOUNT, Synthesised, by_name, containers, render

NODES = {
    "cpu": ("compile", "compile"),
    "trainium": ("trainium", "aws.amazon.com/neuron"),
}
"""Of each ``compiling.node``: the group's label, and the key of its taint."""
PREPARED_BY = {
    "prepare_draft.py": (1, "83d1129a"),
    "prepare_medusa.py": (1, "db709e8a"),
}
"""The version of each script that prepares a draft, and its digest."""


@pytest.mark.parametrize("node", NODES)
def test_each_variant_is_compiled_where_the_experiment_says(node: str) -> None:
    experiment = parse(edited(ON_TRAINIUM if node == "trainium" else {}), "mine.yaml")
    objects = by_name(render(experiment))
    for variant in variants(experiment):
        pod = objects["Job", f"compile-{variant.service}"]["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"speculative-decoding/node-group": NODES[node][0]}
        assert [toleration["key"] for toleration in pod["tolerations"]] == [NODES[node][1]]
        # NxDI traces and shards on the CPU.
        assert "resourceClaims" not in pod
        check, *_, upload = containers(pod)
        assert check["args"][0] == upload["args"][0] == f"compiled/{variant.artifact}/"
    assert len([name for kind, name in objects if name.startswith("compile-")]) == 2


@pytest.mark.parametrize("name", PREPARED_BY)
def test_a_changed_preparation_makes_another_artifact(name: str) -> None:
    """If this fails: raise the version if the drafts differ from before, and write both here.

    Without a new version, a service goes on with what the old script has prepared.
    """
    assert (PREPARATIONS[name], digest(scripts.read()[name])) == PREPARED_BY[name]
    assert set(PREPARATIONS) == set(PREPARED_BY)


def test_variants_are_compiled_alike_but_for_speculation(each: Synthesised) -> None:
    serving = each.experiment.serving
    for baseline, variant in compared(each):
        assert isinstance(variant.support, ServedMode)
        base, flags = (_compile_flags(each, v.service) for v in (baseline, variant))
        assert base["--tp-degree"] == str(serving.tensor_parallel)
        assert base["--logical-nc-config"] == str(serving.logical_core_size)
        assert base["--batch-size"] == str(variant.batch)
        assert base["--seq-len"] == str(serving.length)
        assert "--on-device-sampling" in base
        modes = {f"--{key.replace('_', '-')}" for key in variant.support.overrides}
        speculation = {"--draft-model-path", "--speculation-length"} | modes
        assert set(flags) - set(base) == speculation
        assert flags["--speculation-length"] == str(variant.window)
        assert base.items() <= flags.items()


def test_a_changed_job_is_a_new_job_with_a_new_name(article: Experiment) -> None:
    """Its name is a digest of its specification, in which no account is."""
    shorter = parse(edited({"speculation.num_speculative_tokens": 5}), "mine.yaml")
    before, after = ([o for o in render(e) if o["kind"] == "Job"] for e in (article, shorter))
    names, changed_names = ({job["metadata"]["name"] for job in jobs} for jobs in (before, after))
    assert len(names ^ changed_names) == 2
    assert all(name.startswith("compile-qwen-sd-vllm-") for name in names ^ changed_names)
    for job in before:
        assert ACCOUNT not in str(job)
        assert re.fullmatch(r"[a-z-]+-[0-9a-f]{8}", job["metadata"]["name"])


def _compile_flags(synthesised: Synthesised, service: str) -> dict[str, str]:
    """Flags of ``inference_demo`` with their values; flags without one have an empty value."""
    job = synthesised.object("Job", f"compile-{service}-")
    words = job["spec"]["template"]["spec"]["initContainers"][-1]["args"]
    flags: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            flags[word] = "" if following.startswith("--") else following
    return flags
