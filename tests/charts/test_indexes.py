"""The Indexed Job of a sweep and of jobs; its whole manifest is a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from charts import scripts
from charts.indexes import LOOKS, generate_command, indexed_config, run_id
from charts.server import serve_command
from experiment import Experiment, load
from experiment.cost.durations import estimate, index_deadline_seconds, job_deadline_seconds
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Mode
from experiment.runtimes.nxdi import Nxdi
from experiment.variants import variants
from spectap import config
from tests.charts.test_vllm import compared, difference
from tests.experiment.files import VANILLA, edited, swept
from tests.matrix import JOBS, MATRIX, SWEEP
from tests.synthesis import Manifest, Synthesised, by_name, containers, render


def parsed(changes: dict[str, Any] | None = None, **fields: Any) -> Experiment:
    """A sweep."""
    return parse(edited({**swept(**fields), **(changes or {})}), "mine.yaml")


def jobs() -> Experiment:
    """Vanilla and its baseline, as jobs."""
    return parse(edited(VANILLA), "mine.yaml")


def name(experiment: Experiment, account: str = "111122223333", tag: str = "a1") -> str:
    """The Job's."""
    rendered = render(experiment, account, tag)
    return next(str(o["metadata"]["name"]) for o in rendered if _is_indexed(o))


def folders(experiment: Experiment) -> dict[str, str]:
    return {v.name: v.folder for v in indexed_config(experiment, "bucket", "a1").variants}


def _is_indexed(manifest: Manifest) -> bool:
    return manifest["kind"] == "Job" and "completionMode" in manifest["spec"]


def pod_of(objects: list[Manifest]) -> dict[str, Any]:
    (job,) = filter(_is_indexed, objects)
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="module")
def sweep() -> list[Manifest]:
    return render(parsed())


@pytest.mark.parametrize("experiment", [parsed(), jobs()], ids=["sweep", "jobs"])
def test_each_variant_is_an_index(experiment: Experiment) -> None:
    objects = by_name(render(experiment))
    assert not {kind for kind, _ in objects} & {"Service", "Deployment", "Pod"}
    (job,) = (o for o in objects.values() if _is_indexed(o))
    count = len(variants(experiment))
    assert job["spec"]["completions"] == count
    assert job["spec"]["parallelism"] == (count if experiment.sweep else 1)
    data = objects["ConfigMap", job["metadata"]["labels"]["app"]]["data"]
    settings = config.Config.model_validate_json(data["config.json"])
    for index, variant in enumerate(variants(experiment)):
        file, command = "generate", generate_command
        if experiment.sweep:
            file, command = "serve", serve_command
        assert data[f"{index}.variant"] == f"{variant.name}\n"
        assert data[f"{index}.artifact"] == f"compiled/{variant.artifact}/\n"
        assert data[f"{index}.folder"] == f"{settings.variants[index].folder}\n"
        assert data[f"{index}.{file}"].splitlines() == command(variant)
    assert len(data) == 1 + 4 * count


def test_an_index_is_served_as_a_service_would_be(of_matrix: Callable[[str], Synthesised]) -> None:
    """The comparison is fair only if its draft and window are the whole difference."""
    for baseline, variant in compared(of_matrix(SWEEP)):
        baseline_command, command = serve_command(baseline), serve_command(variant)
        assert command[: len(baseline_command)] == baseline_command
        assert [word for word in command[len(baseline_command) :] if word.startswith("--")] == [
            "--override-neuron-config",
            "--speculative-config",
        ]
        assert dict(pairwise(command))["--max-num-seqs"] == str(variant.batch)


