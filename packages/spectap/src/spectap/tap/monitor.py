"""The tap's own metrics for Prometheus. They have no word of prompts or answers.

A label has few values, whatever clients and servers send. A request is counted at its end.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import prometheus_client as prometheus

from spectap import metrics
from spectap.records.record import Record
from spectap.tap import http1
from spectap.tap.http1 import Request

PATH: Final = b"/spectap/metrics"
"""The path of the tap's metrics. The server's own ``/metrics`` passes through the tap."""

_STATUSES: Final = frozenset(HTTPStatus)
_KINDS: Final = (
    *("HTTP", "cancelled", "cut short", "empty", "error", "malformed", "refused", "reset"),
    *("stalled", "too long", "truncated"),
)
"""The first words of the ledger's errors, as kinds; others are of the kind "other"."""

_TTFT: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_TPOT: Final = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
_STEP: Final = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 12, 16)
_HISTOGRAMS: Final = (
    ("time_to_first_token_seconds", metrics.TTFT, _TTFT),
    ("time_per_output_token_seconds", metrics.TIME_PER_OUTPUT_TOKEN, _TPOT),
    ("tokens_per_step", metrics.TOKENS_PER_STEP, _STEP),
)


class Monitor:
    """Counts the requests of one tap. ``in_flight`` says how many are under way."""

    def __init__(self, in_flight: Callable[[], int]) -> None:
        registry = self._registry = prometheus.CollectorRegistry()
        text = "Completions that have ended, by HTTP status"
        self._requests = prometheus.Counter("spectap_requests", text, ["status"], registry=registry)
        text = "Completions that did not end whole, by kind of error"
        self._errors = prometheus.Counter("spectap_errors", text, ["kind"], registry=registry)
        under_way = prometheus.Gauge(
            "spectap_in_flight", "Completions under way", registry=registry
        )
        under_way.set_function(in_flight)
        self._histograms = [
            (m, prometheus.Histogram(f"spectap_{name}", m.title, buckets=b, registry=registry))
            for name, m, b in _HISTOGRAMS
        ]

    def note(self, record: Record) -> None:
        status = str(record.status) if record.status in _STATUSES else "other"
        self._requests.labels("none" if record.status is None else status).inc()
        if record.error is not None:
            kinds = (kind for kind in _KINDS if record.error.startswith(kind))
            self._errors.labels(next(kinds, "other").lower().replace(" ", "_")).inc()
            return
        for metric, histogram in self._histograms:
            for value in metric.values(record):
                histogram.observe(value)

    def page(self, request: Request) -> bytes | None:
        """The answer to a request for the metrics; None for any other request."""
        if request.method != b"GET" or request.target.partition(b"?")[0] != PATH:
            return None
        text, kind = prometheus.generate_latest(self._registry), prometheus.CONTENT_TYPE_LATEST
        return http1.encode_answer(HTTPStatus.OK, kind, text, keep_alive=request.keep_alive)
