from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from charts.server import serve_command
from experiment import Experiment
from experiment.known_models import ModelKind
from experiment.loader import parse
from experiment.runtimes.nxdi import Nxdi, ServedMode
from experiment.variants import Variant, variants
from tests.experiment.files import edited
from tests.matrix import LADDER, MATRIX
from tests.synthesis import Manifest, Synthesised, by_name, containers, render


def compared(each: Synthesised) -> list[tuple[Variant, Variant]]:
    """Each variant that speculates, after its baseline."""
    named = {variant.name: variant for variant in variants(each.experiment)}
    return [(named[v.baseline], v) for v in named.values() if v.baseline]


def test_deployments_differ_in_name_labels_artifact_and_speculation_alone(
    side_by_side: Synthesised,
) -> None:
    """The comparison is fair only if this is the whole difference."""
    for pair in compared(side_by_side):
        names = tuple(variant.service for variant in pair)
        fetch = 2 if side_by_side.experiment.serving.api_key else 1  # after the key
        expected = {
            "metadata.labels.app": names,
            "metadata.name": names,
            "spec.selector.matchLabels.app": names,
            "spec.template.metadata.labels.app": names,
            f"spec.template.spec.initContainers[{fetch}].args[0]": tuple(
                f"compiled/{variant.artifact}/" for variant in pair
            ),
        }
        left, right = (_split(_deployment(side_by_side, name)) for name in names)
        changed = dict(difference(left, right))
        command = "spec.template.spec.containers[0].command"
        speculation = {
            path: changed.pop(path) for path in list(changed) if path.startswith(command)
        }
        assert changed == expected
        _assert_is_speculation(speculation, command, pair[1])


def _assert_is_speculation(
    changed: dict[str, tuple[Any, Any]], command: str, variant: Variant
) -> None:
    """Every difference of the command lines is a speculation setting or the draft model."""
    assert variant.mode
    assert variant.draft
    experiment, runtime = variant.experiment, variant.runtime
    assert isinstance(runtime, Nxdi)
    support = runtime.modes[variant.mode]
    assert isinstance(support, ServedMode)
    # A head is served as it was prepared, which is a part of the artifact.
    published = f"/models/{variant.draft.id}/{variant.draft.revision}"
    is_head = variant.draft.known.kind is not ModelKind.CAUSAL_LM
    settings = {
        "model": "/artifact/draft" if is_head else published,
        "num_speculative_tokens": variant.window,
        "max_model_len": experiment.serving.length - _largest_window(experiment),
        **({"method": support.method} if support.method else {}),
    }
    override: dict[str, Any] = dict.fromkeys(support.overrides, True)
    if runtime.config_key:
        override = {runtime.config_key: override}
    expected: dict[str, tuple[Any, Any]] = {f"{command}.{runtime.config_flag}": (None, override)}
    expected[f"{command}.--speculative-config"] = (None, settings)
    assert changed == expected


def _largest_window(experiment: Experiment) -> int:
    return max(variant.window or 0 for variant in variants(experiment))


def _split(deployment: Manifest) -> Manifest:
    """The deployment with its command line as a mapping of flags, JSON parsed."""
    deployment = json.loads(json.dumps(deployment))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    words, flags = container["command"], {}
    for index, word in enumerate(words):
        if word.startswith("--"):
            following = words[index + 1] if index + 1 < len(words) else "--"
            flags[word] = True if following.startswith("--") else _parsed(following)
    container["command"] = {"program": words[:3], **flags}
    return deployment


def _parsed(word: str) -> Any:
    return json.loads(word) if word.startswith("{") else word


def difference(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Path and both values of everything in which two JSON values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(set(left) | set(right)):
            below = f"{path}.{key}" if path else key
            yield from difference(left.get(key), right.get(key), below)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from difference(*pair, f"{path}[{index}]")
    elif left != right:
        yield path, (left, right)


@pytest.mark.parametrize("name", ["article", LADDER])
def test_all_services_can_call_tools_where_prompts_have_some(
    name: str, variation: Callable[..., Experiment]
) -> None:
    tools = {"--enable-auto-tool-choice", "--tool-call-parser", "hermes"}
    for variant in variants(variation(MATRIX[name])):
        assert tools & {*serve_command(variant)} == (tools if name == LADDER else set())


def test_the_services_of_a_node_and_a_compile_fit_it(side_by_side: Synthesised) -> None:
    instance = side_by_side.experiment.capacity.instance
    pods = dict(side_by_side.pods())
    compile_name = next(name for name in pods if name.startswith("compile-"))
    services = [variant.service for variant in variants(side_by_side.experiment)]
    of_a_node = services[: instance.devices // side_by_side.experiment.serving.devices]
    needed = [
        max(_request(c, "cpu") for c in containers(pods[name]))
        for name in (*of_a_node, compile_name)
    ]
    # Eight vCPUs are for the node's own pods.
    assert sum(needed) <= instance.vcpus - 8
    memory = [
        max(int(c["resources"]["limits"]["memory"].removesuffix("Gi")) for c in containers(pod))
        for pod in (pods[name] for name in (*of_a_node, compile_name))
    ]
    assert sum(memory) <= instance.memory_gib * 0.95


def test_a_new_window_is_a_new_artifact_for_the_speculative_side_alone(
    article: Experiment,
) -> None:
    shorter = parse(edited({"speculation.num_speculative_tokens": 5}), "mine.yaml")
    before, after = by_name(render(article)), by_name(render(shorter))
    # The lengths stay equal, so the baseline takes another window less, too.
    base, speculating = (("Deployment", name) for name in ("qwen-vllm", "qwen-sd-vllm"))
    ((path, lengths),) = difference(before[base], after[base])
    assert path.endswith("]")
    assert lengths[0] != lengths[1]
    changed = dict(difference(before[speculating], after[speculating]))
    # The artifact to wait for; the window on the command line, and the length it leaves.
    assert len(changed) == 3
    assert all(re.search(r"initContainers\[1\]|containers\[0\]", path) for path in changed)


def _deployment(synthesised: Synthesised, name: str) -> Manifest:
    return _object(synthesised, "Deployment", name)


def _object(synthesised: Synthesised, kind: str, name: str) -> Manifest:
    (manifest,) = (o for o in synthesised.objects(kind) if o["metadata"]["name"] == name)
    return manifest


def _request(container: dict[str, Any], resource: str) -> int:
    return int(container["resources"]["requests"][resource])


def test_a_service_overrides_only_what_was_compiled_into_its_artifact(
    each: Synthesised,
) -> None:
    """The loader sets each key over the artifact's configuration, whatever the graph is."""
    for base, variant in compared(each):
        assert _overrides(serve_command(base)) == {}
        overrides = _overrides(serve_command(variant))
        assert overrides
        for key, value in overrides.items():
            assert value is True
            assert f"--{key.replace('_', '-')}" in variant.compile_flags
            assert f"--{key.replace('_', '-')}" not in base.compile_flags


def _overrides(command: list[str]) -> dict[str, Any]:
    """What a command sets over the artifact's configuration."""
    options = dict(pairwise(command))
    fork = json.loads(options.get("--override-neuron-config", "{}"))
    plugin = json.loads(options.get("--additional-config", "{}")).get("override_neuron_config", {})
    return {**fork, **plugin}