def test_the_server_is_a_sidecar_that_differs_from_a_service_s_as_it_must(
    sweep: list[Manifest], article: Experiment
) -> None:
    *_, sidecar = pod_of(sweep)["initContainers"]
    service = by_name(render(article))["Deployment", "qwen-vllm"]["spec"]["template"]["spec"]
    assert {
        path.partition("[")[0] for path, _ in difference(service["containers"][0], sidecar)
    } == {
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


def test_an_index_takes_no_more_of_its_node_than_a_service(
    sweep: list[Manifest], article: Experiment
) -> None:
    """So that what fits a node with services fits it with indexes."""
    deployment = by_name(render(article))["Deployment", "qwen-vllm"]["spec"]["template"]["spec"]
    (service,) = deployment["containers"]
    *_, sidecar = pod_of(sweep)["initContainers"]
    together = [c["resources"] for c in (sidecar, *pod_of(sweep)["containers"])]
    cpus = [int(r["requests"]["cpu"]) for r in together]
    memory = [int(r["limits"]["memory"].removesuffix("Gi")) for r in together]
    assert sum(cpus) == int(service["resources"]["requests"]["cpu"])
    assert f"{sum(memory)}Gi" == service["resources"]["limits"]["memory"]
    *_, generate = pod_of(render(jobs()))["initContainers"]
    assert generate["resources"] == service["resources"]


def test_volumes_of_both_containers_differ(sweep: list[Manifest]) -> None:
    """Ray and vLLM each fill their own."""
    *_, sidecar = pod_of(sweep)["initContainers"]
    (benchmark,) = pod_of(sweep)["containers"]
    for path in ("/tmp", "/dev/shm"):
        mounts = [m for c in (sidecar, benchmark) for m in c["volumeMounts"]]
        assert len({mount["name"] for mount in mounts if mount["mountPath"] == path}) == 2


@pytest.mark.parametrize("experiment", [parsed(), jobs()], ids=["sweep", "jobs"])
def test_compiles_and_indexes_keep_away_from_each_other(experiment: Experiment) -> None:
    """Each by one term that selects the other (docs/decisions/0021)."""
    objects = render(experiment)
    assert _kept_away(pod_of(objects)) == {"matchLabels": {"step": "compile"}}
    (component,) = {o["metadata"]["labels"]["component"] for o in filter(_is_indexed, objects)}
    for job in (o for o in objects if o["metadata"]["name"].startswith("compile-")):
        template = job["spec"]["template"]
        (expression,) = _kept_away(template["spec"])["matchExpressions"]
        assert set(expression["values"]) == {component, template["metadata"]["labels"]["component"]}
        assert template["metadata"]["labels"]["step"] == "compile"


def _kept_away(pod: dict[str, Any]) -> dict[str, Any]:
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    selector: dict[str, Any] = term["labelSelector"]
    return selector


def test_waiting_has_an_end(sweep: list[Manifest]) -> None:
    """For a graph three hours, by the Job controller's pauses; for nodes days, since money is held
    by what ends them; for a job that hangs its own deadline."""
    pauses = [min(10 * 2**earlier, 600) for earlier in range(LOOKS - 1)]
    assert sum(pauses) / 3600 == pytest.approx(3, abs=0.1)
    (job,) = filter(_is_indexed, sweep)
    assert job["spec"]["activeDeadlineSeconds"] == job_deadline_seconds(parsed())
    assert job_deadline_seconds(parsed()) > 7 * 24 * 3600 + estimate(parsed()).hours * 3600
    assert job_deadline_seconds(jobs()) > 2 * index_deadline_seconds(jobs())


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {"at_most_usd": 2000}),
        ({"capacity.nodes": 2}, {}),
        ({"capacity.price.usd_per_hour": 40.25}, {}),
        ({"benchmark.objectives": {"ttft_p90_ms": 900}}, {}),
        ({}, {"windows": [3, 5, 7, 15]}),
    ],
)
def test_what_changes_no_answer_of_a_variant_is_the_same_run(
    changes: dict[str, Any], fields: dict[str, Any]
) -> None:
    """So that what is complete stays: a second Capacity Block has another price."""
    before, after = parsed(), parsed(changes, **fields)
    assert run_id(after) == run_id(before)
    assert folders(before).items() <= folders(after).items()


def test_what_is_asked_of_all_variants_makes_another_run(tmp_path: Path) -> None:
    run_ids = [
        run_id(parsed()),
        run_id(parsed(run=2)),
        run_id(parsed({"benchmark.rounds": 4})),
        run_id(parsed({"serving.length": 2048})),
        run_id(parsed({"benchmark.keep_answers": True})),
        run_id(parsed({"benchmark.chat_template_kwargs": {"enable_thinking": True}})),
    ]
    for prompt in ("Hello", "Goodbye"):
        (tmp_path / "prompts.jsonl").write_text(f'{{"prompt": "{prompt}"}}\n')
        case = {"name": "own", "file": "prompts.jsonl"}
        (tmp_path / "mine.yaml").write_text(edited(swept() | {"benchmark.test_cases.3": case}))
        run_ids.append(run_id(load(tmp_path / "mine.yaml")))
    assert len({*run_ids}) == len(run_ids)


