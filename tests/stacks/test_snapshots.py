"""Whole templates, asset hashes masked: what a change of code changes, in the pull request."""

import json
import re
from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.matrix import LADDER
from tests.synthesis import Synthesised

STACKS = ("network", "cluster", "model-store", "trainium", "serving", "observability", "budget")


@pytest.mark.parametrize("stack", STACKS)
def test_template(stack: str, synthesised: Synthesised, snapshot: SnapshotAssertion) -> None:
    template = masked(json.dumps(synthesised.template(stack)))
    assert json.loads(template) == snapshot(extension_class=JSONSnapshotExtension)


def test_dashboards_of_a_ladder(
    of_matrix: Callable[[str], Synthesised], snapshot: SnapshotAssertion
) -> None:
    """Bars at each load point, a cost at each concurrency, tokens per second at a rate."""
    template = masked(json.dumps(of_matrix(LADDER).template("observability")))
    assert json.loads(template) == snapshot(extension_class=JSONSnapshotExtension)


def masked(text: str) -> str:
    """``text`` without asset hashes, which follow every byte of an asset."""
    return re.sub(r"\b[0-9a-f]{64}\b", "<asset hash>", text)
