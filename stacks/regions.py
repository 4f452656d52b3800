"""Where an experiment is, and what of it has a name that all regions share."""

from typing import Final

from experiment.schema import Experiment

# Budgets are global, but CloudFormation can create them in these regions only. A test compares the
# list with cfn-lint's copy of the resource registry.
BUDGET_REGIONS: Final = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ca-central-1",
        "eu-central-1",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
        "me-south-1",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
    }
)
FALLBACK_REGION: Final = "us-east-1"


def budget_region(region: str) -> str:
    """The region of the budget stack of an experiment in ``region``."""
    return region if region in BUDGET_REGIONS else FALLBACK_REGION


def budget_stack_name(experiment: Experiment) -> str:
    """The stack's name. It contains the region if budgets of several regions share one region."""
    region = experiment.aws.region
    infix = "" if budget_region(region) == region else f"{region}-"
    return f"{experiment.name}-{infix}budget"


def dashboard_name(experiment: Experiment, subject: str) -> str:
    """Name for ``comparison`` or ``nodes``. All regions of an account share names of dashboards."""
    return f"{experiment.name}-{experiment.aws.region}-{subject}"


def zones(experiment: Experiment) -> str:
    """The zone of the Trainium nodes, then all zones.

    A network stays in its zones: CloudFormation makes new subnets before it deletes the old ones,
    which hold the same addresses.
    """
    listed = ", ".join(experiment.aws.availability_zones)
    return f"{experiment.capacity.availability_zone} of {listed}"
