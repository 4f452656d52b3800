"""The golden page says of the same answers what either engine of vLLM says of them."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from experiment.runtimes import Engine
from rehearsal.golden.counted import Sent, page

# One that has ended, of 1 + 4 + 2 tokens and one beyond, and one of which 1 + 3 have been sent.
SENT = [
    Sent("a", 0, "say it", [(0.5, 1), (0.75, 4), (1.25, 2)], beyond=1, whole=True),
    Sent("b", 0, "say it twice", [(0.5, 1), (1.5, 3)]),
]


def samples(text: str) -> dict[str, float]:
    """Name -> value of each sample that is no bucket; the labels are checked by the way."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.pop("model_name") == "m"
            engine = sample.labels.pop("engine", None)
            assert (engine == "0") == ("inter_token" in text), "a label of V1 alone"
            position = sample.labels.get("position", "")
            if "le" not in sample.labels:
                values[sample.name.removeprefix("vllm:") + position] = sample.value
    return values


BOTH = {
    **{"num_requests_running": 1, "num_requests_waiting": 0},
    **{"prompt_tokens_total": 5, "request_success_total": 1},
    **{"request_generation_tokens_count": 1, "request_generation_tokens_sum": 7},
}


def test_v0_counts_what_it_scheduled() -> None:
    assert samples(page(Engine.V0, "m", SENT, running=1)) == BOTH | {
        "generation_tokens_total": 5,
        "time_per_output_token_seconds_count": 3,
        "time_per_output_token_seconds_sum": 1.75,
    }


def test_v1_counts_tokens() -> None:
    assert samples(page(Engine.V1, "m", SENT, running=1)) == BOTH | {
        "generation_tokens_total": 11,
        "inter_token_latency_seconds_count": 3,
        "inter_token_latency_seconds_sum": 1.75,
        "request_time_per_output_token_seconds_count": 1,
        "request_time_per_output_token_seconds_sum": 0.125,
    }


def test_v1_counts_drafts_where_it_has_them() -> None:
    without = samples(page(Engine.V1, "m", SENT))
    counted = samples(page(Engine.V1, "m", SENT, drafts=4))
    assert {name: value for name, value in counted.items() if name not in without} == {
        "spec_decode_num_drafts_total": 3,
        "spec_decode_num_draft_tokens_total": 12,
        # What is accepted counts, though the answer ends before it.
        "spec_decode_num_accepted_tokens_total": 7,
        "spec_decode_num_accepted_tokens_per_pos_total0": 3,
        "spec_decode_num_accepted_tokens_per_pos_total1": 3,
        "spec_decode_num_accepted_tokens_per_pos_total2": 1,
        "spec_decode_num_accepted_tokens_per_pos_total3": 0,
    }


@pytest.mark.parametrize(("engine", "has_histogram"), [(Engine.V0, False), (Engine.V1, True)])
def test_v0_shows_a_histogram_from_its_first_value_on(engine: Engine, has_histogram: bool) -> None:
    assert ("request_generation_tokens_sum" in samples(page(engine, "m", []))) == has_histogram
