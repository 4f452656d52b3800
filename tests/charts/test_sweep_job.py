"""The Indexed Job of a sweep and of jobs; its whole manifest is a snapshot."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from charts import scripts
from charts.names import Deployed
from charts.sweep_job import MAX_POLLS, indexed_config, run_id
from experiment import Experiment, load
from experiment.cost.timeline import estimate, index_deadline_seconds, job_deadline_seconds
from experiment.loader import parse
from experiment.runtimes import RUNTIMES
from experiment.runtimes.nxdi import Nxdi
from tests.charts.test_vllm import difference
from tests.experiment.files import VANILLA, edited, swept
from tests.synthesis import Manifest, by_name, render


def parsed(changes: dict[str, Any] | None = None, **fields: Any) -> Experiment:
    return parse(edited({**swept(**fields), **(changes or {})}), "mine.yaml")


JOBS_EXPERIMENT = parse(edited(VANILLA), "mine.yaml")
"""Vanilla and its baseline, as jobs."""


def job_of(objects: list[Manifest]) -> Manifest:
    (job,) = (o for o in objects if "completionMode" in o.get("spec", {}))
    return job


def pod_of(objects: list[Manifest]) -> dict[str, Any]:
    pod: dict[str, Any] = job_of(objects)["spec"]["template"]["spec"]
    return pod


def name(experiment: Experiment, account: str = "111122223333", tag: str = "a1") -> str:
    return str(job_of(render(experiment, account, tag))["metadata"]["name"])


def folders(experiment: Experiment) -> dict[str, str]:
    return {v.name: v.folder for v in indexed_config(experiment, Deployed("bucket", "a1")).variants}


@pytest.fixture(scope="module")
def sweep() -> list[Manifest]:
    return render(parsed())


def test_the_server_is_a_sidecar_that_differs_from_a_service_s_as_it_must(
    sweep: list[Manifest], article: Experiment
) -> None:
    """Both containers of an index take no more of the node than a service."""
    deployment = by_name(render(article))["Deployment", "qwen-vllm"]
    (service,) = deployment["spec"]["template"]["spec"]["containers"]
    *_, sidecar = pod_of(sweep)["initContainers"]
    (benchmark,) = pod_of(sweep)["containers"]
    differs = {path.partition("[")[0] for path, _ in difference(service, sidecar)}
    room = {f"resources.{of}" for of in ("limits.memory", "requests.cpu", "requests.memory")}
    probes = {"livenessProbe", "readinessProbe", "startupProbe"}
    assert differs == {"command", "restartPolicy", "volumeMounts"} | room | probes
    resources = [c["resources"] for c in (sidecar, benchmark)]
    memory = [int(r["limits"]["memory"].removesuffix("Gi")) for r in resources]
    assert f"{sum(memory)}Gi" == service["resources"]["limits"]["memory"]
    *_, generate = pod_of(render(JOBS_EXPERIMENT))["initContainers"]
    assert generate["resources"] == service["resources"]


def test_waiting_has_an_end(sweep: list[Manifest]) -> None:
    """For a graph three hours, by the Job controller's pauses; for nodes days, since money is held
    by what ends them; for a job that hangs its own deadline."""
    pauses = [min(10 * 2**earlier, 600) for earlier in range(MAX_POLLS - 1)]
    assert sum(pauses) / 3600 == pytest.approx(3, abs=0.1)
    assert job_of(sweep)["spec"]["activeDeadlineSeconds"] == job_deadline_seconds(parsed())
    assert job_deadline_seconds(parsed()) > 7 * 24 * 3600 + estimate(parsed()).hours * 3600
    jobs = JOBS_EXPERIMENT
    assert job_deadline_seconds(jobs) > 2 * index_deadline_seconds(jobs)


def test_what_changes_no_answer_of_a_variant_is_the_same_run() -> None:
    """So that what is complete stays: a second Capacity Block has another price."""
    changes = {
        "capacity.nodes": 2,
        "capacity.price.usd_per_hour": 40.25,
        "benchmark.objectives": {"ttft_p90_ms": 900},
    }
    before, after = parsed(), parsed(changes, at_most_usd=2000, windows=[3, 5, 7, 15])
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
    image = parsed({"benchmark.image": "registry.example.com/benchmark:1"})
    experiments = [parsed(), parsed(windows=[3, 7]), image]
    names = [*map(name, experiments), name(parsed(), tag="a2")]
    read = scripts.read()
    monkeypatch.setattr(scripts, "read", lambda: {**read, "complete.sh": "complete() { true; }"})
    names.append(name(parsed()))
    assert len(set(names)) == len(names)


def test_what_measures_a_job_decides_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another instrument has measured is not merged with its own."""
    before, named, read = folders(JOBS_EXPERIMENT), name(JOBS_EXPERIMENT), scripts.read()
    for instrument in ("benchmark_medusa.py", "medusa-tree-4.json"):
        changed = {**read, instrument: "other"}
        monkeypatch.setattr(scripts, "read", lambda changed=changed: changed)
        assert not {*before.values()} & {*folders(JOBS_EXPERIMENT).values()}
        assert name(JOBS_EXPERIMENT) != named
