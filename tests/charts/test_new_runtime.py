"""A new runtime is one class and one entry: all that asks for runtimes has it."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from experiment.known_models import Family
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Engine, EngineConfig, Mode, ModeSupport, Paths, Runtime
from experiment.variants import variants
from tests.experiment.files import ABSENT, edited
from tests.synthesis import by_name, render


class Toy(Runtime):
    """Compiles and serves nothing, in a mode that needs no draft."""

    def artifact_parts(self, config: EngineConfig) -> tuple[str, ...]:
        return ("toy.bin",)

    def compile_flags(self, config: EngineConfig) -> tuple[str, ...]:
        return ("--heads", str(config.window))

    def compile_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        return ["toyc", paths.target, *self.compile_flags(config), "-o", paths.artifact]

    def compile_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        return {"TOY_WORK": paths.scratch}

    def draft_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        return []

    def serve_command(self, config: EngineConfig, paths: Paths, port: int) -> list[str]:
        return ["toyd", paths.artifact, str(port)]

    def serve_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        return {"TOY_ARTIFACT": paths.artifact}


TOY = Toy(
    name="toy-1",
    image="registry.example.com/toy:1",
    ami_release="1.35.6-20260714",
    engine=Engine.V1,
    modes={
        Mode.DFLASH: ModeSupport(
            draft=None, families=frozenset({Family.QWEN3}), minimum_tokens=1, greedy_only=False
        )
    },
)
CHANGES: dict[str, Any] = {
    "runtime": TOY.name,
    "speculation": {"mode": "dflash", "num_speculative_tokens": 1},
    "models.draft": ABSENT,
}


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIMES, TOY.name, TOY)


def test_pods_and_keys_have_the_digest_and_people_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    def rendered() -> tuple[set[str], str, str]:
        experiment = parse(edited(CHANGES), "mine.yaml")
        objects = by_name(render(experiment))
        images = {*re.findall(r'"image": "([^"]+toy[^"]+)"', json.dumps([*objects.values()]))}
        config = json.loads(objects["ConfigMap", "qwen-llmperf"]["data"]["config.json"])
        return images, config["settings"]["Image"], variants(experiment)[0].artifact

    _, _, key = rendered()
    pinned = f"{TOY.image}@sha256:{'a1' * 32}"
    monkeypatch.setitem(RUNTIMES, TOY.name, dataclasses.replace(TOY, image=pinned))
    images, tag, pinned_key = rendered()
    assert (images, tag) == ({pinned}, "1")
    assert pinned_key != key


def test_its_own_commands_compile_and_serve_without_a_draft() -> None:
    objects = by_name(render(parse(edited(CHANGES), "mine.yaml")))
    job = objects["Job", "compile-qwen-sd-vllm"]["spec"]["template"]["spec"]
    _, compiler = job["initContainers"]
    (upload,) = job["containers"]
    (server,) = objects["Deployment", "qwen-sd-vllm"]["spec"]["template"]["spec"]["containers"]
    assert [c["image"] for c in (compiler, server)] == [TOY.image] * 2
    target = "/models/Qwen/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137"
    assert compiler["args"] == ["toyc", target, "--heads", "1", "-o", "/scratch/artifact"]
    assert {"name": "TOY_WORK", "value": "/scratch"} in compiler["env"]
    assert upload["args"][1:-1] == ["toy.bin"]
    assert server["command"] == ["toyd", "/artifact", "8000"]
    assert {"name": "TOY_ARTIFACT", "value": "/artifact"} in server["env"]
    config = json.loads(objects["ConfigMap", "qwen-llmperf"]["data"]["config.json"])
    _, variant = config["variants"]
    assert (variant["mode"], variant["draft"], variant["runtime"]) == ("dflash", None, TOY.name)
    (download,) = objects["Job", "download"]["spec"]["template"]["spec"]["containers"]
    assert len(download["args"]) == 1
