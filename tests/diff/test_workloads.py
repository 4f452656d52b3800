"""What a deploy does to the pods that run: read off the manifests, whatever field has changed."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import cdk8s
import pytest

from charts.deployed import Deployed
from charts.manifests import charts
from experiment.loader import parse
from experiment.variants import variants
from scripts.diff.manifests import Objects, objects
from scripts.diff.workloads import consequences
from tests.experiment.files import SMALL_DRAFT, VANILLA, edited, of_file, swept

Made = Callable[..., Objects]
BASE, SD = "qwen-vllm", "qwen-sd-vllm"
NEWER_RUN: Final = "qwen-llmperf is told something else: the next make experiment begins a new run"
SAME_RUN: Final = (
    "qwen-llmperf is told the same: a run that is complete is measured anew by AGAIN=1"
)
FIRST_START: Final = of_file("eagle3")


def listed(**windows: int) -> dict[str, Any]:
    """Variants of these names and windows."""
    return {
        "speculation": [
            {"name": name, "mode": "fused", "num_speculative_tokens": window}
            for name, window in windows.items()
        ],
        "serving.devices": 4,
        "serving.tensor_parallel": 16,
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The manifests of the article's experiment with these changes."""

    @functools.cache
    def cached(text: str) -> Path:
        directory = tmp_path_factory.mktemp("dist")
        app = cdk8s.App(outdir=str(directory))
        charts(app, parse(text, "mine.yaml"), Deployed("bucket", "image:1"))
        app.synth()
        return directory

    return lambda changes: objects(cached(edited(changes)))


def graph(changes: Mapping[str, Any], variant: str) -> str:
    found = {v.name: v.artifact for v in variants(parse(edited(changes), "mine.yaml"))}
    return found[variant]


def test_nothing_follows_from_nothing(made: Made) -> None:
    assert [*consequences(made({}), made({}))] == []


def test_another_window_takes_one_service_down_while_its_graph_compiles(made: Made) -> None:
    changes = {"speculation.num_speculative_tokens": 5}
    assert [*consequences(made({}), made(changes))] == [
        # Both services take a window less than is compiled.
        f"{BASE} restarts, its graph is there",
        f"{SD} is down while its graph compiles",
        f"a graph is compiled: {graph(changes, 'SD')}",
        NEWER_RUN,
    ]


def test_another_length_takes_both_down(made: Made) -> None:
    said = [*consequences(made({}), made({"serving.length": 2048}))]
    assert said[:2] == [f"{name} is down while its graph compiles" for name in (BASE, SD)]
    assert said[2].startswith("2 graphs are compiled: ")


def test_a_graph_that_another_service_had_is_there(made: Made) -> None:
    """Two variants change places: nothing is compiled."""
    said = [*consequences(made(listed(A=3, B=7)), made(listed(A=7, B=3)))]
    assert "qwen-a-vllm restarts, its graph is there" in said
    assert "qwen-b-vllm restarts, its graph is there" in said
    assert not [sentence for sentence in said if "compiled:" in sentence]
    assert "compile-qwen-a-vllm runs again and finds its graph" in said


def test_a_further_variant_starts_once_its_graph_is_compiled(made: Made) -> None:
    said = [*consequences(made(listed(A=3)), made(listed(A=3, B=7)))]
    assert "qwen-b-vllm is new: it starts once its graph is compiled" in said
    assert f"a graph is compiled: {graph(listed(A=3, B=7), 'B')}" in said


def test_a_variant_that_goes_frees_its_devices(made: Made) -> None:
    said = [*consequences(made(listed(A=3, B=7)), made(listed(A=7)))]
    assert "qwen-b-vllm ends, and its devices are free" in said
    assert "the Job compile-qwen-b-vllm is removed" in said
    # B's graph serves A.
    assert "qwen-a-vllm restarts, its graph is there" in said


def test_a_first_start_compiles_on_the_devices_of_its_service(made: Made) -> None:
    window = {"speculation": {**FIRST_START["speculation"], "num_speculative_tokens": 2}}
    said = [*consequences(made(FIRST_START), made(FIRST_START | window))]
    assert f"{SD} restarts and compiles on its own devices, at its first start" in said
    new = [*consequences({}, made(FIRST_START))]
    assert f"{SD} is new: it starts and compiles on its own devices" in new


def test_another_draft_is_downloaded_and_no_other_checkpoint(made: Made) -> None:
    said = [*consequences(made({}), made({"models.draft": SMALL_DRAFT}))]
    assert f"the download Job runs again and fetches {SMALL_DRAFT['id']}" in said


