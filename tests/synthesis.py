"""Synthesises experiments in this process, so that the jsii runtime starts once for all tests."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk8s
from cdk_nag import AwsSolutionsChecks
from ruamel.yaml import YAML

from app import compose
from charts.manifests import charts
from charts.names import Deployed, bucket_name
from experiment import Experiment
from tests.experiment.files import REGION

ROOT = Path(__file__).parent.parent
CONTEXT = json.loads((ROOT / "cdk.json").read_text())["context"]
ACCOUNT = "111122223333"

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Synthesised:
    experiment: Experiment
    directory: Path

    @cached_property
    def manifests(self) -> Mapping[str, list[Manifest]]:
        """Chart name to its objects, in the order they are applied in."""
        yaml = YAML(typ="safe", pure=True)
        return {
            path.name.removesuffix(".k8s.yaml")[5:]: list(yaml.load_all(path))
            for path in sorted((self.directory.parent / "dist").glob("*.k8s.yaml"))
        }

    def template(self, stack: str) -> dict[str, Any]:
        """The template of ``stack``, e.g. ``"network"``."""
        name = f"{self.experiment.name}-{stack}.template.json"
        template: dict[str, Any] = json.loads((self.directory / name).read_text())
        return template

    @property
    def stacks(self) -> list[str]:
        prefix, suffix = f"{self.experiment.name}-", ".template.json"
        return sorted(
            path.name.removeprefix(prefix).removesuffix(suffix)
            for path in self.directory.glob(f"*{suffix}")
        )

    def resources(self, type_: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Logical id and resource, of all stacks, of one type or of all."""
        for stack in self.stacks:
            for logical_id, resource in self.template(stack).get("Resources", {}).items():
                if type_ in (None, resource["Type"]):
                    yield logical_id, resource

    def objects(self, kind: str) -> Iterator[Manifest]:
        for manifests in self.manifests.values():
            yield from (manifest for manifest in manifests if manifest["kind"] == kind)

    def object(self, kind: str, name: str) -> Manifest:
        """The Kubernetes object whose name is or starts with ``name``."""
        matches = [o for o in self.objects(kind) if o["metadata"]["name"].startswith(name)]
        assert len(matches) == 1, f"{len(matches)} objects {kind}/{name}"
        return matches[0]

    def pods(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for manifests in self.manifests.values():
            yield from pods(manifests)


Of = Callable[[str], Synthesised]
"""Synthesises an experiment of the matrix, by its name."""
Vary = Callable[[dict[str, Any]], Experiment]
"""Makes the article's experiment with changes."""


def synthesise(experiment: Experiment, directory: Path) -> Synthesised:
    """Stacks, checked by cdk-nag, and charts of ``experiment``, written below ``directory``."""
    assembly = directory / "cdk.out"
    app = cdk.App(outdir=str(assembly), context=CONTEXT)
    serving = compose(app, experiment)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    charts_app = cdk8s.App(outdir=str(directory / "dist"))
    charts(charts_app, experiment, serving.deployed(ACCOUNT))
    charts_app.synth()
    return Synthesised(experiment, assembly)


def render(experiment: Experiment, account: str = ACCOUNT, tag: str = "a1") -> list[Manifest]:
    """The manifests of ``experiment`` alone, with the benchmark's image of that tag."""
    registry = f"{account}.dkr.ecr.{REGION}.amazonaws.com/assets-{account}"
    image = experiment.benchmark.image or f"{registry}:{tag}"
    deployed = Deployed(bucket_name(experiment, account), image)
    return [o for chart in charts(cdk8s.App(), experiment, deployed) for o in chart.to_json()]


def by_name(manifests: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Manifests by kind and name, the digests of Jobs and the Pod left out."""
    named = ((o["kind"], o["metadata"]["name"], o) for o in manifests)
    return {(k, n.rpartition("-")[0] if k in ("Job", "Pod") else n): o for k, n, o in named}


def pods(manifests: Iterable[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    for manifest in manifests:
        if manifest["kind"] == "Pod":
            yield manifest["metadata"]["name"], manifest["spec"]
        elif manifest["kind"] in ("Deployment", "Job"):
            yield manifest["metadata"]["name"], manifest["spec"]["template"]["spec"]


def containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All containers of a pod specification, those that initialise it first."""
    return [*pod.get("initContainers", []), *pod["containers"]]
