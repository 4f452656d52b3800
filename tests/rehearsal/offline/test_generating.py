"""``generate.py`` with the golden NxDI: what it writes down is what the golden one did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from charts.indexes import NEVER
from tests.rehearsal.offline.generating import MODES, TOKENS, Generated, generated, pair

Both = tuple[Generated, Generated]


@pytest.fixture(scope="module", params=MODES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """A baseline and the variant of one mode, on the same prompts."""
    base, speculative = pair(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    return generated(base, folder / "base"), generated(speculative, folder / "speculative")


def steps(generation: dict[str, Any]) -> list[int]:
    """Tokens of each."""
    return [tokens for _, tokens in generation["steps"]]


def test_all_is_generated(both: Both) -> None:
    for one in both:
        assert one.status == 0, one.said
        assert [generation["error"] for generation in one.generations] == [None] * 3


def test_the_steps_are_those_that_were_made(both: Both) -> None:
    """But for what an answer's end or its length cuts off."""
    for one in both:
        for generation, made in zip(one.generations, one.record, strict=True):
            observed = steps(generation)
            assert observed[:-1] == made[: len(observed) - 1]
            assert observed[-1] <= made[len(observed) - 1]
            assert sum(observed) == generation["output_tokens"]
            times = [at for at, _ in generation["steps"]]
            assert times == sorted(times)
            assert generation["end"] == times[-1]


def test_a_baseline_has_a_token_a_step_and_the_variant_up_to_its_window(
    request: pytest.FixtureRequest, both: Both
) -> None:
    base, speculative = both
    most = {"vanilla": 7, "medusa": 5}[request.node.callspec.params["both"]]
    assert {count for one in base.generations for count in steps(one)} == {1}
    counts = [count for one in speculative.record for count in one[:-1]]
    assert max(counts) == most
    structured, open_ended = (len(steps(one)) for one in speculative.generations[:2])
    assert structured < open_ended < TOKENS


def test_both_give_the_same_answers_to_the_same_end(both: Both) -> None:
    base, speculative = both
    for one, other in zip(base.generations, speculative.generations, strict=True):
        assert (one["text"], one["finish"]) == (other["text"], other["finish"])
    first, _, last = base.generations
    assert (first["finish"], first["output_tokens"]) == ("length", TOKENS)
    assert last["finish"] == "stop"
    assert last["output_tokens"] < TOKENS


def test_inference_demo_s_own_report_is_that_of_vanilla_s_pair_alone(
    request: pytest.FixtureRequest, both: Both
) -> None:
    if request.node.callspec.params["both"] == "medusa":
        assert [one.report for one in both] == [None, None]
        return
    base, speculative = (one.report for one in both)
    assert base is not None
    assert speculative is not None
    assert [*base] == ["e2e_model", "context_encoding_model", "token_generation_model"]
    assert [*speculative] == ["e2e_model", "context_encoding_model", "speculation_model"]
    # It counts the graph's whole length, and not what was generated.
    for one in (base, speculative):
        seconds = one["e2e_model"]["latency_ms_avg"] / 1000
        assert one["e2e_model"]["throughput"] == pytest.approx(1024 / seconds)


def test_a_flag_that_is_none_fails_the_index_for_good(tmp_path: Path) -> None:
    base, _ = pair("vanilla")
    one = generated(base, tmp_path, more=["--speculation-lenght", "7"])
    assert one.status == NEVER
    assert "generate: inference_demo refused its command line" in one.said
    assert one.generations == []


def test_an_image_without_nxdi_fails_the_index_for_good(tmp_path: Path) -> None:
    base, _ = pair("vanilla")
    one = generated(base, tmp_path, packages=None)
    assert one.status == NEVER
    assert "generate: there is no inference_demo as we know it" in one.said


def test_logits_that_are_sampled_on_the_device_are_no_draft_s(tmp_path: Path) -> None:
    """Vanilla compares them on the host."""
    _, vanilla = pair("vanilla")
    one = generated(vanilla, tmp_path, more=["--on-device-sampling"])
    assert one.status == 1
    assert one.generations[0]["error"] == "TypeError: 'NoneType' object is not subscriptable"
