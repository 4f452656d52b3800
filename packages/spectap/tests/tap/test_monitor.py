"""What the tap shows Prometheus, and the dashboard of it."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spectap.tap.http1 import Request
from spectap.tap.monitor import Monitor
from tests import samples

DASHBOARD = Path(__file__).parents[2] / "grafana" / "tap.json"
GET = Request(b"GET", b"/spectap/metrics?x=1", [], b"")


def values(monitor: Monitor) -> dict[tuple[str, ...], float]:
    """What is exported, by name and labels, as Prometheus's own parser reads it."""
    text = (monitor.page(GET) or b"").partition(b"\r\n\r\n")[2].decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_request_is_counted_by_what_became_of_it() -> None:
    monitor = Monitor(lambda: 3)
    assert values(monitor)["spectap_tokens_per_step_count",] == 0
    monitor.note(samples.record())
    errors = ("HTTP 429: no", "too long: an event", "reset: by", "x" * 99, "y", "error in a choice")
    for status, error in zip((429, 200, None, 299, 999, 200), errors, strict=True):
        monitor.note(samples.record(status=status, error=error))
    shown = values(monitor)
    for name, value in (("time_to_first_token_seconds", 0.2), ("tokens_per_step", 3.5)):
        assert shown[f"spectap_{name}_count",] == 1
        assert shown[f"spectap_{name}_sum",] == pytest.approx(value)
    assert shown["spectap_time_per_output_token_seconds_sum",] == pytest.approx(0.2 / 7)
    assert shown["spectap_time_per_output_token_seconds_bucket", "0.03"] == 1
    assert shown["spectap_in_flight",] == 3
    counts = {key: value for key, value in shown.items() if key[0].endswith("s_total")}
    assert counts == {
        **{("spectap_requests_total", status): 1 for status in ("429", "none")},
        **{("spectap_requests_total", "200"): 3, ("spectap_requests_total", "other"): 2},
        **{("spectap_errors_total", kind): 1 for kind in ("http", "too_long", "reset", "error")},
        ("spectap_errors_total", "other"): 2,
    }


def test_the_dashboard_asks_for_what_is_exported_and_for_all_of_it() -> None:
    monitor = Monitor(lambda: 0)
    monitor.note(samples.record(error="stalled"))
    exported = {key[0] for key in values(monitor) if not key[0].endswith("_created")}
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    named = set(re.findall(r"spectap_\w+", " ".join(asked)))
    assert named <= exported
    bases = re.compile("_(bucket|count|sum)$")
    assert {bases.sub("", name) for name in named} == {bases.sub("", name) for name in exported}
