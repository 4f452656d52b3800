"""The committed JSON Schema, by which editors complete and check an experiment file."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from experiment.__main__ import json_schema
from tests.experiment.files import ABSENT, EXPERIMENTS, edited_data, swept

COMMITTED = EXPERIMENTS / "experiment.schema.json"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(COMMITTED.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_committed_schema_is_fresh() -> None:
    fresh = COMMITTED.read_text(encoding="utf-8") == json_schema()
    assert fresh, f"{COMMITTED.relative_to(EXPERIMENTS.parent)} is stale: run `make schema`"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"benchmark.rounds": {"at_least": 4, "at_most": 30, "half_width": 0.05}}, None),
        (swept(), None),
        # Variants are listed with quality or swept without.
        ({"sweep": swept()["sweep"]}, "$"),
        ({"speculation": ABSENT}, "$"),
        (swept(windows=[16]), "$.sweep"),
        ({"serving.batchs": 4}, "$.serving"),
        ({"benchmark.rounds": 0}, "$.benchmark.rounds"),
        ({"models.target.revision": "main"}, "$.models.target.revision"),
        ({"aws.availability_zones": ["us-east-2c"]}, "$.aws.availability_zones"),
        ({"benchmark.test_cases.3.headline": "yes"}, "$.benchmark.test_cases[3].headline"),
    ],
)
def test_bad_values_are_marked_where_they_stand(
    validator: jsonschema.Draft202012Validator, changes: dict[str, Any], path: str | None
) -> None:
    paths = {error.json_path for error in validator.iter_errors(edited_data(changes))}
    assert paths == ({path} if path else set())


def test_no_mapping_takes_unknown_keys(validator: jsonschema.Draft202012Validator) -> None:
    schema = validator.schema
    assert isinstance(schema, dict)
    for definition in (schema, *schema["$defs"].values()):
        if definition.get("type") == "object":
            assert definition["additionalProperties"] is False, definition["title"]
