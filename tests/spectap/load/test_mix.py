"""The order in which prompts of all classes come in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from spectap.load.mix import mixed
from spectap.prompt import Prompt


def prompts(classes: Mapping[str, int]) -> list[Prompt]:
    return [
        Prompt(name=f"{name}-{n}", prompt_class=name, messages=({"role": "user", "content": "a"},))
        for name, count in classes.items()
        for n in range(count)
    ]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30)), st.data())
def test_any_beginning_has_its_share_of_each_class(
    classes: dict[str, int], data: st.DataObject
) -> None:
    given_ = prompts(classes)
    order = mixed(given_)
    assert sorted(order, key=str) == sorted(given_, key=str)
    length = data.draw(st.integers(0, len(order)))
    found = Counter(prompt.prompt_class for prompt in order[:length])
    for name, count in classes.items():
        # A class is off by less than one from where the order is cut, which itself is off by
        # less than one prompt of each class.
        assert abs(found[name] - length * count / len(order)) <= 1 + len(classes)


def test_equal_classes_come_in_turn() -> None:
    order = mixed(prompts(dict.fromkeys("abcd", 10)))
    for first in range(0, 40, 4):
        assert {prompt.prompt_class for prompt in order[first : first + 4]} == set("abcd")


def test_the_order_is_random_and_always_the_same() -> None:
    order = mixed(prompts({"a": 100}))
    assert order == mixed(prompts({"a": 100}))
    assert [prompt.name for prompt in order[:3]] == ["a-73", "a-33", "a-57"]
