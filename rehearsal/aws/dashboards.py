"""Reads synthesised dashboards: what each curve draws, and what its arithmetic comes to."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from rehearsal import RehearsalError

_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Identity(NamedTuple):
    """What CloudWatch tells metrics apart by."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]

    def __str__(self) -> str:
        values = " ".join(value for _, value in sorted(self.dimensions))
        return f"{self.name} of {values}" if values else self.name


@dataclass(frozen=True)
class Curve:
    """A visible series of a graph, or a number."""

    title: str
    """Section, or else dashboard, and title of the graph."""
    label: str
    expression: str
    """Metric math of ids; the id alone where nothing is calculated."""
    operands: Mapping[str, tuple[Identity, str]]
    """By id, the metric and the statistic that it draws, or calculates with."""

    @property
    def metrics(self) -> frozenset[Identity]:
        """The metrics that it draws, or calculates with."""
        return frozenset(metric for metric, _ in self.operands.values())

    def value(self, of: Callable[[Identity, str], float]) -> float:
        """What the expression comes to where ``of`` gives the value of a metric and a statistic.

        Only the four operations are known, whose grammar is Python's. Raises RehearsalError.
        """
        values = {name: of(*operand) for name, operand in self.operands.items()}
        try:
            return _calculated(ast.parse(self.expression, mode="eval").body, values)
        except (TypeError, ZeroDivisionError):
            raise RehearsalError(f"{self.title}: cannot calculate {self.expression!r}") from None


def curves(template: Path, region: str) -> list[Curve]:
    """The curves of all dashboards in a stack's template. Raises RehearsalError."""
    resources = json.loads(template.read_text(encoding="utf-8"))["Resources"].values()
    dashboards = [r for r in resources if r["Type"] == "AWS::CloudWatch::Dashboard"]
    return [
        curve
        for dashboard in dashboards
        for curve in _curves(
            dashboard["Properties"]["DashboardName"],
            json.loads(_joined(dashboard["Properties"]["DashboardBody"], region))["widgets"],
        )
    ]


def _joined(body: Any, region: str) -> str:
    """A text of the template, whose only reference is the region."""
    if isinstance(body, str):
        return body
    separator, parts = body["Fn::Join"]
    known = {"AWS::Region": region}
    return str(separator).join(
        part if isinstance(part, str) else known[part["Ref"]] for part in parts
    )


def _curves(dashboard: str, widgets: Sequence[Mapping[str, Any]]) -> Iterator[Curve]:
    section = ""
    for widget in widgets:
        properties = widget["properties"]
        if widget["type"] == "text":
            first, *_ = properties["markdown"].splitlines()
            # Otherwise it is an introduction, which is about the dashboard.
            section = first.removeprefix("## ") if first.startswith("## ") else ""
        elif widget["type"] == "metric":
            yield from _graph(f"{section or dashboard}: {properties['title']}", properties)
        else:
            raise RehearsalError(f"{dashboard}: a widget of type {widget['type']}")


def _graph(title: str, properties: Mapping[str, Any]) -> Iterator[Curve]:
    """A graph's rows are lists of strings, with an object of options at the end.

    The CDK writes all rows in full, and refuses expressions of ids that it does not know.
    """
    rows = [
        (row[:-1], row[-1]) if isinstance(row[-1], dict) else (row, {})
        for row in properties["metrics"]
    ]
    metrics = {
        options.get("id", f"row{index}"): (_identity(strings), options.get("stat", "Average"))
        for index, (strings, options) in enumerate(rows)
        if strings
    }
    for index, (strings, options) in enumerate(rows):
        if options.get("visible", True):
            expression = options.get("id", f"row{index}") if strings else options["expression"]
            nodes = ast.walk(ast.parse(expression, mode="eval"))
            ids = sorted({node.id for node in nodes if isinstance(node, ast.Name)})
            label = options.get("label") or " ".join(strings) or expression
            yield Curve(title, label, expression, {name: metrics[name] for name in ids})


def _identity(strings: Sequence[str]) -> Identity:
    namespace, name, *dimensions = strings
    pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
    return Identity(namespace, name, frozenset(pairs))


def _calculated(tree: ast.expr, values: Mapping[str, float]) -> float:
    match tree:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_calculated(left, values), _calculated(right, values))
    raise TypeError
