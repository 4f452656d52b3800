"""Whether a deploy would change anything, by what GetTemplate returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployment import lifecycle
from deployment.lifecycle import Stack

STACK = Stack("a", "us-east-2", "UPDATE_COMPLETE")
TEMPLATE = {"Resources": {"Alarm": {"Description": "schneller als „Größe“ 🎉", "Value": 1}}}


class CloudFormation:
    """Keeps ASCII, as the real one does of a template's body."""

    def __init__(self, deployed: dict[str, Any]) -> None:
        text = json.dumps(deployed, ensure_ascii=False)
        self._body = json.loads("".join(c if c.isascii() else "?" for c in text))

    def get_template(self, **_: Any) -> dict[str, Any]:
        return {"TemplateBody": self._body}


def unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: dict[str, Any], stack: Stack = STACK
) -> bool:
    monkeypatch.setattr(lifecycle, "ASSEMBLY", tmp_path)
    monkeypatch.setattr(lifecycle, "client", lambda *_: CloudFormation(TEMPLATE))
    (tmp_path / "a.template.json").write_text(json.dumps(wanted, ensure_ascii=False))
    return lifecycle.unchanged(stack)


def test_text_beyond_ascii_is_not_deployed_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert unchanged(monkeypatch, tmp_path, TEMPLATE)


@pytest.mark.parametrize("field", [{"Description": "langsamer als „Größe“ 🎉"}, {"Value": 2}])
def test_any_other_change_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, field: dict[str, Any]
) -> None:
    alarm = TEMPLATE["Resources"]["Alarm"] | field
    assert not unchanged(monkeypatch, tmp_path, {"Resources": {"Alarm": alarm}})


@pytest.mark.parametrize("status", [None, "UPDATE_IN_PROGRESS", "ROLLBACK_COMPLETE"])
def test_a_stack_that_is_not_at_rest_is_not_unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: str | None
) -> None:
    assert not unchanged(monkeypatch, tmp_path, TEMPLATE, Stack("a", "us-east-2", status))
