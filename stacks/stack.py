"""The stack of one concern of an experiment."""

from aws_cdk import Environment, Stack
from constructs import Construct

from experiment.schema import Experiment


class ExperimentStack(Stack):
    """A stack in the experiment's region, or in another, with the experiment's tags."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        experiment: Experiment,
        account: str | None,
        region: str | None = None,
    ) -> None:
        """``account``: 12 digits; None for a stack that fits any account."""
        super().__init__(
            scope,
            name,
            env=Environment(account=account, region=region or experiment.aws.region),
            # Those of the stack itself, by which it is found. Tags.of tags only its resources.
            tags=experiment.tags,
        )
        self.experiment = experiment
