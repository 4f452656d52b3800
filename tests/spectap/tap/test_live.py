"""The live line: what it says, and how it is shown."""

from __future__ import annotations

import io

import pytest

from spectap.tap.live import LAST, Line, Traffic
from tests.spectap import samples


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_counts_all_and_takes_medians() -> None:
    traffic = Traffic()
    assert traffic.line(3) == (
        "0 requests, 3 in flight, 0 errors; TTFT - ms, TPOT - ms, - tokens/step"
    )
    for _ in range(2):
        traffic.note(samples.record())  # 1 + 4 + 3 tokens at 0.2, 0.3 and 0.4 s
    traffic.note(samples.record(status=500, error="HTTP 500", chunks=(), output_tokens=None))
    assert traffic.line(0) == (
        "3 requests, 0 in flight, 1 error; TTFT 200.0 ms, TPOT 28.6 ms, 3.50 tokens/step"
    )


def test_the_medians_are_of_the_latest_requests() -> None:
    traffic = Traffic()
    for ttft in [9.0] * LAST + [0.2] * LAST:
        traffic.note(samples.record(chunks=((ttft, 1), (ttft + 0.1, 7))))
    assert f"{2 * LAST} requests" in traffic.line(0)
    assert "TTFT 200.0 ms" in traffic.line(0)


def test_a_terminal_has_one_line_that_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    line = Line(terminal)
    for text in ("a" * 30, "b", "b"):
        line.show(text)
    line.close()
    assert terminal.getvalue() == f"\r{'a' * 19}\x1b[K\rb\x1b[K\n"
    assert line.every_seconds == 1


def test_a_log_gets_what_has_changed_at_most_every_ten_seconds() -> None:
    log = io.StringIO()
    line = Line(log)
    for text in ("a", "a", "b"):
        line.show(text)
    line.close()
    assert log.getvalue() == "a\nb\n"
    assert line.every_seconds == 10
