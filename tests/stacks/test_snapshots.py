"""Whole templates. Dashboards have snapshots of their own, and manifests those of tests/charts."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.matrix import IN_A_CLUSTER, IN_A_VPC, LADDER, SWEEP
from tests.snapshots import TemplateSnapshot, digest, laid_out, readable
from tests.synthesis import Of, Synthesised

STACKS = ("network", "cluster", "model-store", "trainium", "serving", "observability", "budget")
ELSEWHERE = {
    "Manifest": "<tests/charts: test_serving.py holds that it is what dist/ has>",
    "DashboardBody": "<test_dashboards>",
}


@pytest.mark.parametrize("stack", STACKS)
def test_template(stack: str, synthesised: Synthesised, snapshot: SnapshotAssertion) -> None:
    assert shown(synthesised.template(stack)) == snapshot(extension_class=TemplateSnapshot)


@pytest.mark.parametrize(
    ("name", "stack"),
    [(name, stack) for name in (IN_A_CLUSTER, IN_A_VPC) for stack in ("cluster", "trainium")],
    ids=["cluster-cluster", "cluster-trainium", "vpc-cluster", "vpc-trainium"],
)
def test_template_in_what_exists(
    name: str, stack: str, of_matrix: Of, snapshot: SnapshotAssertion
) -> None:
    """A cluster or a VPC of others, and what is made there."""
    template = shown(of_matrix(name).template(stack))
    assert template == snapshot(extension_class=TemplateSnapshot)


def shown(template: dict[str, Any]) -> Any:
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        properties |= {name: ELSEWHERE[name] for name in properties.keys() & ELSEWHERE.keys()}
    return readable(template)


@pytest.mark.parametrize("name", ["article", LADDER, SWEEP], ids=["article", "ladder", "sweep"])
def test_dashboards(name: str, of_matrix: Of, snapshot: SnapshotAssertion) -> None:
    """Those of the first test case, a metric on a line; of the further ones a digest."""
    resources = of_matrix(name).template("observability")["Resources"].items()
    # That of the nodes is the same for all.
    shown, drawn = ("Comparison", "Nodes")[: 2 if name == "article" else 1], []
    for dashboard in (
        resource for logical_id, resource in resources if logical_id.startswith(shown)
    ):
        widgets = readable(dashboard["Properties"]["DashboardBody"])["widgets"]
        for properties in (widget["properties"] for widget in widgets):
            if "metrics" in properties:
                properties["metrics"] = [" ".join(map(str, row)) for row in properties["metrics"]]
        texts = [str(widget["properties"].get("markdown")) for widget in widgets]
        second = [n for n, text in enumerate(texts) if text.startswith("## ")][1:2]
        end = second[0] if second else len(widgets)
        drawn += [*widgets[:end], digest(laid_out(widgets[end:]))]
    assert drawn == snapshot(extension_class=TemplateSnapshot)
