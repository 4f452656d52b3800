"""The Indexed Job of variants that run as jobs, and what each index finds in its ConfigMap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import cdk8s
import pytest

from charts import scripts
from charts.deployed import Deployed
from charts.indexes import NEVER, NOT_YET, run_id
from charts.manifests import charts
from charts.names import bucket_name
from charts.offline import generate_command, indexes
from experiment import Experiment
from experiment.cost.durations import index_deadline_seconds, job_deadline_seconds
from experiment.loader import parse
from experiment.runtimes import Mode
from experiment.variants import variants
from spectap import config
from tests.experiment.files import VANILLA, edited
from tests.matrix import JOBS
from tests.synthesis import Manifest, Synthesised

Objects = dict[tuple[str, str], Manifest]
ACCOUNT: Final = "111122223333"


@pytest.fixture
def experiment() -> Experiment:
    """A baseline and vanilla."""
    return _parsed()


@pytest.fixture
def objects(experiment: Experiment) -> Objects:
    """By kind and name, the digests of Jobs left out."""
    return _objects(experiment)


def test_nothing_stands_and_nothing_else_measures(objects: Objects) -> None:
    kinds = {kind for kind, _ in objects}
    assert not kinds & {"Service", "Deployment", "Pod"}
    names = {name for kind, name in objects if kind == "Job"}
    assert names == {"download", "compile-qwen-vllm", "compile-qwen-sd-vllm", "qwen-offline"}
    accounts = {name for kind, name in objects if kind == "ServiceAccount"}
    assert accounts == {"prepare", "offline"}
    policies = {name for kind, name in objects if kind == "NetworkPolicy"}
    assert policies == {"default-deny", "allow-dns", "allow-aws"}


def test_each_variant_is_an_index_and_one_runs_at_a_time(
    experiment: Experiment, objects: Objects
) -> None:
    spec = objects["Job", "qwen-offline"]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert (spec["completions"], spec["parallelism"]) == (2, 1)
    data = objects["ConfigMap", "qwen-offline"]["data"]
    told = config.Config.model_validate_json(data["config.json"])
    for index, variant in enumerate(variants(experiment)):
        assert data[f"{index}.variant"] == f"{variant.name}\n"
        assert data[f"{index}.artifact"] == f"compiled/{variant.artifact}/\n"
        assert data[f"{index}.generate"].splitlines() == generate_command(variant)
        assert data[f"{index}.folder"] == f"{told.variants[index].folder}\n"
    assert len(data) == 1 + 4 * 2
    assert [variant.name for variant in variants(experiment)] == ["Base", "SD"]


def test_an_index_fetches_generates_and_collects(experiment: Experiment, objects: Objects) -> None:
    pod = _pod(objects)
    _, fetch, generate = pod["initContainers"]
    (collect,) = pod["containers"]
    assert fetch["command"] == ["/bin/bash", "/scripts/fetch-index.sh"]
    assert collect["args"] == ["collect"]
    assert generate["command"] == [
        *("/bin/bash", "/scripts/generate.sh"),
        *("/etc/benchmark", "/artifact", "/results"),
    ]
    assert generate["image"] == experiment.serving_runtime.image
    assert _environment(generate)["HF_HUB_OFFLINE"] == "1"
    for container in (fetch, generate, collect):
        assert _environment(container)["RUN_ID"] == run_id(experiment)


def test_all_that_is_written_goes_to_one_folder(objects: Objects) -> None:
    """``collect`` reads what ``generate`` writes."""
    pod = _pod(objects)
    _, fetch, generate = pod["initContainers"]
    (collect,) = pod["containers"]
    for container in (generate, collect):
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert mounts["/results"]["name"] == "results"
        assert "readOnly" not in mounts["/results"]
        assert mounts["/etc/benchmark"] == {
            "name": "config",
            "mountPath": "/etc/benchmark",
            "readOnly": True,
        }
    # inference_demo saves its tokenizer beside the graph.
    written = [m for m in generate["volumeMounts"] if m["mountPath"] == "/artifact"]
    assert "readOnly" not in written[0]
    assert [m["name"] for m in fetch["volumeMounts"] if m["mountPath"] == "/artifact"] == [
        written[0]["name"]
    ]


def test_the_devices_are_the_generating_container_s_alone(objects: Objects) -> None:
    pod = _pod(objects)
    assert len(pod["resourceClaims"]) == 1
    claiming = [
        container["name"]
        for container in (*pod["initContainers"], *pod["containers"])
        if container["resources"].get("claims")
    ]
    assert claiming == ["devices", "generate"]


def test_an_index_takes_no_more_of_its_node_than_a_service(
    objects: Objects, synthesised: Synthesised
) -> None:
    deployment = synthesised.object("Deployment", "qwen-vllm")["spec"]["template"]["spec"]
    (service,) = deployment["containers"]
    *_, generate = _pod(objects)["initContainers"]
    assert generate["resources"] == service["resources"]


def test_what_is_no_failure_and_what_is_not_tried_again(objects: Objects) -> None:
    spec = objects["Job", "qwen-offline"]["spec"]
    *by_status, disrupted = spec["podFailurePolicy"]["rules"]
    rules = [(rule["action"], *rule["onExitCodes"].values()) for rule in by_status]
    assert rules == [
        ("Ignore", "fetch", "In", [NOT_YET]),
        ("FailIndex", "devices", "In", [NEVER]),
        ("FailIndex", "fetch", "In", [NEVER]),
        ("FailIndex", "generate", "In", [NEVER]),
    ]
    assert disrupted["action"] == "Ignore"
    assert spec["backoffLimitPerIndex"] == 2
    assert _pod(objects)["restartPolicy"] == "Never"


def test_the_node_neither_compiles_nor_measures_anything_else(objects: Objects) -> None:
    assert _kept_away(_pod(objects)) == {"matchLabels": {"step": "compile"}}
    for name in ("compile-qwen-vllm", "compile-qwen-sd-vllm"):
        template = objects["Job", name]["spec"]["template"]
        (asked,) = _kept_away(template["spec"])["matchExpressions"]
        assert set(asked["values"]) == {"offline", template["metadata"]["labels"]["component"]}
    labels = objects["Job", "qwen-offline"]["spec"]["template"]["metadata"]["labels"]
    assert labels["component"] == "offline"


def test_a_job_that_hangs_is_ended(experiment: Experiment, objects: Objects) -> None:
    """An index by its own deadline, whose devices the next try gets; all of them by the Job's."""
    spec = objects["Job", "qwen-offline"]["spec"]
    assert _pod(objects)["activeDeadlineSeconds"] == index_deadline_seconds(experiment)
    assert spec["activeDeadlineSeconds"] == job_deadline_seconds(experiment)
    assert job_deadline_seconds(experiment) > 2 * index_deadline_seconds(experiment)


