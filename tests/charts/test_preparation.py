from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from charts import scripts
from charts.pods import digest
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.runtimes.nxdi import ServedMode
from experiment.schema import CompileNode
from experiment.variants import variants
from tests.charts.test_vllm import compared
from tests.matrix import BLOCK_IN_MELBOURNE, MATRIX
from tests.synthesis import ACCOUNT, Manifest, Synthesised, containers


def test_downloads_both_models_on_a_cpu_node(synthesised: Synthesised) -> None:
    pod = _pod(synthesised.object("Job", "download"))
    _, speculative = variants(synthesised.experiment)
    assert speculative.draft
    assert pod["containers"][0]["args"] == [
        f"{model.id}@{model.revision}=models/{model.id}/{model.revision}/"
        for model in (synthesised.experiment.models.target, speculative.draft)
    ]
    # The Trainium nodes are tainted.
    assert "tolerations" not in pod


def test_a_model_that_variants_share_is_downloaded_once(each: Synthesised) -> None:
    arguments = _pod(each.object("Job", "download"))["containers"][0]["args"]
    assert len(arguments) == len(set(arguments)) == 2


NODES = {
    "cpu": ("compile", "compile"),
    "trainium": ("trainium", "aws.amazon.com/neuron"),
}
"""Of each ``compiling.node``: the group's label, and the key of its taint."""


def test_both_places_to_compile_are_in_the_matrix() -> None:
    told = [changes.get("compiling") for changes in MATRIX.values()]
    named = {its["node"] if isinstance(its, dict) else "cpu" for its in told}
    assert named == set(CompileNode) == set(NODES)


def test_each_variant_has_a_compile_job_where_the_experiment_says(
    served_by_nxdi: Synthesised,
) -> None:
    assert served_by_nxdi.experiment.compile_node
    group, taint = NODES[served_by_nxdi.experiment.compile_node]
    jobs = [name for name in _job_names(served_by_nxdi) if name.startswith("compile-")]
    assert len(jobs) == len(variants(served_by_nxdi.experiment))
    for variant in variants(served_by_nxdi.experiment):
        pod = _pod(served_by_nxdi.object("Job", f"compile-{variant.service}-"))
        assert pod["nodeSelector"] == {"speculative-decoding/node-group": group}
        assert [toleration["key"] for toleration in pod["tolerations"]] == [taint]
        for container in containers(pod):
            if container["name"] in ("check", "upload"):
                assert container["args"][0] == f"compiled/{variant.artifact}/"
            if container["name"] == "upload":
                parts = ["model.pt", "neuron_config.json", "weights"]
                prepared = [c for c in containers(pod) if c["name"] == "draft"]
                assert container["args"][1:-1] == parts + ["draft/config.json"] * len(prepared)


PREPARED_BY = {
    "prepare_draft.py": (1, "83d1129a"),
    "prepare_medusa.py": (1, "db709e8a"),
}
"""The version of each script that prepares a draft, and its digest."""


@pytest.mark.parametrize("name", PREPARED_BY)
def test_a_changed_preparation_makes_another_artifact(name: str) -> None:
    """If this fails: raise the version if the drafts differ from before, and write both here.

    Without a new version, a service goes on with what the old script has prepared.
    """
    assert (PREPARATIONS[name], digest(scripts.read()[name])) == PREPARED_BY[name]
    assert set(PREPARATIONS) == set(PREPARED_BY)


def test_compiles_without_a_device_claim(synthesised: Synthesised) -> None:
    for variant in variants(synthesised.experiment):
        pod = _pod(synthesised.object("Job", f"compile-{variant.service}-"))
        assert "resourceClaims" not in pod
        environment = {e["name"]: e["value"] for e in pod["initContainers"][1]["env"]}
        assert environment["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2"
        assert environment["NEURON_LOGICAL_NC_CONFIG"] == "2"


def test_no_two_compiles_share_a_node(synthesised: Synthesised) -> None:
    for job in synthesised.objects("Job"):
        if job["metadata"]["name"].startswith("compile-"):
            affinity = _pod(job)["affinity"]["podAntiAffinity"]
            (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
            labels = job["spec"]["template"]["metadata"]["labels"]
            assert term["labelSelector"]["matchLabels"].items() <= labels.items()
            assert term["topologyKey"] == "kubernetes.io/hostname"


def test_compiles_what_the_service_serves(served_by_nxdi: Synthesised) -> None:
    serving = served_by_nxdi.experiment.serving
    for variant in variants(served_by_nxdi.experiment):
        flags = _compile_flags(served_by_nxdi, variant.service)
        assert flags["--tp-degree"] == str(serving.tensor_parallel)
        assert flags["--logical-nc-config"] == str(serving.logical_core_size)
        assert flags["--batch-size"] == str(variant.batch)
        assert flags["--seq-len"] == str(serving.length)
        assert flags["--torch-dtype"] == "bfloat16"


def test_compiles_all_variants_with_the_same_sampling_and_parallelism(
    served_by_nxdi: Synthesised,
) -> None:
    for baseline, variant in compared(served_by_nxdi):
        base = _compile_flags(served_by_nxdi, baseline.service)
        assert "--on-device-sampling" in base
        assert variant.mode
        flags = _compile_flags(served_by_nxdi, variant.service)
        speculation = {"--draft-model-path", "--speculation-length"}
        support = variant.support
        assert isinstance(support, ServedMode)
        modes = {f"--{key.replace('_', '-')}" for key in support.overrides}
        assert set(flags) - set(base) == speculation | modes
        assert flags["--speculation-length"] == str(variant.window)
        assert {k: v for k, v in flags.items() if k in base} == base


def test_an_eagle_head_is_made_a_draft_before_it_is_compiled(
    of_matrix: Callable[[str], Synthesised],
) -> None:
    eagle = of_matrix(BLOCK_IN_MELBOURNE)
    models = eagle.experiment.models
    _, job = (j for j in eagle.objects("Job") if j["metadata"]["name"].startswith("compile-"))
    check, draft, compiler = _pod(job)["initContainers"]
    assert (check["name"], draft["name"], compiler["name"]) == ("check", "draft", "compile")
    assert draft["args"] == [
        "eagle",
        *(
            f"/models/{model.id}/{model.revision}"
            for model in (models.draft, models.target)
            if model
        ),
    ]
    assert draft["image"] == compiler["image"]
    flags = dict(pairwise(compiler["args"]))
    assert flags["--draft-model-path"] == "/scratch/draft"


def test_a_changed_job_is_a_new_job_with_a_new_name(
    synthesised: Synthesised, shorter_window: Synthesised
) -> None:
    before, after = _job_names(synthesised), _job_names(shorter_window)
    assert len(before ^ after) == 2
    assert all(name.startswith("compile-qwen-sd-vllm-") for name in before ^ after)


def test_no_job_depends_on_the_account(synthesised: Synthesised) -> None:
    """Its name is a digest of its specification, and dist/ is written without an account."""
    for job in synthesised.objects("Job"):
        assert ACCOUNT not in str(job)
        assert re.fullmatch(r"[a-z-]+-[0-9a-f]{8}", job["metadata"]["name"])


def _pod(job: Manifest) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def _job_names(synthesised: Synthesised) -> set[str]:
    return {job["metadata"]["name"] for job in synthesised.objects("Job")}


def _compile_flags(synthesised: Synthesised, service: str) -> dict[str, str]:
    """Flags of ``inference_demo`` with their values; flags without one have an empty value."""
    words = _pod(synthesised.object("Job", f"compile-{service}-"))["initContainers"][-1]["args"]
    flags: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            flags[word] = "" if following.startswith("--") else following
    return flags
