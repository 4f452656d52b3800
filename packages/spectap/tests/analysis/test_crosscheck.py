"""Two counts of one thing: where they agree, where they must not, and where they cannot."""

import dataclasses
from typing import Any

import pytest

from spectap.analysis.crosscheck import cached, check
from spectap.endpoint.counters import Count, Counters, Obstacle
from spectap.names import WARM_UP
from spectap.records.record import Record, Speculation
from spectap.report.caveats import of_caches
from tests import samples


def record(**changes: Any) -> Record:
    """Answers of 1 + 8 + 8 + 4 tokens: two full steps of 7 drafts, and one that was cut."""
    chunks = ((0.2, 1), (0.3, 8), (0.4, 8), (0.5, 4))
    values = {"chunks": chunks, "output_tokens": 21, "request": "a"}
    return samples.record(**(values | changes))


def count(**changes: Any) -> Count:
    """What vLLM counts of ``record``: in the last step it accepted 6, of which 3 were wanted."""
    counters: dict[str, Any] = {
        **{"generation_tokens": 21, "drafts": 3, "draft_tokens": 21, "accepted": 20},
        **{"per_position": (3, 3, 3, 3, 3, 3, 2)},
        **{"finished_tokens": 21, "finished": 1, "gaps": 3},
    }
    return Count("counting", 1, "SD", ("a",), Counters(**(counters | changes)))


# What V0 counts of ``record``: a prefill and 3 steps.
ON_V0: dict[str, Any] = {
    **{"generation_tokens": 4, "drafts": 0, "draft_tokens": 0, "accepted": 0},
    **{"per_position": ()},
}


# Steps of 1, 5, 1 and 3 tokens. One of the single tokens was a step without drafts, and the last
# step was cut: of 4 drafts that it found, it accepted all.
SEARCHED = record(chunks=((0.2, 1), (0.3, 1), (0.4, 5), (0.5, 1), (0.6, 3)), output_tokens=11)


def searched(**changes: Any) -> Count:
    """What vLLM counts of these where n-gram drafts as many tokens as it finds, at most 7."""
    counters = {
        **{"generation_tokens": 11, "drafts": 3, "draft_tokens": 9, "accepted": 8},
        **{"per_position": (2, 2, 2, 2, 0, 0, 0), "finished_tokens": 11, "gaps": 4},
    }
    return count(**(counters | changes))


@pytest.mark.parametrize(
    ("request_", "counted", "tokens", "steps", "drafts"),
    [(record(), count(), 21, 3, (17, 20, 4)), (SEARCHED, searched(), 11, 4, (6, 8, 5))],
    ids=["fixed", "steps for which no drafts were found are not missed"],
)
def test_a_count_that_agrees(
    request_: Record, counted: Count, tokens: int, steps: int, drafts: tuple[int, int, int]
) -> None:
    (cell_check,) = check([request_], [counted])
    assert [(f.name, f.ledger, f.server, f.cut) for f in cell_check.figures] == [
        ("tokens", tokens, tokens, 0),
        ("steps", steps, steps, 0),
        ("accepted drafts", *drafts),
    ]
    assert cell_check.failures == ()
    assert cell_check.confirms


def test_what_is_of_one_request_is_not_held_against_two() -> None:
    # A count that one of two loads lacks.
    second = dataclasses.replace(count(), requests=("b",))
    (cell_check,) = check([record(), record(request="b")], [count(gaps=None), second])
    assert [(f.name, f.ledger, f.server) for f in cell_check.figures][1] == ("steps", 6, 6)
    assert cell_check.failures == ()
    # A request that only keeps the load full is among the server's.
    (cell_check,) = check([record(), record(request="b", round=WARM_UP)], [count(), second])
    assert (cell_check.figures[0].ledger, cell_check.figures[0].server) == (42, 42)


@pytest.mark.parametrize("drafts", [1, 5])
def test_steps_with_drafts_that_cannot_be_so_many(drafts: int) -> None:
    """Two steps yielded more than one token, and there were no five."""
    (cell_check,) = check([SEARCHED], [searched(drafts=drafts)])
    assert [*cell_check.disagreements] == ["steps"]


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"generation_tokens": 22, "finished_tokens": 22}, "tokens"),
        ({"finished_tokens": 0}, "tokens"),
        (ON_V0 | {"finished_tokens": 22}, "tokens"),
        # Each count of the steps has to agree, and not only one of them.
        ({"drafts": 4, "draft_tokens": 28}, "steps"),
        ({"gaps": 4}, "steps"),
        (ON_V0 | {"gaps": 4}, "steps"),
        (ON_V0 | {"generation_tokens": 5, "gaps": None}, "steps"),
        ({"accepted": 16}, "accepted drafts"),  # fewer than arrived
        ({"accepted": 22}, "accepted drafts"),  # more than a cut can hide
    ],
)
def test_a_count_that_does_not_agree(changes: dict[str, int], figure: str) -> None:
    (cell_check,) = check([record()], [count(**changes)])
    assert [*cell_check.disagreements] == [figure]
    # An event need not be a step, which is the server's affair; tokens are the ledger's.
    assert len(cell_check.failures) == (figure != "steps")


