"""ListMetrics: each metric once."""

from __future__ import annotations

from moto.cloudwatch.models import CloudWatchBackend, MetricDatumBase


def mend() -> None:
    """Puts the substitute into moto. mypy forbids it, hence the comment."""
    CloudWatchBackend.get_filtered_metrics = _distinct_metrics  # type: ignore[method-assign]


def _distinct_metrics(
    self: CloudWatchBackend, metric_name: str, namespace: str, dimensions: list[dict[str, str]]
) -> list[MetricDatumBase]:
    distinct = {
        (datum.namespace, datum.name, tuple((d.name, d.value) for d in datum.dimensions)): datum
        for datum in self.get_all_metrics()
    }
    return [
        datum for datum in distinct.values() if datum.filter(namespace, metric_name, dimensions)
    ]
