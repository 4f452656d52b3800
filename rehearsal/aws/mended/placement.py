"""Placement groups in CloudFormation, written down: nothing is placed here."""

from __future__ import annotations

from collections.abc import Mapping

from moto.cloudformation.parsing import get_model_map

from rehearsal.aws.mended.base import Resource


def mend() -> None:
    """Adds the type."""
    get_model_map()[PlacementGroup.type] = PlacementGroup  # type: ignore[assignment]


class PlacementGroup(Resource):
    """Others refer to its name."""

    type = "AWS::EC2::PlacementGroup"

    def attributes(self) -> Mapping[str, str]:
        """All that the type has."""
        return {"GroupName": self.name}
