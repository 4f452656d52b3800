from __future__ import annotations

import json

import pytest
from cfnlint.helpers import REGIONS as ALL_REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from stacks.regions import BUDGET_REGIONS, budget_region
from tests.synthesis import Synthesised


def test_tells_the_alarm_topic_which_it_finds_by_name(synthesised: Synthesised) -> None:
    ((_, budget),) = synthesised.resources("AWS::Budgets::Budget")
    text = json.dumps(budget["Properties"]["NotificationsWithSubscribers"])
    ((_, topic),) = synthesised.resources("AWS::SNS::Topic")
    assert f":{topic['Properties']['TopicName']}" in text
    assert "Fn::ImportValue" not in text


@pytest.mark.parametrize(
    ("region", "expected"), [("us-east-2", "us-east-2"), ("ap-southeast-4", "us-east-1")]
)
def test_is_made_where_cloudformation_can(region: str, expected: str) -> None:
    assert budget_region(region) == expected


def test_regions_are_those_of_the_resource_registry() -> None:
    commercial = {r for r in ALL_REGIONS if not r.startswith(("us-gov", "us-iso", "cn-", "eu-iso"))}
    has_budgets = {
        region
        for region in commercial - {"eusc-de-east-1"}
        if "AWS::Budgets::Budget" in PROVIDER_SCHEMA_MANAGER.get_resource_types(region)
    }
    assert has_budgets == BUDGET_REGIONS
