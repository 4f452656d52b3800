"""What cfn-lint finds in the templates of an experiment."""

import functools
import json
import re

from cfnlint.config import ConfigMixIn
from cfnlint.decode.decode import decode_str
from cfnlint.rules import Rules
from cfnlint.runner import Runner, run_template_by_data

from charts.names import budget_region
from tests.synthesis import Synthesised

# cfn-lint 1.58 knows trn2.48xlarge in two regions and trn2.3xlarge in none; the rest are warnings
# of dependencies that the CDK writes twice.
FALSE_ALARMS = {
    "trainium": "E3628 'trn2.",
}

LONGEST = "a-name-of-20-letters"


def findings(synthesised: Synthesised) -> list[str]:
    region, name = synthesised.experiment.aws.region, synthesised.experiment.name
    return [
        f"{stack}: {error}"
        for stack in synthesised.stacks
        for error in errors(
            # By its name alone does the cluster, network or budget of an experiment differ.
            re.sub(rf"\b{name}\b", LONGEST, json.dumps(synthesised.template(stack))),
            budget_region(region) if stack.endswith("budget") else region,
        )
        if not (stack in FALSE_ALARMS and FALSE_ALARMS[stack] in error)
    ]


@functools.cache  # many a template is the same in several experiments
def errors(template: str, region: str) -> list[str]:
    decoded, malformed = decode_str(template)
    assert not malformed
    return [
        f"{match.rule.id} {match.message}"
        for match in run_template_by_data(decoded, ConfigMixIn(regions=[region]), _rules())
        if match.rule.id.startswith("E")
    ]


@functools.cache  # to load them takes longer than to go through a template
def _rules() -> Rules:
    return Runner(ConfigMixIn()).rules