def test_another_revision_is_downloaded(made: Made) -> None:
    said = [*consequences(made({}), made({"models.draft.revision": "0" * 40}))]
    assert "the download Job runs again and fetches Qwen/Qwen3-1.7B" in said


def test_more_rounds_touch_no_service(made: Made) -> None:
    assert [*consequences(made({}), made({"benchmark.rounds": 12}))] == [NEWER_RUN]


def test_who_is_told_of_alarms_touches_nothing_in_the_cluster(made: Made) -> None:
    assert [*consequences(made({}), made({"alerts.emails": ["a@example.com"]}))] == []


def test_a_sweep_with_another_window_is_measured_anew(made: Made) -> None:
    before, after = swept(), swept(windows=[3, 5, 7, 15])
    said = [*consequences(made(before), made(after))]
    assert said[0] == f"a graph is compiled: {graph(after, 'k5')}"
    assert "the Job qwen-sweep runs again" in said


def test_jobs_with_more_rounds_are_measured_anew(made: Made) -> None:
    said = [*consequences(made(VANILLA), made(VANILLA | {"benchmark.rounds": 12}))]
    assert "the Job qwen-offline runs again" in said


def test_other_questions_are_asked_again(made: Made) -> None:
    said = [*consequences(made({}), made({"quality.limit": 100}))]
    assert said == ["the Job qwen-lmeval runs again"]


def test_compiling_elsewhere_finds_the_graphs(made: Made) -> None:
    said = [*consequences(made({}), made({"compiling": {"node": "trainium"}}))]
    assert said == [f"compile-{name} runs again and finds its graph" for name in (BASE, SD)]


def test_services_in_place_of_a_sweep(made: Made) -> None:
    said = [*consequences(made(swept(windows=[7])), made({}))]
    assert f"{SD} is new: it starts at once, its graph is there" in said
    assert "the Job qwen-sweep is removed" in said
    assert "the Job qwen-lmeval is new" in said
    assert "qwen-llmperf is new: it runs as soon as what it waits for is there" in said
    back = [*consequences(made({}), made(swept(windows=[7])))]
    assert "qwen-llmperf ends; its results stay in the bucket" in back


Edit = Callable[[dict[tuple[str, str], Any]], None]


def of_deployment(edit: Callable[[Any], None]) -> Edit:
    return lambda its: edit(its["Deployment", SD]["spec"])


def _rolling(its: dict[tuple[str, str], Any]) -> None:
    """A service that need not end before its successor starts."""
    its["Deployment", SD]["spec"]["strategy"] = {"type": "RollingUpdate"}
    pod = its["Deployment", SD]["spec"]["template"]["spec"]
    for manifest in (pod, its["Job", next(n for k, n in its if n.startswith(f"compile-{SD}"))]):
        pods = [manifest] if manifest is pod else [manifest["spec"]["template"]["spec"]]
        for container in (c for p in pods for c in [*p["initContainers"], *p["containers"]]):
            container["args"] = [
                "compiled/another-graph/" if a.startswith("compiled/") else a
                for a in container.get("args", [])
            ]


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (
            of_deployment(lambda its: its["template"]["spec"].update(priority=1)),
            f"{SD} restarts, its graph is there",
        ),
        (of_deployment(lambda its: its.update(replicas=2)), f"{SD} changes and does not restart"),
        (_rolling, f"{SD} restarts once its graph is compiled, and answers until then"),
        (
            lambda its: its["Pod", "qwen-llmperf"]["spec"]["containers"][0].update(image="image:2"),
            "qwen-llmperf restarts with another image, if it still runs",
        ),
        (
            lambda its: its["Pod", "qwen-llmperf"]["spec"].update(priority=1),
            "the benchmark pod qwen-llmperf keeps its specification: a new run needs AGAIN=1",
        ),
        (
            of_deployment(lambda its: its["template"]["spec"].update(priority=1)),
            SAME_RUN,
        ),
        (
            lambda its: its["NetworkPolicy", "allow-dns"]["spec"].update(egress=[]),
            "who may reach whom changes at once: allow-dns",
        ),
        (
            lambda its: its.update(_another_download(its)),
            "the download Job runs again and finds all there",
        ),
    ],
)
def test_what_no_field_changes_is_said_as_well(made: Made, edit: Edit, sentence: str) -> None:
    """Manifests of another revision of the code."""
    changed = copy.deepcopy(dict(made({})))
    edit(changed)
    assert sentence in [*consequences(made({}), changed)]


def _another_download(its: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """The same Job under another name, with other room."""
    name = next(name for kind, name in its if kind == "Job" and name.startswith("download"))
    job = its.pop(("Job", name))
    job["spec"]["backoffLimit"] = 1
    return {("Job", "download-00000000"): job}
