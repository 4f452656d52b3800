"""Services of one comparison: what they differ in, and what they take of their node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from charts.server import serve_command
from experiment import Experiment
from experiment.known_models import ModelKind
from experiment.runtimes.nxdi import Nxdi, ServedMode
from experiment.variants import Variant, variants
from tests.matrix import LADDER, MATRIX
from tests.synthesis import Manifest, Synthesised, containers


def compared(each: Synthesised) -> list[tuple[Variant, Variant]]:
    """Each variant that speculates, after its baseline."""
    named = {variant.name: variant for variant in variants(each.experiment)}
    return [(named[v.baseline], v) for v in named.values() if v.baseline]


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


def test_deployments_differ_in_name_labels_artifact_and_speculation_alone(
    side_by_side: Synthesised,
) -> None:
    """The comparison is fair only if this is the whole difference."""
    deployments = {o["metadata"]["name"]: o for o in side_by_side.objects("Deployment")}
    for pair in compared(side_by_side):
        names = tuple(variant.service for variant in pair)
        fetch = 2 if side_by_side.experiment.serving.api_key else 1  # after the key
        command = "spec.template.spec.containers[0].command"
        left, right = (_split(deployments[name]) for name in names)
        assert dict(difference(left, right)) == {
            "metadata.labels.app": names,
            "metadata.name": names,
            "spec.selector.matchLabels.app": names,
            "spec.template.metadata.labels.app": names,
            f"spec.template.spec.initContainers[{fetch}].args[0]": tuple(
                f"compiled/{variant.artifact}/" for variant in pair
            ),
            **{f"{command}.{flag}": (None, value) for flag, value in _speculation(pair[1])},
        }


def _speculation(variant: Variant) -> Iterator[tuple[str, dict[str, Any]]]:
    """The flags by which a variant's command line differs from its baseline's."""
    experiment, runtime, support = variant.experiment, variant.runtime, variant.support
    assert isinstance(runtime, Nxdi)
    assert isinstance(support, ServedMode)
    assert variant.draft
    override: dict[str, Any] = dict.fromkeys(support.overrides, True)
    yield (
        f"{runtime.config_flag}",
        {runtime.config_key: override} if runtime.config_key else override,
    )
    # A head is served as it was prepared, which is a part of the artifact.
    is_head = variant.draft.known.kind is not ModelKind.CAUSAL_LM
    published = f"/models/{variant.draft.id}/{variant.draft.revision}"
    largest = max(each.window or 0 for each in variants(experiment))
    settings = {
        "model": "/artifact/draft" if is_head else published,
        "num_speculative_tokens": variant.window,
        "max_model_len": experiment.serving.length - largest,
        **({"method": support.method} if support.method else {}),
    }
    yield "--speculative-config", settings


def _split(deployment: Manifest) -> Manifest:
    """The deployment with its command line as a mapping of flags, JSON parsed."""
    deployment = json.loads(json.dumps(deployment))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    words = container["command"]
    container["command"] = {"program": words[:3], **flags(words)}
    return deployment


def flags(words: list[str]) -> dict[str, Any]:
    """Each flag with its value, parsed if it is JSON; flags without one are True."""
    values: dict[str, Any] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            value = json.loads(following) if following.startswith("{") else following
            values[word] = True if following.startswith("--") else value
    return values


def test_all_services_can_call_tools_where_prompts_have_some(
    article: Experiment, variation: Callable[..., Experiment]
) -> None:
    tools = {"--enable-auto-tool-choice", "--tool-call-parser", "hermes"}
    for experiment, expected in ((article, set()), (variation(MATRIX[LADDER]), tools)):
        for variant in variants(experiment):
            assert tools & {*serve_command(variant)} == expected


def test_the_services_of_a_node_and_a_compile_fit_it(side_by_side: Synthesised) -> None:
    instance = side_by_side.experiment.capacity.instance
    pods = dict(side_by_side.pods())
    compiles = next(name for name in pods if name.startswith("compile-"))
    services = [variant.service for variant in variants(side_by_side.experiment)]
    of_a_node = services[: instance.devices // side_by_side.experiment.serving.devices]
    cpus, memory = zip(*(largest(pods[name]) for name in (*of_a_node, compiles)), strict=True)
    # Eight vCPUs are for the node's own pods.
    assert sum(cpus) <= instance.vcpus - 8
    assert sum(memory) <= instance.memory_gib * 0.95


def largest(pod: dict[str, Any]) -> tuple[int, int]:
    """The most CPUs that a container of the pod asks for, and GiB that one may take."""
    resources = [container["resources"] for container in containers(pod)]
    return (
        max(int(each["requests"]["cpu"]) for each in resources),
        max(int(each["limits"]["memory"].removesuffix("Gi")) for each in resources),
    )