def test_variants_differ_in_what_is_generated_with_and_in_nothing_else(
    experiment: Experiment,
) -> None:
    base, speculating = (generate_command(variant) for variant in variants(experiment))
    more = _flags(speculating) - _flags(base)
    assert _flags(base) < _flags(speculating)
    assert {flag for flag, _ in more} == {
        "--draft-model-path",
        "--compiled-draft-model-path",
        "--speculation-length",
    }


def test_all_run_with_the_flags_that_they_were_compiled_with(
    of_matrix: Callable[[str], Synthesised],
) -> None:
    """inference_demo asks its command line, not the artifact, what it is about to run."""
    for name in JOBS:
        for variant in variants(of_matrix(name).experiment):
            command = generate_command(variant)
            assert set(variant.compile_flags) <= set(command)
            assert "--benchmark" in command
            assert (command[0] == "python3") == (variant.mode is Mode.MEDUSA)


@pytest.mark.parametrize("instrument", ["benchmark_medusa.py", "medusa-tree-4.json"])
def test_what_measures_decides_the_folder(monkeypatch: pytest.MonkeyPatch, instrument: str) -> None:
    """What another instrument has measured is not merged with its own."""
    folders, name = _folders(_parsed()), _name(_parsed(), ACCOUNT, "a1")
    read = scripts.read()
    monkeypatch.setattr(scripts, "read", lambda: {**read, instrument: "other"})
    assert not {*folders.values()} & {*_folders(_parsed()).values()}
    assert name != _name(_parsed(), ACCOUNT, "a1")


def _parsed(changes: dict[str, Any] | None = None) -> Experiment:
    return parse(edited(VANILLA | (changes or {})), "mine.yaml")


def _rendered(experiment: Experiment, account: str, tag: str) -> Iterator[Manifest]:
    registry = f"{account}.dkr.ecr.us-east-2.amazonaws.com/assets-{account}"
    deployed = Deployed(bucket_name(experiment, account), f"{registry}:{tag}")
    for chart in charts(cdk8s.App(), experiment, deployed):
        yield from chart.to_json()


def _objects(experiment: Experiment) -> Objects:
    named = ((o["kind"], o["metadata"]["name"], o) for o in _rendered(experiment, ACCOUNT, "a1"))
    return {(k, n.rpartition("-")[0] if k == "Job" else n): o for k, n, o in named}


def _name(experiment: Experiment, account: str, tag: str) -> str:
    (name,) = (
        o["metadata"]["name"]
        for o in _rendered(experiment, account, tag)
        if o["kind"] == "Job" and o["metadata"]["name"].startswith("qwen-offline-")
    )
    return str(name)


def _folders(experiment: Experiment) -> dict[str, str]:
    told = indexes(experiment).indexed_config(experiment, "bucket", "a1")
    return {variant.name: variant.folder for variant in told.variants}


def _flags(command: list[str]) -> set[tuple[str, str]]:
    """Each flag with its value, empty where it takes none."""
    pairs = pairwise([*command, ""])
    return {
        (flag, "" if value.startswith("--") else value)
        for flag, value in pairs
        if flag.startswith("--")
    }


def _pod(objects: Objects) -> dict[str, Any]:
    pod: dict[str, Any] = objects["Job", "qwen-offline"]["spec"]["template"]["spec"]
    return pod


def _environment(container: dict[str, Any]) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in container["env"]}


def _kept_away(pod: dict[str, Any]) -> dict[str, Any]:
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    selector: dict[str, Any] = term["labelSelector"]
    return selector