def test_where_tools_are_offered_chunks_are_no_steps() -> None:
    """The server's parser held two steps back: the tokens are all there, and the steps are not."""
    held_back = record(tools=True, chunks=((0.3, 9), (0.4, 8), (0.5, 4)))
    (cell_check,) = check([held_back], [count()])
    assert [(f.name, f.ledger, f.server) for f in cell_check.figures] == [("tokens", 21, 21)]
    (unmarked,) = check([dataclasses.replace(held_back, tools=False)], [count()])
    assert [*unmarked.disagreements] == ["steps", "accepted drafts"]
    assert unmarked.failures == ()


def test_loads_that_cannot_be_compared_say_why_and_the_others_still_are() -> None:
    fell = dataclasses.replace(count(generation_tokens=-8856), obstacle=Obstacle.FELL)
    (alone,) = check([record()], [fell])
    assert (alone.figures, alone.obstacles, alone.failures) == ((), (Obstacle.FELL,), ())
    other = dataclasses.replace(count(), requests=("b",))
    (both,) = check([record(), record(request="b")], [fell, other])
    assert [figure.ledger for figure in both.figures] == [21, 3, 17]
    assert both.obstacles == (Obstacle.FELL,)
    # Of most loads they are not comparable: that of one agrees by chance.
    (seldom,) = check([record(), record(request="b")], [fell, fell, other])
    assert (seldom.figures, seldom.obstacles) == ((), (Obstacle.FELL,) * 2)
    # A run from before obstacles were noted.
    (older,) = check([record()], [count(finished_tokens=-8856, gaps=-8856)])
    assert [figure.agrees for figure in older.figures] == [False, False, True]


@pytest.mark.parametrize(
    "records", [[], [record(error="reset", status=None)], [record(per_chunk=False)]]
)
def test_what_cannot_be_compared_is_not(records: list[Record]) -> None:
    """The ledger lost it, the server may have counted what never came, or nobody counted."""
    assert check(records, [count()]) == ()


def told(drafts: int = 21, accepted: int = 20, steps: int | None = 3, **changes: Any) -> Record:
    return record(speculation=Speculation(drafts, accepted, steps), **changes)


def test_what_each_answer_tells_agrees_with_its_events_and_with_all() -> None:
    (cell_check,) = check([told()], [count()])
    assert [(f.name, f.ledger, f.server) for f in cell_check.figures[3:]] == [
        ("accepted drafts, by answers", 17, 20),
        ("all accepted drafts", 20, 20),
        ("all drafts", 21, 21),
        ("all steps with drafts", 3, 3),
    ]
    assert cell_check.confirms
    (other,) = check([told(drafts=14)], [count()])
    assert [line.split(": ")[1] for line in other.failures] == ["all drafts"]


@pytest.mark.parametrize(
    ("records", "confirms"),
    [
        ([told()], True),
        ([told(steps=None)], True),
        ([told(accepted=0)], False),  # each event is eight steps of a server that buffers
        # Of two steps each, one event; and of each step, several events.
        ([told(accepted=12, chunks=((0.2, 1), (0.4, 16), (0.5, 4)))], False),
        ([told(chunks=tuple((0.1 * n, 1) for n in range(1, 22)))], False),
        ([told(per_chunk=False)], None),
        ([told(), record(request="b")], True),
    ],
)
def test_answers_tell_without_counters(records: list[Record], confirms: bool | None) -> None:
    checks = check(records, [])
    assert [each.confirms for each in checks] == [confirms]
    assert [each.failures for each in checks] == [()]


def in_cache(variant: str, hits: int, obstacle: Obstacle | None = None) -> Count:
    counters = Counters(21, cache_hits=hits, cache_queries=100)
    return Count("counting", 1, variant, (), counters, obstacle=obstacle)


def test_a_requests_usage_is_believed_before_counters() -> None:
    records = [
        samples.record(variant="SD", prompt_tokens=40, cached_tokens=cached, round=number)
        for number, cached in ((0, 40), (1, 0), (2, 16), (3, None))
    ]
    counts = [in_cache("SD", 90), in_cache("Base", 30), in_cache("Base", 10)]
    counts.append(in_cache("Base", 100, Obstacle.FELL))
    assert cached(records, counts) == {"counting": {"Base": 0.2, "SD": 0.2}}
    assert cached([], [Count("counting", 1, "SD", (), Counters(21))]) == {}


@pytest.mark.parametrize(
    ("of_case", "expected"),
    [
        ({"Base": 0.0, "SD": 0.05}, ""),
        ({"Base": 0.3, "SD": 0.35}, ""),
        ({"Base": 0.0, "SD": 0.8}, "0 % of Base's and 80 % of SD's prompt tokens were in a cache"),
        ({"SD": 0.2}, "20 % of SD's prompt tokens"),
        ({"Base": 0.6, "SD": 0.6}, "60 % of Base's and 60 % of SD's prompt tokens"),
    ],
)
def test_a_cache_that_differs_or_decides_is_noted(of_case: dict[str, float], expected: str) -> None:
    notes = [*of_caches({"counting": of_case}, ("Base", "SD"))]
    assert len(notes) == bool(expected)
    assert expected in "".join(notes)
