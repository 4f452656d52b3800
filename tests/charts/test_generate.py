"""``generate.sh`` and ``generate.py``, run for real, with a small NxDI whose steps are known."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from charts.indexes import NEVER
from tests.charts import nxdi
from tests.synthesis import ROOT

SCRIPT = ROOT / "charts" / "scripts" / "generate.sh"
PLAIN: Final = ("--skip-compile",)
VANILLA: Final = (*PLAIN, "--draft-model-path", "d", "--speculation-length", "7")
MEDUSA: Final = (
    *PLAIN,
    *("--is-medusa", "--medusa-speculation-length", "64", "--global-topk", "16"),
)
MODES: Final = {"plain": PLAIN, "vanilla": VANILLA, "medusa": MEDUSA}
YIELDS: Final = {
    "plain": (1,),
    "vanilla": tuple(accepted + 1 for accepted in nxdi.ACCEPTED),
    "medusa": tuple(min(accepted, 4) + 1 for accepted in nxdi.ACCEPTED),
}
"""Tokens of each step, in turn: what was accepted, and the target's own."""


class Pod:
    """The container ``generate`` of index 1, on this machine."""

    def __init__(self, root: Path) -> None:
        self.notes, self.config, self.artifact = root / "notes", root / "config", root / "artifact"
        self.results = root / "results" / "mine-0123abcd" / "variants" / "SD-0a1b2c3d"
        for folder in (self.notes, self.config, self.artifact, self.results):
            folder.mkdir(parents=True)
        nxdi.install(root / "image")
        (self.config / "1.folder").write_text("SD-0a1b2c3d\n")
        self.command = ["bash", str(SCRIPT), *map(str, (self.config, self.artifact))]
        self.command.append(str(root / "results"))
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{root / 'image'}{os.pathsep}{ROOT}",
            "JOB_COMPLETION_INDEX": "1",
            "RUN_ID": "mine-0123abcd",
            "SERVED_LENGTH": "200",
            "STUB_NOTES": str(self.notes),
        }
        self.told(PLAIN)

    def told(self, arguments: Sequence[str]) -> None:
        (self.config / "1.generate").write_text("\n".join(["inference_demo", *arguments]) + "\n")

    def asked(self, *prompts: dict[str, Any]) -> None:
        lines = "".join(json.dumps(prompt) + "\n" for prompt in prompts)
        (self.results / "generate.jsonl").write_text(lines)

    def run(self, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command, env=self.environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == status, done.stderr
        assert (self.results / "generate.ended").read_text() == f"{status}\n"
        assert not self.locked()
        return done

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """As a container is: a process group, whose first process hears of the end."""
        process = subprocess.Popen(
            self.command, env=self.environment, text=True, start_new_session=True
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=20)

    def locked(self) -> bool:
        with (self.results / "generate.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @property
    def generations(self) -> list[dict[str, Any]]:
        path = self.results / "generations.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def noted(self, name: str) -> str:
        path = self.notes / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def prompt(answer: int, most: int = 60, **fields: Any) -> dict[str, Any]:
    """A prompt whose answer has so many tokens, of which ``most`` are wanted."""
    return {
        "case": "lines",
        "load": "c1",
        "round": 1,
        "attempt": 1,
        "prompt": "",
        "prompt_class": "",
        "messages": [{"role": "user", "content": f"count to {answer}"}],
        "chat_template_kwargs": {},
        "max_tokens": most,
    } | fields


def steps(mode: str, tokens: int) -> list[int]:
    """Tokens of the prefill and of each step of an answer of so many, cut at its end."""
    found = [1]
    for yielded in itertools.cycle(YIELDS[mode]):
        if (left := tokens - sum(found)) <= 0:
            return found
        found.append(min(yielded, left))
    raise AssertionError


@pytest.mark.parametrize("mode", MODES)
def test_the_steps_of_an_answer(pod: Pod, mode: str) -> None:
    """The answer is the same in each mode: as a server would give it. Only the steps differ."""
    pod.told(MODES[mode])
    asked = [(20, 60), (60, 60), (61, 60), (99, 17), (1, 9)]
    pod.asked(*(prompt(answer, most) for answer, most in asked))
    pod.run()
    for (answer, most), found in zip(asked, pod.generations, strict=True):
        tokens = min(answer, most)
        assert found["output_tokens"] == tokens
        assert [count for _, count in found["steps"]] == steps(mode, tokens)
        whole = itertools.islice(nxdi.truth(answer), tokens)
        assert found["text"].split() == [str(each) for each in whole if each != nxdi.END]
        assert found["finish"] == ("stop" if answer <= most else "length")
        assert found["error"] is None


@pytest.mark.parametrize("mode", MODES)
def test_all_prompts_are_generated_in_their_order_and_each_from_anew(pod: Pod, mode: str) -> None:
    pod.told(MODES[mode])
    asked = [
        prompt(12, round=-1, attempt=2),
        prompt(20, prompt="HumanEval/3", prompt_class="code", round=0),
        prompt(30, case="text", load="", round=2),
    ]
    pod.asked(*asked)
    began = time.time()
    said = pod.run().stdout
    for one, found in zip(asked, pod.generations, strict=True):
        kept = ("case", "load", "round", "attempt", "prompt", "prompt_class")
        assert {key: found[key] for key in kept} == {key: one[key] for key in kept}
        assert found.keys() - {*kept} == {
            *("sent", "prompt_tokens", "steps", "end", "output_tokens", "text", "finish", "error"),
        }
        times = [when for when, _ in found["steps"]]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] == found["end"]
        assert began <= found["sent"] <= time.time()
    sent = [found["sent"] for found in pod.generations]
    assert sent == sorted(sent)
    assert "text round 2: 30 tokens in" in said


def test_a_prompt_that_does_not_fit_is_refused_and_the_others_are_not(pod: Pod) -> None:
    pod.asked(prompt(20, 198), prompt(20, 196))
    pod.run()
    refused, found = pod.generations
    assert refused["error"] == (
        "refused: the prompt has 4 tokens and the answer up to 198, of which 200 fit"
    )
    assert (refused["prompt_tokens"], refused["steps"], refused["output_tokens"]) == (4, [], 0)
    assert found["error"] is None


def test_what_fails_is_written_down_and_ends_it(pod: Pod) -> None:
    pod.asked(prompt(20), prompt(13), prompt(20))
    said = pod.run(status=1)
    good, bad = pod.generations
    assert (good["error"], bad["error"]) == (None, "RuntimeError: nrt_execute status 1200")
    assert said.stderr.endswith("generate: RuntimeError: nrt_execute status 1200\n")


def test_a_device_that_is_not_there_is_tried_again(pod: Pod) -> None:
    pod.asked(prompt(20))
    pod.environment["STUB_FAILS"] = "load"
    said = pod.run(status=1)
    assert said.stderr.endswith("generate: RuntimeError: nrt_init: no neuron device found\n")
    assert pod.generations == []


def test_arguments_that_it_does_not_know_are_not_tried_again(pod: Pod) -> None:
    pod.told([*PLAIN, "--no-such-flag"])
    pod.asked(prompt(20))
    said = pod.run(status=NEVER)
    assert "unrecognized arguments: --no-such-flag" in said.stderr
    assert said.stderr.endswith("generate: inference_demo refused its command line (2)\n")


def test_an_image_without_it_is_not_tried_again(pod: Pod) -> None:
    pod.environment["PYTHONPATH"] = ""
    pod.asked(prompt(20))
    said = pod.run(status=NEVER)
    assert said.stderr.startswith("generate: there is no inference_demo as we know it: ")


def test_nothing_is_loaded_for_nothing(pod: Pod) -> None:
    pod.asked()
    assert "nothing is left to generate" in pod.run().stdout
    assert pod.noted("loads.txt") == ""


def test_a_measured_variant_is_left_alone(pod: Pod) -> None:
    (pod.artifact / "nothing-to-do").touch()
    assert "nothing to generate" in pod.run().stdout
    assert pod.noted("loads.txt") == ""


def test_its_own_report_is_kept_and_made_once(pod: Pod) -> None:
    report = pod.results / "inference_demo.json"
    pod.told([*PLAIN, "--benchmark", "--benchmark-report-path", "elsewhere.json"])
    for asked, loads in (([prompt(20)], 1), ([], 1)):
        pod.asked(*asked)
        pod.run()
        assert json.loads(report.read_text()) == {"e2e_model": {}}
        assert pod.noted("loads.txt").count("loaded") == loads
    report.unlink()
    pod.run()
    assert report.exists()
    assert not [*pod.results.glob("*.draft")]


def test_a_benchmark_of_its_own_that_fails_costs_no_generation(pod: Pod) -> None:
    pod.told([*PLAIN, "--benchmark"])
    pod.asked(prompt(20))
    pod.environment["STUB_FAILS"] = "benchmark"
    said = pod.run()
    assert said.stderr.endswith(
        "generate: all is generated, but inference_demo's own benchmark failed: RuntimeError: its "
        "own benchmark\n"
    )
    assert len(pod.generations) == 1
    assert not (pod.results / "inference_demo.json").exists()


def test_medusa_fills_its_tree_with_as_many_candidates_as_it_was_compiled_for(pod: Pod) -> None:
    pod.told(MEDUSA)
    pod.asked(prompt(20))
    pod.run()
    assert pod.noted("topk.txt") == "16\n"


def test_medusa_is_not_asked_what_it_cannot_count(pod: Pod) -> None:
    pod.told(MEDUSA)
    message = {"role": "user", "content": "zero 20"}
    pod.asked(prompt(20, messages=[message]), prompt(20))
    pod.run()
    refused, found = pod.generations
    assert refused["error"].startswith("refused: it has a token 0")
    assert found["error"] is None


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        (["user:hello 20"], "USER: hello 20 ASSISTANT:"),
        (["system:Be brief.", "user:hello 20"], "Be brief. USER: hello 20 ASSISTANT:"),
        (
            ["user:a", "assistant:b", "user:c 20"],
            "USER: a ASSISTANT: b</s>USER: c 20 ASSISTANT:",
        ),
    ],
)
def test_a_model_without_a_chat_template_is_asked_as_vicuna_was_trained(
    pod: Pod, messages: list[str], text: str
) -> None:
    pod.told(MEDUSA)
    pairs = [message.split(":") for message in messages]
    pod.asked(prompt(20, messages=[{"role": role, "content": said} for role, said in pairs]))
    pod.run()
    (found,) = pod.noted("asked.txt").splitlines()
    assert found.endswith(text)
    assert found.startswith("A chat between") == (pairs[0][0] != "system")


def test_the_lock_lasts_as_long_as_anything_can_still_come(pod: Pod) -> None:
    pod.asked(prompt(20), prompt(14))
    with pod.running() as process:
        _until(lambda: len(pod.generations) == 1)
        assert pod.locked()
        os.killpg(process.pid, signal.SIGKILL)  # as a container that takes too much memory
        _until(lambda: not pod.locked())
    assert not (pod.results / "generate.ended").exists()


def test_told_to_end_it_leaves_what_it_has(pod: Pod) -> None:
    pod.asked(prompt(20), prompt(14))
    with pod.running() as process:
        _until(lambda: len(pod.generations) == 1)
        process.terminate()
        assert process.wait(timeout=20) == 128 + signal.SIGTERM
    assert (pod.results / "generate.ended").read_text() == "143\n"
    assert not pod.locked()


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
