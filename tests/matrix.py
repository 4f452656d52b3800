"""Experiments that must synthesise: each purchase option, several drafts, regions, runtimes."""

from __future__ import annotations

from typing import Any, Final

from tests.experiment.files import EAGLE

RESERVATION: Final = "cr-0123456789abcdef0"
BLOCK_IN_MELBOURNE: Final = "capacity block in Melbourne, EAGLE on the newer image"
WHOLE_NODES: Final = "two nodes, a whole one each, API open to two offices"

MATRIX: Final[dict[str, dict[str, Any]]] = {
    "article": {},
    "spot, smaller draft": {
        "capacity.purchase": "spot",
        "models.draft.id": "Qwen/Qwen3-0.6B",
        "models.draft.revision": "c1899de289a04d12100db370d81485cdf75e47ca",
    },
    "reservation, larger draft, window of 15": {
        "capacity.purchase": "reservation",
        "capacity.reservation_id": RESERVATION,
        "models.draft.id": "Qwen/Qwen3-4B",
        "models.draft.revision": "1cfa9a7208912126459214e8b04321603b3df60c",
        "speculation.num_speculative_tokens": 15,
    },
    BLOCK_IN_MELBOURNE: {
        "name": "melbourne",
        "aws.region": "ap-southeast-4",
        "aws.availability_zones": ["ap-southeast-4a", "ap-southeast-4b", "ap-southeast-4c"],
        "capacity.availability_zone": "ap-southeast-4a",
        "capacity.purchase": "capacity-block",
        "capacity.reservation_id": RESERVATION,
        "runtime": "vllm-0.16-nxdi",
        **EAGLE,
    },
    WHOLE_NODES: {
        "aws.api_access": ["203.0.113.0/24", "198.51.100.7/32"],
        "capacity.nodes": 2,
        "serving.devices": 16,
        "serving.tensor_parallel": 64,
        "alerts.emails": ["team@example.com"],
        "benchmark.image": "registry.example.com/benchmark:1",
    },
}
