"""EAGLE3 on real vLLM: a head made here for the pair's target, by the commands of vllm-neuron 1.x.

Both servers are measured as those that somebody else has set up are, with ``measure``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from charts.server import serve_command, serve_environment
from experiment import Experiment, load
from experiment.variants import Variant, variants
from rehearsal.layout import Layout
from rehearsal.pod.manifest import Pod
from rehearsal.process.ports import lasting_port
from rehearsal.process.processes import running
from rehearsal.vllm import model_pair, pinning
from rehearsal.vllm.endpoints import await_health
from rehearsal.vllm.server_command import Served, ServerCommand, server_command
from spectap.analysis.summary import Case
from spectap.metrics import TOKENS_PER_STEP, Metric
from spectap.report import results
from spectap.report.results import Results
from tests.synthesis import ROOT
from tests.vllm.gains import speedup

TRAINED_ON: Final = ROOT / "experiments" / "two-cores.yaml"
WINDOW: Final = 3
EAGLE3: Final[dict[str, Any]] = {
    "runtime": "vllm-neuron-1.x",
    "models.draft": {
        "id": "RedHatAI/Qwen3-32B-speculator.eagle3",
        "revision": "dc84fe7ff1db31efa824776f49c141fc8195eb47",
    },
    "speculation.mode": "eagle3",
    "speculation.num_speculative_tokens": WINDOW,
}
MEASURE: Final = (
    *("--concurrency", "1", "--requests", "1", "--rounds", "3"),
    # One token of the prefill, and a dozen full steps.
    *("--input-tokens", "384", "--output-tokens", "49"),
)


@pytest.fixture(scope="module")
def servers(variation: Callable[..., Experiment]) -> dict[str, ServerCommand]:
    """By the name of the variant, with the pair and its head."""
    layout, trained_on = Layout(ROOT), load(TRAINED_ON)
    pair, head = model_pair.folder(trained_on, layout), model_pair.head(trained_on, layout)
    if not pair.is_dir():
        model_pair.make(trained_on, layout)
    if not head.is_dir():
        model_pair.make_head(trained_on, layout)
    home = layout.work / "vllm"
    home.mkdir(parents=True, exist_ok=True)
    core = max(os.sched_getaffinity(0))

    def adapted(variant: Variant) -> ServerCommand:
        served = (pair / "target", pair / "draft", lasting_port(), core, home, head)
        return server_command(as_pod(variant), Served(layout.vllm, *served))

    base, speculative = variants(variation(EAGLE3))
    return {"Base": adapted(base), "EAGLE3": adapted(speculative)}


def as_pod(variant: Variant) -> Pod:
    environment = serve_environment(variant)
    return Pod(tuple(serve_command(variant)), (), environment, fields={}, mounts=(), files={})


@pytest.fixture(scope="module")
def measured(
    servers: dict[str, ServerCommand], tmp_path_factory: pytest.TempPathFactory
) -> Results:
    folder = tmp_path_factory.mktemp("eagle3")
    with ExitStack() as stack:
        for name, server in servers.items():
            environment = {"PATH": os.environ["PATH"], **server.environment}
            log = folder / f"{name}.log"
            process = stack.enter_context(running(server.command, environment, log))
            await_health(name, process, server.url, log)
            pinning.from_now_on(process, max(os.sched_getaffinity(0)))
        endpoints = [f"{name}={server.url}" for name, server in servers.items()]
        measure(folder, *endpoints)
    return results.read(folder / "run")


def measure(folder: Path, *endpoints: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "spectap", "measure", *MEASURE, *endpoints],
        cwd=ROOT,
        env=os.environ | {"RESULTS_DIR": str(folder), "RUN_ID": "run"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(ended.stdout)
    assert ended.returncode == 0


def case(run: Results, structure: str) -> Case:
    (found,) = (case for case in run.summary.cases if case.structure == structure)
    return found


def median(case: Case, variant: str, metric: Metric) -> float:
    sample = case.cell(variant).measure(metric)
    assert sample is not None
    return sample.p50


def test_upstream_knows_the_flags_of_vllm_neuron(servers: dict[str, ServerCommand]) -> None:
    """All but those that are Neuron's, which are left out."""
    for name, server in servers.items():
        assert "--max-num-batched-tokens" in server.command
        # The baseline runs as one would run it.
        assert ("--no-async-scheduling" in server.command) == (name != "Base")
        said = "\n".join(server.differences)
        assert "--additional-config: left out" in said
        assert "--num-gpu-blocks-override: left out" in said
        assert not [name for name in server.environment if "NEURON" in name]


def test_a_head_has_its_drafts_of_structured_text_accepted(measured: Results) -> None:
    structured, open_ended = case(measured, "structured"), case(measured, "open-ended")
    assert 3 < median(structured, "EAGLE3", TOKENS_PER_STEP) <= WINDOW + 1
    assert median(open_ended, "EAGLE3", TOKENS_PER_STEP) < 2
    found = speedup(structured, "EAGLE3")
    assert found.low > 1
    assert found.high >= 1.8


def test_ledger_and_server_count_the_same(measured: Results) -> None:
    checks = {(check.case, check.variant): check for check in measured.checks}
    assert len(checks) == 2 * len(measured.summary.cases)
    assert [check.failures for check in checks.values()] == [()] * len(checks)
    check = checks[case(measured, "structured").name, "EAGLE3"]
    assert [figure.name for figure in check.figures] == ["tokens", "steps", "accepted drafts"]
    assert len(check.positions) == WINDOW
    assert min(by_server for _, by_server in check.positions) > 0.7


def test_the_answer_is_the_targets(measured: Results) -> None:
    name = case(measured, "structured").name
    (compared,) = (one for one in measured.divergences if one.case == name)
    assert (compared.variant, compared.first) == ("EAGLE3", None)