def test_a_change_of_how_it_is_served_is_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nothing of the configuration tells: a flag of the runtime."""
    experiment = parsed()
    before = folders(experiment)
    other_draft = folders(parsed({"models.draft.revision": "1" * 40}))
    baselines = {each for each in before if each.startswith("Base")}
    assert {each for each in before if other_draft[each] == before[each]} == baselines
    runtime, run = experiment.serving_runtime, run_id(experiment)
    assert isinstance(runtime, Nxdi)
    faster = replace(runtime, flags=(*runtime.flags, "--faster"))
    monkeypatch.setitem(RUNTIMES, runtime.name, faster)
    assert not {*folders(experiment).values()} & {*before.values()}
    assert run_id(experiment) == run


def test_the_job_is_another_when_it_would_do_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Job cannot be changed. The account it stands in and its money make no difference."""
    assert name(parsed()) == name(parsed(), "444455556666") == name(parsed(at_most_usd=2000))
    names = [name(parsed()), name(parsed(), tag="a2"), name(parsed(windows=[3, 7]))]
    images = ("registry.example.com/benchmark:1", "registry.example.org/benchmark:1")
    names += [name(parsed({"benchmark.image": image})) for image in images]
    read = scripts.read()
    monkeypatch.setattr(scripts, "read", lambda: {**read, "complete.sh": "complete() { true; }"})
    names.append(name(parsed()))
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("instrument", ["benchmark_medusa.py", "medusa-tree-4.json"])
def test_what_measures_a_job_decides_its_folder(
    monkeypatch: pytest.MonkeyPatch, instrument: str
) -> None:
    """What another instrument has measured is not merged with its own."""
    before, named = folders(jobs()), name(jobs())
    read = scripts.read()
    monkeypatch.setattr(scripts, "read", lambda: {**read, instrument: "other"})
    assert not {*before.values()} & {*folders(jobs()).values()}
    assert name(jobs()) != named


def test_the_report_says_which_benchmark_measured() -> None:
    settings = indexed_config(parsed(), "bucket", "0123456789abcdef" * 4).settings
    assert settings["Benchmark"] == "0123456789ab"
    image = "registry.example.com/benchmark:release-2026-07"
    of_image = indexed_config(parsed({"benchmark.image": image}), "bucket", image)
    assert of_image.settings["Benchmark"] == image


def test_jobs_run_with_the_flags_that_they_were_compiled_with(
    variation: Callable[..., Experiment],
) -> None:
    """inference_demo asks its command line, not the artifact, what it is about to run."""
    for each in JOBS:
        for variant in variants(variation(MATRIX[each])):
            command = generate_command(variant)
            assert set(variant.compile_flags) <= set(command)
            assert "--benchmark" in command
            assert (command[0] == "python3") == (variant.mode is Mode.MEDUSA)


def test_jobs_differ_in_what_they_generate_with_and_in_nothing_else() -> None:
    base, speculating = (set(_flags(generate_command(v))) for v in variants(jobs()))
    assert {flag for flag, _ in speculating - base} == {
        "--draft-model-path",
        "--compiled-draft-model-path",
        "--speculation-length",
    }
    assert base < speculating


def _flags(command: list[str]) -> list[tuple[str, str]]:
    pairs = pairwise([*command, ""])
    return [(f, "" if v.startswith("--") else v) for f, v in pairs if f.startswith("--")]


def test_all_that_a_job_writes_goes_to_one_folder() -> None:
    """``collect`` reads what ``generate`` writes."""
    *_, generate, collect = containers(pod_of(render(jobs())))
    for container in (generate, collect):
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert mounts["/results"] == {"name": "results", "mountPath": "/results"}
        variables = {v["name"]: v.get("value") for v in container["env"]}
        assert variables["RUN_ID"] == run_id(jobs())
