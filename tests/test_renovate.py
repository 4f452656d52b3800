"""Renovate's patterns match what this repository pins."""

import ast
import json
import re
from typing import Any, Final

import pytest

from charts import pods
from experiment.runtimes import RUNTIMES, vllm_neuron
from tests.synthesis import ROOT
from tools import lock

CONFIG: Final = json.loads((ROOT / ".github/renovate.json").read_text())
RULES, MANAGERS = CONFIG["packageRules"], CONFIG["customManagers"]
MODULES = [
    p
    for name in ("charts", "experiment", "operations", "stacks")
    for p in ROOT.glob(f"{name}/**/*.py")
]
FILES = [ROOT / "packages/spectap/Dockerfile", *MODULES]
IMAGE = re.compile(r"[\w.-]+\.[a-z]+/[\w./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?")
DIGEST = f"sha256:{'a1' * 32}"


def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("(?<", "(?P<"))


def matches(manager: dict[str, Any], pattern: str) -> list[re.Match[str]]:
    (files,) = (compiled(name.strip("/")) for name in manager["managerFilePatterns"])
    texts = [path.read_text() for path in FILES if files.search(str(path.relative_to(ROOT)))]
    return [match for text in texts for match in compiled(pattern).finditer(text)]


def versioning(rule: dict[str, Any]) -> re.Pattern[str]:
    return compiled(rule["versioning"].removeprefix("regex:"))


@pytest.mark.parametrize(
    ("manager", "pattern"), [(manager, p) for manager in MANAGERS for p in manager["matchStrings"]]
)
def test_each_pattern_matches(manager: dict[str, Any], pattern: str) -> None:
    assert matches(manager, pattern)


def test_all_images_that_python_names_are_matched_with_their_digests() -> None:
    (pattern,) = MANAGERS[0]["matchStrings"]
    matched = {ast.literal_eval(match[0]) for match in matches(MANAGERS[0], pattern)}
    nodes = [node for path in MODULES for node in ast.walk(ast.parse(path.read_text()))]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    named = {text for text in texts if isinstance(text, str) and IMAGE.fullmatch(text)}
    used = {pods.AWS_CLI, pods.PYTHON, *(runtime.image for runtime in RUNTIMES.values())}
    assert matched == named == used
    pinned = compiled(pattern).fullmatch(f'"registry.example/tool:1.0@{DIGEST}"')
    assert pinned
    assert [*pinned.groups()] == ["registry.example/tool", "1.0", DIGEST]


def test_older_generations_keep_their_vllm() -> None:
    older, newest = (rule for rule in RULES if "versioning" in rule)
    assert newest["matchFileNames"] == [f"{vllm_neuron.__name__.replace('.', '/')}.py"]
    later = "99.0.1-neuronx-py399-sdk9.0.0-ubuntu99.04"
    for tag in (*(runtime.tag for runtime in RUNTIMES.values()), later):
        match = versioning(older).fullmatch(tag)
        assert match
        assert match["compatibility"] == tag.partition("-")[0]
        assert versioning(newest).fullmatch(tag)
    assert "compatibility" not in versioning(newest).groupindex
    assert not versioning(newest).fullmatch(f"{later}-rc1")


def test_all_requirements_are_read_for_the_python_of_their_lock() -> None:
    (pattern,) = CONFIG["pip_requirements"]["managerFilePatterns"]
    files = [*lock.COMMANDS.values(), *(f"{name}.txt" for name in lock.COMPLETE)]
    files += [lock.LOCKS / "constraints.txt", lock.FOLDER / "requirements-download.txt"]
    assert all(compiled(pattern.strip("/")).search(str(file)) for file in files)
    oldest, llmperf = (rule["constraints"]["python"] for rule in RULES if "constraints" in rule)
    assert oldest.startswith(f"{lock.OLDEST}.")
    assert llmperf.startswith(f"{lock.COMPLETE['packages/spectap/llmperf-requirements']}.")
