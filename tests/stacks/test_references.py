"""What stacks have of each other, by exports: CloudFormation lets none go that is in use."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import (
    FIRST,
    FIRST_START,
    IN_A_CLUSTER,
    LADDER,
    MATRIX,
    SWEEP,
    THREE_VARIANTS,
    VANILLA,
)
from tests.synthesis import Of, Synthesised, Vary, synthesise


def exports(synthesised: Synthesised) -> Mapping[str, Any]:
    """What each export refers to, by its name without the experiment's."""
    templates = map(synthesised.template, synthesised.stacks)
    outputs = (output for each in templates for output in each.get("Outputs", {}).values())
    prefix = f"{synthesised.experiment.name}-"
    return {o["Export"]["Name"].removeprefix(prefix): o["Value"] for o in outputs if "Export" in o}


@pytest.mark.parametrize("name", [LADDER, SWEEP, THREE_VARIANTS, VANILLA, FIRST_START, FIRST])
def test_no_edit_of_a_file_takes_an_export_away_or_changes_it(
    name: str, of_matrix: Of, synthesised: Synthesised
) -> None:
    """Whatever it edits: EFA or none, services or jobs, a key, what compiles, how it is bought."""
    assert exports(of_matrix(name)) == exports(synthesised)


def test_another_administrator_takes_no_export_away(
    of_matrix: Of, variation: Vary, tmp_path: Path
) -> None:
    role = {"aws.administrator_role": "arn:aws:iam::111122223333:role/Team"}
    named = synthesise(variation(MATRIX[IN_A_CLUSTER] | role), tmp_path)
    assert exports(named) == exports(of_matrix(IN_A_CLUSTER))


def test_every_import_is_an_export_of_an_earlier_stack(each: Synthesised) -> None:
    name, exported = each.experiment.name, exports(each)
    artifacts = json.loads((each.directory / "manifest.json").read_text())["artifacts"]
    imports = 0
    for stack in each.stacks:
        text = json.dumps(each.template(stack))
        assert "Fn::GetStackOutput" not in text
        for export in re.findall(rf'"Fn::ImportValue": "{name}-([^"]+)"', text):
            assert export in exported
            producer = export.partition(":")[0]
            assert f"{name}-{producer}" in artifacts[f"{name}-{stack}"]["dependencies"]
            imports += 1
    assert imports
