"""Jobs that download and compile; of each kind a whole manifest is a snapshot."""

from __future__ import annotations

import pytest

from charts import scripts
from charts.pods import digest
from experiment import Experiment
from experiment.loader import parse
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.runtimes.nxdi import ServedMode
from tests.charts.test_vllm import compared, flags
from tests.experiment.files import ON_TRAINIUM, edited
from tests.synthesis import ACCOUNT, Synthesised, render

PREPARED_BY = {
    "prepare_draft.py": (1, "83d1129a"),
    "prepare_medusa.py": (1, "db709e8a"),
}
"""The version of each script that prepares a draft, and its digest."""


def test_variants_are_compiled_on_trainium_nodes_where_the_experiment_says() -> None:
    jobs = [o for o in render(parse(edited(ON_TRAINIUM), "mine.yaml")) if o["kind"] == "Job"]
    pods = [job["spec"]["template"]["spec"] for job in jobs if "compile" in job["metadata"]["name"]]
    assert len(pods) == 2
    for pod in pods:
        assert pod["nodeSelector"] == {"speculative-decoding/node-group": "trainium"}
        assert [each["key"] for each in pod["tolerations"]] == ["aws.amazon.com/neuron"]


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
        base, speculating = (
            flags(
                each.object("Job", f"compile-{v.service}-")["spec"]["template"]["spec"][
                    "initContainers"
                ][-1]["args"]
            )
            for v in (baseline, variant)
        )
        shape = {
            "--tp-degree": str(serving.tensor_parallel),
            "--logical-nc-config": str(serving.logical_core_size),
            "--batch-size": str(variant.batch),
            "--seq-len": str(serving.length),
            "--on-device-sampling": True,
        }
        assert shape.items() <= base.items() <= speculating.items()
        modes = {f"--{key.replace('_', '-')}" for key in variant.support.overrides}
        speculation = {"--draft-model-path", "--speculation-length"} | modes
        assert set(speculating) - set(base) == speculation
        assert speculating["--speculation-length"] == str(variant.window)


def test_a_changed_job_is_a_new_job_with_a_new_name(article: Experiment) -> None:
    """Its name is a digest of its specification, in which no account is."""
    shorter = parse(edited({"speculation.num_speculative_tokens": 5}), "mine.yaml")
    before, after = ([o for o in render(e) if o["kind"] == "Job"] for e in (article, shorter))
    names, changed_names = ({job["metadata"]["name"] for job in jobs} for jobs in (before, after))
    assert len(names ^ changed_names) == 2
    assert all(name.startswith("compile-qwen-sd-vllm-") for name in names ^ changed_names)
    assert not any(ACCOUNT in str(job) for job in before)
