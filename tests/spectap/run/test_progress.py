"""How long a run says beforehand that it takes."""

from __future__ import annotations

import pytest

from spectap.config import Config
from spectap.load_points import LoadPoint
from spectap.record import Record
from spectap.run import progress
from spectap.run.turns import Turn
from tests.spectap import samples

POINTS = (LoadPoint(concurrency=2, requests=5), LoadPoint(rate=4, requests=20))


def config(*, alternate: bool = False) -> Config:
    settings = samples.config()
    load = settings.load.model_copy(update={"points": POINTS, "mean_input_tokens": 50})
    return settings.model_copy(update={"load": load, "alternate": alternate})


CLOSED, OPEN = (Turn(1, "counting", point.name) for point in POINTS)


def warm(variant: str, seconds: float) -> Record:
    return samples.record(variant=variant, round=0, end=seconds)


@pytest.mark.parametrize(("alternate", "closed", "open"), [(False, 9, 8), (True, 15, 15)])
def test_a_turn_takes_its_waves_or_its_schedule(
    alternate: bool, closed: float, open: float
) -> None:
    """Three waves of answers of 3 and 2 seconds, or five seconds and the last answer."""
    settings = config(alternate=alternate)
    answers = [warm("Base", 2), warm("SD", 3), warm("SD", 1)]
    warm_up_seconds = 5 if alternate else 3
    assert progress.seconds(settings, [CLOSED], answers, warm_up_seconds) == closed
    assert progress.seconds(settings, [OPEN], answers, warm_up_seconds) == open
    assert (
        progress.seconds(settings, [CLOSED, OPEN], answers, warm_up_seconds + 1)
        == closed + open + 2
    )


def test_nobody_knows_how_long_a_server_takes_that_answers_nothing() -> None:
    assert progress.seconds(config(), [CLOSED], [warm("Base", 2)], 3) is None
