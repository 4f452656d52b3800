"""What a run says beforehand: requests, tokens and time."""

from __future__ import annotations

import pytest

from spectap.config import Config
from spectap.load_points import LoadPoint
from spectap.prompt import Prompt
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


def test_lines_have_the_lengths_of_the_load() -> None:
    settings = config()
    longest = settings.load.mean_output_tokens
    both = len(settings.variants) * 25
    assert progress.amounts(settings, [CLOSED, OPEN], {}) == (both, both * 50, both * longest)


def test_prompts_have_lengths_of_their_own() -> None:
    settings = config()
    prompts = tuple(
        Prompt(name=str(length), messages=({"role": "user", "content": "x"},), max_tokens=length)
        for length in (7, 9)
    )
    requests, tokens_in, tokens_out = progress.amounts(settings, [CLOSED], {"counting": prompts})
    assert requests == len(settings.variants) * 5
    assert tokens_out in {
        len(settings.variants) * total for total in (3 * 7 + 2 * 9, 2 * 7 + 3 * 9)
    }
    assert 0 < tokens_in < requests * 50


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
