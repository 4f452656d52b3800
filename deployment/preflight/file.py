"""What the experiment file itself says that may be wrong by now."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from deployment.preflight.finding import Finding, ok, warning
from experiment import Experiment
from experiment.notes import gated

OLDEST_PRICE: Final = datetime.timedelta(days=60)
"""A choice: prices of Capacity Blocks change a few times a year."""

NOBODY_IS_TOLD: Final = "alerts.emails is empty: no alarm reaches anybody"


def alarms(experiment: Experiment) -> Iterator[Finding]:
    """Whether anybody is told of nodes that idle, or whose guard fails."""
    emails = experiment.alerts.emails
    if emails:
        yield ok("alarms", f"go to {', '.join(emails)}, once each has confirmed the subscription")
    else:
        yield warning("alarms", NOBODY_IS_TOLD, "name an address there")


def price(experiment: Experiment) -> Iterator[Finding]:
    """Whether costs are those of what is bought, and of these days."""
    its = experiment.capacity.price
    age = datetime.datetime.now(datetime.UTC).date() - its.as_of
    said = f"{its.usd_per_hour:g} USD an hour, read on {its.as_of}"
    remedy = f"read the price of {experiment.capacity.purchase} in {experiment.aws.region}"
    if not experiment.priced_as_bought:
        found = f"{said}, is that of {experiment.price_of}"
        yield warning("price", found, f"{remedy}, and set capacity.price")
    if age > OLDEST_PRICE:
        found = f"{said}, {age.days} days ago"
        yield warning("price", found, f"{remedy} again, and set capacity.price with its as_of")
    elif experiment.priced_as_bought:
        yield ok("price", said)


def gated_models(experiment: Experiment) -> Iterator[Finding]:
    """Models that the download needs a token for."""
    models = [*gated(experiment)]
    if models:
        yield warning(
            "gated models",
            f"{', '.join(models)}: the download fails without a token of the Hub",
            'accept the licence, and give the cluster a token: docs/runbook.md, "Gated models"',
        )
    else:
        yield ok("gated models", "none: the download needs no token")
