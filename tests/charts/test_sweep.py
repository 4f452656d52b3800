"""The Indexed Job of a sweep, and what each index finds in its ConfigMap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cdk8s
import pytest
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO
from syrupy.assertion import SnapshotAssertion

from charts import scripts
from charts.deployed import Deployed
from charts.indexes import run_id
from charts.llmperf import benchmark_config
from charts.manifests import charts
from charts.names import bucket_name
from charts.server import serve_command
from charts.sweep import indexes
from experiment import Experiment, load
from experiment.cost.durations import estimate, job_deadline_seconds
from experiment.loader import parse
from experiment.runtimes import RUNTIMES
from experiment.runtimes.nxdi import Nxdi
from experiment.variants import variants
from spectap import config
from tests.charts.test_snapshots import ManifestSnapshot
from tests.charts.test_vllm import compared, difference
from tests.experiment.files import EXPERIMENTS, edited, swept
from tests.matrix import SWEEP
from tests.synthesis import ACCOUNT, Manifest, Synthesised

NAMES = ["Base", "k3-b4", "k15-b4", "Base-batch-8", "k3-b8", "k15-b8"]


@pytest.fixture(scope="module")
def sweep(of_matrix: Callable[[str], Synthesised]) -> Synthesised:
    """Two windows at two batches, on two nodes."""
    return of_matrix(SWEEP)


def test_nothing_stands_and_nothing_else_measures(sweep: Synthesised) -> None:
    assert {name for name in sweep.manifests if name.startswith("qwen")} == set()
    assert not [*sweep.objects("Service"), *sweep.objects("Deployment"), *sweep.objects("Pod")]
    kinds = {job["metadata"]["labels"]["component"] for job in sweep.objects("Job")}
    assert kinds == {"prepare", "sweep"}
    accounts = [account["metadata"]["name"] for account in sweep.objects("ServiceAccount")]
    assert accounts == ["prepare", "sweep"]


def test_manifests_of_the_articles_sweep(snapshot: SnapshotAssertion) -> None:
    found = _objects(load(EXPERIMENTS / "article-sweep.yaml"), ACCOUNT, "a1")
    stream = StringIO()
    YAML().dump_all(found.values(), stream)
    assert stream.getvalue() == snapshot(extension_class=ManifestSnapshot)


def test_each_variant_is_an_index(sweep: Synthesised) -> None:
    assert [variant.name for variant in variants(sweep.experiment)] == NAMES
    spec = _job(sweep)["spec"]
    assert spec["completionMode"] == "Indexed"
    assert (spec["completions"], spec["parallelism"]) == (6, 6)
    data = _data(sweep)
    for index, variant in enumerate(variants(sweep.experiment)):
        assert data[f"{index}.variant"] == f"{variant.name}\n"
        assert data[f"{index}.artifact"] == f"compiled/{variant.artifact}/\n"
        assert data[f"{index}.serve"].splitlines() == serve_command(variant)
    told = config.Config.model_validate_json(data["config.json"])
    assert [data[f"{index}.folder"] for index in range(6)] == [
        f"{variant.folder}\n" for variant in told.variants
    ]
    assert len(data) == 1 + 4 * 6


def test_an_index_is_served_as_a_service_would_be(sweep: Synthesised) -> None:
    """The comparison is fair only if its draft and window are the whole difference."""
    order = [variant.name for variant in variants(sweep.experiment)]
    for baseline, variant in compared(sweep):
        left, right = (
            _data(sweep)[f"{order.index(v.name)}.serve"].splitlines() for v in (baseline, variant)
        )
        assert right[: len(left)] == left
        assert [word for word in right[len(left) :] if word.startswith("--")] == [
            "--override-neuron-config",
            "--speculative-config",
        ]
        assert dict(pairwise(right))["--max-num-seqs"] == str(variant.batch)


def test_the_server_is_a_sidecar_that_differs_from_a_service_s_as_it_must(
    sweep: Synthesised, synthesised: Synthesised
) -> None:
    *_, fetch, sidecar = _pod(sweep)["initContainers"]
    assert (fetch["name"], "restartPolicy" in fetch) == ("fetch", False)
    deployment = synthesised.object("Deployment", "qwen-vllm")["spec"]["template"]["spec"]
    (service,) = deployment["containers"]
    assert {path.partition("[")[0] for path, _ in difference(service, sidecar)} == {
        "command",
        "livenessProbe",
        "readinessProbe",
        "resources.limits.memory",
        "resources.requests.cpu",
        "resources.requests.memory",
        "restartPolicy",
        "startupProbe",
        "volumeMounts",
    }
    assert sidecar["restartPolicy"] == "Always"
    assert "startupProbe" not in sidecar
    mounts = {m["name"]: m for m in sidecar["volumeMounts"]}
    assert {m["name"] for m in service["volumeMounts"]} == mounts.keys() - {
        "config",
        "scripts",
        "key",
    }
    assert mounts["artifact"]["readOnly"] is True


def test_an_index_takes_no_more_of_its_node_than_a_service(
    sweep: Synthesised, synthesised: Synthesised
) -> None:
    """So that what fits a node with services fits it with indexes."""
    deployment = synthesised.object("Deployment", "qwen-vllm")["spec"]["template"]["spec"]
    (service,) = deployment["containers"]
    *_, fetch, sidecar = _pod(sweep)["initContainers"]
    (benchmark,) = _pod(sweep)["containers"]
    together = [c["resources"] for c in (sidecar, benchmark)]
    assert sum(int(r["requests"]["cpu"]) for r in together) == int(
        service["resources"]["requests"]["cpu"]
    )
    assert sum(_gib(r["limits"]["memory"]) for r in together) == _gib(
        service["resources"]["limits"]["memory"]
    )
    assert _gib(fetch["resources"]["limits"]["memory"]) <= _gib(together[0]["limits"]["memory"])


def test_the_benchmark_measures_the_vllm_of_its_own_pod(sweep: Synthesised, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(_data(sweep)["config.json"])
    told = config.read(tmp_path / "config.json")
    alike = benchmark_config(sweep.experiment, bucket_name(sweep.experiment, ACCOUNT))
    assert (told.load, told.test_cases, told.bucket) == (alike.load, alike.test_cases, alike.bucket)
    assert told.apart
    assert told.settings.keys() - alike.settings.keys() == {"Benchmark"}
    assert all(variant.folder == f"{variant.name}-{variant.served}" for variant in told.variants)
    assert {variant.endpoint for variant in told.variants} == {"http://127.0.0.1:8000/v1"}
    assert [variant.name for variant in told.variants] == NAMES
    assert [v.drafts_per_step for v in told.variants] == [None, 2, 14] * 2
    (benchmark,) = _pod(sweep)["containers"]
    assert benchmark["args"] == ["index"]
    assert "command" not in benchmark
    assert "restartPolicy" not in benchmark
    assert _environment(benchmark) == {
        "HOME": "/tmp",
        "USER": "nonroot",
        "BENCHMARK_CONFIG": "/etc/benchmark/config.json",
        "RESULTS_DIR": "/results",
        "RUN_ID": run_id(sweep.experiment),
        "START_SECONDS": "2700",
    }


def test_volumes_of_both_containers_are_apart(sweep: Synthesised) -> None:
    """Ray and vLLM each fill their own."""
    *_, sidecar = _pod(sweep)["initContainers"]
    (benchmark,) = _pod(sweep)["containers"]
    for path in ("/tmp", "/dev/shm"):
        names = [
            mount["name"]
            for container in (sidecar, benchmark)
            for mount in container["volumeMounts"]
            if mount["mountPath"] == path
        ]
        assert len(set(names)) == 2


def test_a_failed_index_is_tried_again_alone(sweep: Synthesised) -> None:
    spec = _job(sweep)["spec"]
    assert spec["backoffLimitPerIndex"] == 2
    assert not {"backoffLimit", "maxFailedIndexes", "successPolicy"} & spec.keys()
    assert _pod(sweep)["restartPolicy"] == "Never"


def test_what_is_no_failure_and_what_is_not_tried_again(sweep: Synthesised) -> None:
    *by_status, disrupted = _job(sweep)["spec"]["podFailurePolicy"]["rules"]
    rules = [(rule["action"], *rule["onExitCodes"].values()) for rule in by_status]
    assert rules == [
        ("Ignore", "fetch", "In", [75]),
        ("FailIndex", "devices", "In", [69]),
        ("FailIndex", "fetch", "In", [69]),
        ("FailIndex", "benchmark", "In", [69]),
    ]
    assert disrupted["action"] == "Ignore"
    assert disrupted["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_compiles_and_indexes_keep_away_from_each_other(sweep: Synthesised) -> None:
    """Each by one term that selects the other (docs/decisions/0021)."""
    assert _kept_away(_pod(sweep)) == {"matchLabels": {"step": "compile"}}
    compiles = [
        job["spec"]["template"]
        for job in sweep.objects("Job")
        if job["metadata"]["name"].startswith("compile-")
    ]
    assert len(compiles) == 6
    for template in compiles:
        (asked,) = _kept_away(template["spec"])["matchExpressions"]
        assert (asked["key"], asked["operator"]) == ("component", "In")
        assert set(asked["values"]) == {"sweep", template["metadata"]["labels"]["component"]}
        assert template["metadata"]["labels"]["step"] == "compile"


def _kept_away(pod: dict[str, Any]) -> dict[str, Any]:
    """The selector of a pod's only term of anti-affinity, which is about nodes."""
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    selector: dict[str, Any] = term["labelSelector"]
    return selector


