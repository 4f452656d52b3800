"""What is started on the CPU is the chart's command, but for what is listed; and its model pair."""

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from experiment import Experiment
from operations.console import Console
from rehearsal import RehearsalError
from rehearsal.aws import Aws
from rehearsal.manifest import Pod, read_pod
from rehearsal.setting import Layout, Server, Setting
from tests.experiment.files import EAGLE, of_file
from tests.vllm.endpoints import VLLM
from tests.vllm.server_command import ENVIRONMENT_ADDED, LEFT_OUT, Served, server_command

SERVICES = ("qwen-vllm", "qwen-sd-vllm")
PYTHON, TARGET, DRAFT, HOME = map(Path, ("/venv/python", "/pair/target", "/pair/draft", "/home"))
SERVED: Final = Served(PYTHON, TARGET, DRAFT, port=4000, core=1, home=HOME)


@pytest.fixture(scope="module", params=SERVICES)
def pod(request: pytest.FixtureRequest, manifests: Path) -> Pod:
    return read_pod(manifests, "Deployment", request.param)


def flags(command: tuple[str, ...]) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for index, word in enumerate(command):
        if word.startswith("--"):
            following = command[index + 1] if index + 1 < len(command) else "--"
            values[word] = None if following.startswith("--") else following
    return values


def test_each_flag_and_variable_of_the_chart_is_passed_on_or_listed(pod: Pod) -> None:
    assert pod.command is not None
    command = (*pod.command, "--no-such-flag", "1")
    server, differences = adapted(pod, *command)
    listed = {line.partition(":")[0] for line in differences}
    before = {**flags(command), **pod.environment}
    after = {**flags(server.command), **server.environment}
    assert after["--no-such-flag"] == "1"
    for name in {*before, *after} - {"--model"}:
        assert (before.get(name, 0) == after.get(name, 0)) == (name not in listed), name
    assert after.keys() - before.keys() == {
        *("--model", "--host", "--dtype", "--enforce-eager", "--no-enable-prefix-caching"),
        *("VLLM_CPU_OMP_THREADS_BIND", *ENVIRONMENT_ADDED),
    }
    assert before.keys() - after.keys() <= {*LEFT_OUT, *(n for n in before if "NEURON" in n)}
    assert (after["--host"], after["--port"]) == ("127.0.0.1", "4000")
    reason = f"--disable-log-requests: left out, {LEFT_OUT['--disable-log-requests']}"
    assert reason in differences


def test_the_variants_differ_in_speculation_alone(manifests: Path) -> None:
    base, speculative = (
        server_command(read_pod(manifests, "Deployment", name), SERVED)[0] for name in SERVICES
    )
    settings = json.loads(flags(speculative.command)["--speculative-config"] or "")
    assert [word for word in speculative.command if word not in base.command] == [
        "--speculative-config",
        json.dumps(settings, separators=(",", ":")),
    ]
    assert settings == {
        "method": "draft_model",
        "model": "/pair/draft",
        "num_speculative_tokens": 7,
        "max_model_len": 1017,
    }
    assert base.environment == speculative.environment


def adapted(pod: Pod, *command: str) -> tuple[Server, list[str]]:
    return server_command(dataclasses.replace(pod, command=command), SERVED)


def test_a_command_that_is_not_understood(pod: Pod) -> None:
    with pytest.raises(RehearsalError, match="is not vllm serve MODEL"):
        adapted(pod, "python", "serve.py", "--port")
    with pytest.raises(RehearsalError, match="stray belongs to no flag"):
        adapted(pod, "vllm", "serve", "/models/x", "stray")


def test_a_mode_that_the_pair_cannot_play_is_refused_before_the_pair_is_made(
    variation: Callable[..., Experiment], tmp_path: Path
) -> None:
    aws = Aws("", "", "", environment={})
    eagle = EAGLE | {"runtime": "vllm-0.16-nxdi"}
    for changes, mode in ((eagle, "eagle"), (of_file("eagle3"), "eagle3")):
        experiment, console = variation(changes), Console(2, io.StringIO())
        setting = Setting(experiment, "", Layout(tmp_path), aws, VLLM, console)
        with pytest.raises(RehearsalError, match=f"^SD: mode {mode}: the pair made here has"):
            VLLM.servers(setting, None)  # without vLLM, manifests and pair
