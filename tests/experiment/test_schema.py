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


def test_rounds_may_be_a_range(validator: jsonschema.Draft202012Validator) -> None:
    rounds = {"at_least": 4, "at_most": 30, "half_width": 0.05}
    validator.validate(edited_data({"benchmark.rounds": rounds}))


def test_a_sweep_may_take_the_place_of_listed_variants(
    validator: jsonschema.Draft202012Validator,
) -> None:
    validator.validate(edited_data(swept()))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"sweep": swept()["sweep"]}, id="listed and swept"),
        pytest.param({"speculation": ABSENT}, id="neither"),
        pytest.param({"speculation": ABSENT, "quality": ABSENT}, id="neither, nor quality"),
        pytest.param(swept() | {"quality": {"limit": 50}}, id="swept, with quality"),
    ],
)
def test_variants_are_listed_with_quality_or_swept_without(
    validator: jsonschema.Draft202012Validator, changes: dict[str, Any]
) -> None:
    assert {error.json_path for error in validator.iter_errors(edited_data(changes))} == {"$"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        pytest.param(swept(windows=[16]), "$.sweep", id="in a sweep"),
        pytest.param({"serving.batchs": 4}, "$.serving", id="unknown key"),
        pytest.param({"serving.batch": "4"}, "$.serving.batch", id="quoted number"),
        pytest.param({"capacity.purchase": "rent"}, "$.capacity.purchase", id="enumeration"),
        pytest.param({"benchmark.rounds": 0}, "$.benchmark.rounds", id="a number or a mapping"),
        pytest.param({"models.target.revision": "main"}, "$.models.target.revision", id="pattern"),
        pytest.param(
            {"aws.availability_zones": ["us-east-2c"]}, "$.aws.availability_zones", id="too few"
        ),
        pytest.param(
            {"benchmark.test_cases.3.headline": "yes"},
            "$.benchmark.test_cases[3].headline",
            id="in a list",
        ),
    ],
)
def test_bad_values_are_marked_where_they_stand(
    validator: jsonschema.Draft202012Validator, changes: dict[str, Any], path: str
) -> None:
    assert [error.json_path for error in validator.iter_errors(edited_data(changes))] == [path]


def test_no_mapping_takes_unknown_keys(validator: jsonschema.Draft202012Validator) -> None:
    schema = validator.schema
    assert isinstance(schema, dict)
    for definition in (schema, *schema["$defs"].values()):
        if definition.get("type") == "object":
            assert definition["additionalProperties"] is False, definition["title"]
