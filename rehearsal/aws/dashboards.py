"""Reads synthesised dashboards: what each curve draws, and what its arithmetic comes to."""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from rehearsal.errors import RehearsalError

_IDENTIFIER: Final = re.compile(r"[a-z][a-zA-Z0-9_]*")
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

        Only the four operations are known. Raises RehearsalError.
        """
        values = {name: of(*operand) for name, operand in self.operands.items()}
        try:
            return _calculated(_parsed(self.title, self.expression), values)
        except (TypeError, ZeroDivisionError):
            raise RehearsalError(f"{self.title}: cannot calculate {self.expression!r}") from None


def curves(template: Path, region: str) -> list[Curve]:
    """The curves of all dashboards in a stack's template.

    Raises RehearsalError on what CloudWatch would refuse.
    """
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
            section = _heading(properties["markdown"])
        elif widget["type"] == "metric":
            yield from _graph(f"{section or dashboard}: {properties['title']}", properties)
        else:
            raise RehearsalError(f"{dashboard}: a widget of type {widget['type']}")


def _heading(markdown: str) -> str:
    """The section that a text begins; "" for an introduction, which is about the dashboard."""
    first = markdown.partition("\n")[0]
    return first.removeprefix("## ") if first.startswith("## ") else ""


def _graph(title: str, properties: Mapping[str, Any]) -> Iterator[Curve]:
    """A graph's rows are lists of strings, with an object of options at the end."""
    rows = [
        (row[:-1], row[-1]) if isinstance(row[-1], dict) else (row, {})
        for row in properties["metrics"]
    ]
    drawn = {
        options.get("id", f"row{index}"): (_identity(title, strings), _statistic(options))
        for index, (strings, options) in enumerate(rows)
        if strings
    }
    for identifier in drawn:
        if not _IDENTIFIER.fullmatch(identifier):
            raise RehearsalError(f"{title}: CloudWatch takes no id {identifier!r}")
    for index, (strings, options) in enumerate(rows):
        if not options.get("visible", True):
            continue
        expression = options.get("id", f"row{index}") if strings else options["expression"]
        operands = {name: drawn[name] for name in sorted(_operands(title, expression, drawn))}
        label = options.get("label") or " ".join(strings) or expression
        yield Curve(title, label, expression, operands)


def _statistic(options: Mapping[str, Any]) -> str:
    return str(options.get("stat", "Average"))


def _identity(title: str, strings: Sequence[str]) -> Identity:
    # "." and "..." repeat the row above. The CDK writes all rows in full.
    if len(strings) < 2 or len(strings) % 2 or any(part.startswith(".") for part in strings):
        raise RehearsalError(f"{title}: cannot read the metric {' '.join(strings)!r}")
    namespace, name, *dimensions = strings
    pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
    return Identity(namespace, name, frozenset(pairs))


def _operands(title: str, expression: str, known: Mapping[str, object]) -> set[str]:
    """The ids in an expression of metric math."""
    tree = _parsed(title, expression)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if unknown := names - known.keys():
        raise RehearsalError(f"{title}: {', '.join(sorted(unknown))} is the id of no metric")
    return names


def _parsed(title: str, expression: str) -> ast.expr:
    """Metric math. Python's grammar has the same arithmetic."""
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError:
        raise RehearsalError(f"{title}: CloudWatch cannot read {expression!r}") from None


def _calculated(tree: ast.expr, values: Mapping[str, float]) -> float:
    match tree:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_calculated(left, values), _calculated(right, values))
    raise TypeError