def test_waiting_for_a_graph_has_an_end(sweep: Synthesised) -> None:
    """Three hours, by the Job controller's pauses: 10 s, then doubled up to 10 minutes."""
    *_, fetch, _ = _pod(sweep)["initContainers"]
    looks = int({v["name"]: v.get("value") for v in fetch["env"]}["LOOKS"])
    pauses = [min(10 * 2**earlier, 600) for earlier in range(looks - 1)]
    assert sum(pauses) / 3600 == pytest.approx(3, abs=0.1)


def test_a_sweep_waits_days_for_its_nodes(sweep: Synthesised) -> None:
    """Its money is held by what ends them, and not by the Job, which counts from the deploy."""
    seconds = _job(sweep)["spec"]["activeDeadlineSeconds"]
    assert seconds == job_deadline_seconds(sweep.experiment)
    assert seconds > 7 * 24 * 3600 + estimate(sweep.experiment).hours * 3600


def test_more_money_is_no_other_job() -> None:
    less, more = (_rendered(_sweep(at_most_usd=usd), "111122223333", "a1") for usd in (900, 2000))
    assert less == more


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {"at_most_usd": 2000}),
        ({"capacity.nodes": 2}, {}),
        ({"capacity.price.usd_per_hour": 40.25}, {}),
        ({"benchmark.objectives": {"ttft_p90_ms": 900}}, {}),
        ({}, {"windows": [15, 7, 3]}),
        ({}, {"windows": [3, 5, 7, 15]}),
    ],
)
def test_what_changes_no_answer_of_a_variant_is_the_same_run(
    changes: dict[str, Any], fields: dict[str, Any]
) -> None:
    """So that what is complete stays: a second Capacity Block has another price."""
    before, after = _sweep(), _sweep(changes, **fields)
    assert run_id(before).startswith("article-")
    assert run_id(after) == run_id(before)
    assert _folders(before).items() <= _folders(after).items()


