"""What a median hides and the headline says: longer waits, other lengths, prompts that differ."""

import random
from collections.abc import Callable, Iterator

import pytest

from spectap.analysis.summarise import summarise
from spectap.records.record import Record
from spectap.report import headline
from tests import samples

CONFIG = samples.config(
    load=samples.load(concurrency=4, requests=48, rounds=6),
    test_cases=[{"name": "counting", "line": "counting ", "structure": "structured"}],
)
Change = Callable[[int, int], tuple[float, float, int]]
"""A speculative request's first token, its last, and its tokens; by its round and number."""


def records(change: Change, **fields: int | None) -> Iterator[Record]:
    chance = random.Random(1)
    for number in range(6 * 48 * 2):
        round_, request = number // 96 + 1, number % 96 // 2
        first, last, tokens = change(round_, request) if number % 2 else (0.3, 6.3, 100)
        last *= chance.lognormvariate(0, 0.03)
        yield samples.record(
            variant=("Base", "SD")[number % 2],
            **{"round": round_, "request": f"{number}", "output_tokens": tokens, **fields},
            **{"chunks": ((first, 1), (last, tokens - 1)), "end": last},
            **{"load": "concurrency-4", "prompt": f"p{request}" if fields else ""},
            sent=1.8e9 + 1000 * round_ + 10 * (request // 4),
        )


@pytest.mark.parametrize(
    ("change", "fields", "said"),
    [
        (lambda r, n: (0.3, 3.3, 100), {}, ["%). Keep it on."]),
        # Two of each round's 48 requests.
        (
            lambda r, n: (0.3, 3.3 if n % 24 else 49.5, 100),
            {},
            ["p99 of E2E 49.5 s instead of 6.", "only where such waits are acceptable"],
        ),
        # One round is no tail: what slows a minute slows all of it.
        (lambda r, n: (0.3, 3.3 if r > 1 else 49.5, 100), {}, ["undecided"]),
        (lambda r, n: (0.9, 3.9, 100), {}, ["p50 of TTFT 0.900 s instead of 0.300 s"]),
        (
            lambda r, n: (0.3, 8.3, 200),
            {},
            ["0.7", "cost of answers +3", "2.00x as long", "Look into its answers first."],
        ),
        (
            lambda r, n: (0.3, 6.3 if n % 2 else 1.3, 100),
            {"cached_tokens": None},
            ["sent 6 times", "50 % of the prompts gain nothing. Keep it on for the others."],
        ),
        (lambda r, n: (0.3, 3.3, 100), {"cached_tokens": 0}, ["%). Keep it on."]),
    ],
)
def test_what_a_median_hides(
    change: Change, fields: dict[str, int | None], said: list[str]
) -> None:
    [answer] = headline.answers(summarise(CONFIG, records(change, **fields)), CONFIG)
    assert all(part in answer for part in said), answer
    assert ("p99" in answer) == any("p99" in part for part in said)
