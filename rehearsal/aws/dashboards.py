"""Reads deployed dashboards back as CloudWatch's console does: widget by widget."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rehearsal.errors import RehearsalError

_IDENTIFIER: Final = re.compile(r"[a-z][a-zA-Z0-9_]*")

# What CloudWatch takes for a widget that does not say.
_DEFAULTS: Final[dict[str, Any]] = {"stat": "Average", "period": 300}


@dataclass(frozen=True)
class Widget:
    """A graph. ``place``: dashboard, section, title. ``queries`` are those of GetMetricData."""

    place: str
    queries: tuple[dict[str, Any], ...]

    @property
    def namespaces(self) -> frozenset[str]:
        """Where its metrics come from."""
        return frozenset(
            query["MetricStat"]["Metric"]["Namespace"]
            for query in self.queries
            if "MetricStat" in query
        )


@dataclass(frozen=True)
class Curve:
    """What one visible series of a widget shows."""

    place: str
    label: str
    values: tuple[float, ...]


def widgets(cloudwatch: Any, dashboard: str) -> list[Widget]:
    """All graphs of a deployed dashboard. Raises RehearsalError."""
    body = json.loads(cloudwatch.get_dashboard(DashboardName=dashboard)["DashboardBody"])
    return list(_graphs(dashboard, body["widgets"]))


def read(cloudwatch: Any, widget: Widget, start: datetime, end: datetime) -> list[Curve]:
    """The visible series of ``widget``, each with its values from old to new."""
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=list(widget.queries),
        StartTime=start,
        EndTime=end,
        ScanBy="TimestampAscending",
    )
    values: dict[str, list[float]] = {}
    for page in pages:
        for result in page["MetricDataResults"]:
            values.setdefault(result["Id"], []).extend(result["Values"])
    return [
        Curve(widget.place, query["Label"], tuple(values.get(query["Id"], ())))
        for query in widget.queries
        if query["ReturnData"]
    ]


def _graphs(dashboard: str, items: Sequence[Mapping[str, Any]]) -> Iterator[Widget]:
    section = ""
    for item in items:
        properties = item["properties"]
        if item["type"] == "text":
            section = _heading(properties["markdown"])
        elif item["type"] == "metric":
            place = ": ".join(part for part in (section or dashboard, properties["title"]) if part)
            yield Widget(place, tuple(_queries(place, properties)))
        else:
            raise RehearsalError(f"{dashboard}: a widget of type {item['type']}")


def _heading(markdown: str) -> str:
    """A section's name; "" for an introduction, whose first line names the whole dashboard."""
    first = markdown.partition("\n")[0]
    return first.removeprefix("## ") if first.startswith("## ") else ""


def _queries(place: str, properties: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A widget's rows, which are strings with an object of options at their end."""
    defaults = _DEFAULTS | {key: properties[key] for key in _DEFAULTS if key in properties}
    for index, row in enumerate(properties["metrics"]):
        *names, last = row
        options = last if isinstance(last, dict) else {}
        names = names if isinstance(last, dict) else row
        identifier = options.get("id", f"row{index}")
        if not _IDENTIFIER.fullmatch(identifier):
            raise RehearsalError(f"{place}: CloudWatch takes no id {identifier!r}")
        query = {"Id": identifier, "ReturnData": options.get("visible", True)}
        settings = defaults | options
        if "expression" in options:
            label = options.get("label", options["expression"])
            yield query | {"Expression": options["expression"], "Label": label}
        else:
            label = options.get("label", " ".join(names))
            yield query | {"MetricStat": _metric_stat(place, names, settings), "Label": label}


def _metric_stat(place: str, names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    # "." and "..." repeat the row above. The CDK writes all rows in full.
    if len(names) < 2 or len(names) % 2 or any(name.startswith(".") for name in names):
        raise RehearsalError(f"{place}: cannot read the metric {' '.join(names)!r}")
    namespace, name, *dimensions = names
    pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
    return {
        "Metric": {
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in pairs],
        },
        "Period": settings["period"],
        "Stat": settings["stat"],
    }