def test_what_is_asked_of_all_variants_makes_another_run(tmp_path: Path) -> None:
    others = [
        run_id(_sweep()),
        run_id(_sweep(run=2)),
        run_id(_sweep({"benchmark.rounds": 4})),
        run_id(_sweep({"serving.length": 2048})),
        run_id(_sweep({"benchmark.keep_answers": True})),
        run_id(_sweep({"benchmark.chat_template_kwargs": {"enable_thinking": True}})),
    ]
    for prompt in ("Hello", "Goodbye"):
        (tmp_path / "prompts.jsonl").write_text(f'{{"prompt": "{prompt}"}}\n')
        case = {"name": "own", "file": "prompts.jsonl"}
        (tmp_path / "mine.yaml").write_text(edited(swept() | {"benchmark.test_cases.3": case}))
        others.append(run_id(load(tmp_path / "mine.yaml")))
    assert len({*others}) == len(others)


def test_a_change_of_how_it_is_served_is_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nothing of the configuration tells: a flag of the runtime."""
    experiment = _sweep()
    before = _folders(experiment)
    other_draft = _folders(_sweep({"models.draft.revision": "1" * 40}))
    baselines = {name for name in before if name.startswith("Base")}
    assert {name for name in before if other_draft[name] == before[name]} == baselines
    runtime, run = experiment.serving_runtime, run_id(experiment)
    assert isinstance(runtime, Nxdi)
    faster = replace(runtime, flags=(*runtime.flags, "--faster"))
    monkeypatch.setitem(RUNTIMES, runtime.name, faster)
    assert not {*_folders(experiment).values()} & {*before.values()}
    assert run_id(experiment) == run


def test_the_report_says_which_benchmark_measured() -> None:
    tag = "0123456789abcdef" * 4
    assert _config(_sweep(), tag).settings["Benchmark"] == "0123456789ab"
    own = _sweep({"benchmark.image": "registry.example.com/benchmark:release-2026-07"})
    told = _config(own, "release-2026-07")
    assert told.settings["Benchmark"] == "registry.example.com/benchmark:release-2026-07"


def test_the_job_is_another_when_it_would_do_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Job cannot be changed. The account it stands in makes no difference."""
    name = _rendered(_sweep(), "111122223333", "a1")
    assert name == _rendered(_sweep(), "444455556666", "a1")
    own = _sweep({"benchmark.image": "registry.example.com/benchmark:1"})
    other = _sweep({"benchmark.image": "registry.example.org/benchmark:1"})
    read = scripts.read()
    names = [
        name,
        _rendered(_sweep(), "111122223333", "a2"),
        _rendered(_sweep(windows=[3, 7]), "111122223333", "a1"),
        _rendered(own, "111122223333", "1"),
        _rendered(other, "111122223333", "1"),
    ]
    monkeypatch.setattr(scripts, "read", lambda: {**read, "complete.sh": "complete() { true; }"})
    names.append(_rendered(_sweep(), "111122223333", "a1"))
    assert len(set(names)) == len(names)


