"""The experiments that are here, the JSON Schema that editors check them by, the known models."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from experiment import Experiment, load
from experiment.__main__ import json_schema
from experiment.known_models import KNOWN_MODELS, REVISIONS, Model, ModelKind
from experiment.runtimes import RUNTIMES, Mode
from tests.experiment.files import ABSENT, EXPERIMENTS, ROOT, edited_data, swept
from tests.matrix import MATRIX

COMMITTED = (EXPERIMENTS / "experiment.schema.json").read_text(encoding="utf-8")
SCHEMA = json.loads(COMMITTED)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda file: file.stem)
def test_it_is_valid_and_named_after_its_file(file: Path) -> None:
    assert load(file).name == file.stem
    data = YAML(typ="safe", pure=True).load(file)
    VALIDATOR.validate(json.loads(json.dumps(data, default=str)))


def test_the_files_of_the_vllm_tier_are_valid() -> None:
    """A change of the schema shows here, minutes before that tier starts its servers."""
    files = [*(ROOT / "tests" / "vllm").glob("*.yaml")]
    assert {load(file).name for file in files} == {"whole-ladder", "two-cores-windows"}


def test_real_prompts_are_all_sent_at_every_load_point() -> None:
    experiment = load(EXPERIMENTS / "real-prompts.yaml")
    rounds = experiment.benchmark.rounds.at_most
    assert {point.requests * rounds for point in experiment.benchmark.points} == {48}
    assert [case.limit for case in experiment.benchmark.test_cases] == [48, 48, 48]


def test_the_matrix_has_every_mode_and_every_runtime(
    variation: Callable[[dict[str, Any]], Experiment],
) -> None:
    experiments = [variation(changes) for changes in MATRIX.values()]
    assert {s.mode for experiment in experiments for s in experiment.speculations} == set(Mode)
    assert {experiment.runtime for experiment in experiments} == set(RUNTIMES)


def test_the_committed_schema_is_fresh_and_no_mapping_takes_unknown_keys() -> None:
    assert json_schema() == COMMITTED, "run `make schema`"
    VALIDATOR.check_schema(SCHEMA)
    for definition in (SCHEMA, *SCHEMA["$defs"].values()):
        if definition.get("type") == "object":
            assert definition["additionalProperties"] is False, definition["title"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"benchmark.rounds": {"at_least": 4, "at_most": 30}}, None),
        (swept(), None),
        # Variants are listed or swept.
        ({"sweep": swept()["sweep"]}, "$"),
        ({"speculation": ABSENT}, "$"),
        ({"benchmark.rounds": 0}, "$.benchmark.rounds"),
        ({"models.target.revision": "main"}, "$.models.target.revision"),
    ],
)
def test_an_editor_marks_bad_values_where_they_stand(
    changes: dict[str, Any], path: str | None
) -> None:
    paths = {error.json_path for error in VALIDATOR.iter_errors(edited_data(changes))}
    assert paths == ({path} if path else set())


@pytest.mark.parametrize("model", KNOWN_MODELS)
def test_a_known_model_fits_its_family_and_a_head_its_target(model: str) -> None:
    known = KNOWN_MODELS[model]
    if commit := REVISIONS.get(model):
        assert Model(id=model, revision=commit).resolved_architecture is known
    for family, vocabulary in {"qwen3": 151936, "llama": 128256}.items():
        if re.search(family, model, re.IGNORECASE):
            assert known.vocabulary == vocabulary
    fixed = known.kind in (ModelKind.DFLASH_DRAFT, ModelKind.MEDUSA_HEADS)
    assert (known.drafts is not None) is fixed
    assert (known.trained_for is None) is (known.kind is ModelKind.CAUSAL_LM)
    if known.trained_for:
        target = KNOWN_MODELS[known.trained_for]
        assert target.kind is ModelKind.CAUSAL_LM
        assert (known.hidden, known.vocabulary) == (target.hidden, target.vocabulary)
        assert known.max_length <= target.max_length
        assert known.checkpoint_gib < target.checkpoint_gib / 5
