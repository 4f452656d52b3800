"""What servers tell of a single answer's drafts, in the words of each."""

from typing import Any

import pytest

from spectap.records.record import Speculation
from spectap.tap import speculation

VLLM = {"num_spec_steps": 43, "num_accepted_draft_tokens": 10, "num_draft_tokens": 129}
TRTLLM = {"num_spec_steps": 43, "total_accepted_draft_tokens": 10, "total_draft_tokens": 129}
SGLANG = {"spec_verify_ct": 43, "spec_num_correct_drafts": 10, "spec_num_proposed_drafts": 129}


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop"} | fields]}


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        ({"choices": [], "metrics": {"mean_itl_ms": 9.1, "speculative_decoding": VLLM}}, 43),
        (choice(avg_decoded_tokens_per_iter=1.23, speculative_decoding=TRTLLM), 43),
        (choice(meta_info=SGLANG), 43),
        (choice(timings={"predicted_n": 54, "draft_n": 129, "draft_n_accepted": 10}), None),
    ],
)
def test_each_engine_tells_in_its_own_words(body: dict[str, Any], steps: int | None) -> None:
    if steps is None:  # llama.cpp's are beside the choices
        body = body["choices"][0]
    told = Speculation(drafts=129, accepted=10, steps=steps)
    assert speculation.read({"choices": []}, body) == told
    assert speculation.read(body, None) == told


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"choices": []},
        {"metrics": {"speculative_decoding": None}},  # several answers to one request
        {"metrics": {"speculative_decoding": VLLM | {"num_draft_tokens": 9}}},
        {"metrics": {"speculative_decoding": VLLM | {"num_draft_tokens": float("nan")}}},
        choice(meta_info=SGLANG | {"spec_num_correct_drafts": True}),
        {"timings": []},
    ],
)
def test_what_cannot_be_true_is_nothing(body: Any) -> None:
    assert speculation.read(body) is None