def _sweep(changes: dict[str, Any] | None = None, **fields: Any) -> Experiment:
    return parse(edited({**swept(**fields), **(changes or {})}), "mine.yaml")


def _folders(experiment: Experiment) -> dict[str, str]:
    return {v.name: v.folder for v in _config(experiment, "a1").variants}


def _config(experiment: Experiment, image: str) -> config.Config:
    return indexes(experiment).indexed_config(experiment, "bucket", image)


def _rendered(experiment: Experiment, account: str, tag: str) -> str:
    """The Job's name."""
    name: str = _objects(experiment, account, tag)["Job"]["metadata"]["name"]
    return name


def _objects(experiment: Experiment, account: str, tag: str) -> dict[str, Manifest]:
    """The objects of the sweep's chart by kind, deployed into ``account``."""
    registry = f"{account}.dkr.ecr.us-east-2.amazonaws.com/assets-{account}"
    image = experiment.benchmark.image or f"{registry}:{tag}"
    deployed = Deployed(bucket_name(experiment, account), image)
    *_, chart = charts(cdk8s.App(), experiment, deployed)
    return {found["kind"]: found for found in chart.to_json()}


def _gib(amount: str) -> int:
    return int(amount.removesuffix("Gi"))


def _environment(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def _job(synthesised: Synthesised) -> Manifest:
    return synthesised.object("Job", "qwen-sweep-")


def _pod(synthesised: Synthesised) -> dict[str, Any]:
    pod: dict[str, Any] = _job(synthesised)["spec"]["template"]["spec"]
    return pod


def _data(synthesised: Synthesised) -> dict[str, str]:
    data: dict[str, str] = synthesised.object("ConfigMap", "qwen-sweep")["data"]
    return data
