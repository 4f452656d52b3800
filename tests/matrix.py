"""Experiments that must synthesise and rehearse their deploy: what a valid file may say that
changes the stacks, and the longest and shortest of it. Their names differ, as in one account."""

from typing import Any, Final

from tests.experiment.files import ABSENT, EAGLE, ON_TRAINIUM, PUBLISHED, REGION, of_file, swept

RESERVATION: Final = "cr-0123456789abcdef0"
BLOCK_IN_MELBOURNE: Final = "capacity block in Melbourne, EAGLE on the newer image"
WHOLE_NODES: Final = "two nodes, a whole one each, API open to two offices, two subscribers"

LADDER: Final = "spot in Virginia, smaller draft, shortest name, a ladder of loads, prompt sets"
SWEEP: Final = "a sweep of two windows at two batches, on two nodes, a key"
THREE_VARIANTS: Final = "a baseline and two windows, a quarter of a node each, a key"

EAGLE3: Final = "EAGLE3 on NxDI, three windows, four services on a node"
FIRST_START: Final = "EAGLE3 for Qwen3, compiled by its first start, a key"
FIRST: Final = "one device a node, in Melbourne"
DFLASH: Final = "DFlash on one device, compiled by its first start"
VANILLA: Final = "vanilla and its baseline, as jobs"
MEDUSA: Final = "Medusa and its baseline, as jobs"

IN_A_CLUSTER: Final = "in a cluster that exists"
IN_A_VPC: Final = "in a VPC that exists, API open to an office and to what is behind the VPC"
_VPC: Final = {
    "aws.vpc": "vpc-0a1b2c3d4e5f60718",
    "aws.subnets": ["subnet-0a1b2c3d4e5f6071a", "subnet-0a1b2c3d4e5f6071c"],
}

_LINES: Final = (
    "Répète 五十 fois 🙂\n",
    'Write a template with "${AWS::Region}" <b>&</b> \\',
    None,
)


def numbered_cases(count: int) -> list[dict[str, Any]]:
    """One structured headline, one open-ended, and ``count`` in all."""
    return [
        {
            "name": f"case-{index:02}-{'x' * 32}",
            "line": _LINES[index % len(_LINES)],
            "structure": ("structured", "open-ended")[index % 2],
            "headline": index < 2,
        }
        for index in range(count)
    ]


MATRIX: Final[dict[str, dict[str, Any]]] = {
    "article": PUBLISHED,
    LADDER: {
        "name": "ab",
        "aws.region": "us-east-1",
        "aws.availability_zones": ["us-east-1a", "us-east-1b"],
        "capacity.availability_zone": "us-east-1b",
        "capacity.purchase": "spot",
        "models.draft.id": "Qwen/Qwen3-0.6B",
        "models.draft.revision": "c1899de289a04d12100db370d81485cdf75e47ca",
        "benchmark.concurrency": None,
        "benchmark.load": [
            {"concurrency": 2},
            {"concurrency": 8, "requests": 16},
            {"rate": 0.5, "seconds": 60},
        ],
        "benchmark.chat_template_kwargs": {"enable_thinking": False},
        "benchmark.objectives": {"ttft_p90_ms": 2000, "tpot_p90_ms": 50},
        "benchmark.keep_answers": True,
        "benchmark.test_cases": [
            {"name": "questions", "set": "mt-bench", "classes": ["coding", "math"]},
            {"name": "tools", "set": "bfcl", "limit": 12},
        ],
    },
    "reservation, larger draft, window of 15, longest name, most test cases, three launches": {
        "name": "a-name-of-20-letters",
        "capacity.purchase": "reservation",
        "capacity.reservation_id": RESERVATION,
        **ON_TRAINIUM,
        "models.draft.id": "Qwen/Qwen3-4B",
        "models.draft.revision": "1cfa9a7208912126459214e8b04321603b3df60c",
        "speculation.num_speculative_tokens": 15,
        "benchmark.rounds": 6,
        "benchmark.launches": 3,
        "benchmark.test_cases": numbered_cases(35),
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
        "name": "whole-nodes",
        "aws.api_access": ["203.0.113.0/24", "198.51.100.7/32"],
        "capacity.nodes": 2,
        "capacity.max_hours": 24,
        "capacity.after_run": "keep",
        "serving.devices": 16,
        "serving.tensor_parallel": 64,
        "alerts.emails": ["team@example.com", "On.Call+trn2@example.com"],
        "benchmark.image": "registry.example.com/benchmark:1",
    },
    THREE_VARIANTS: {
        "name": "three-variants",
        "speculation": [
            {"name": "k3", "mode": "fused", "num_speculative_tokens": 3},
            {"name": "K-7", "mode": "fused", "num_speculative_tokens": 7},
        ],
        "serving.devices": 4,
        "serving.tensor_parallel": 16,
        "serving.api_key": True,
    },
    SWEEP: {
        "name": "a-sweep",
        "aws.tags": {"owner": "ml platform", "CostCentre": "42"},
        "serving.api_key": True,
        "capacity.nodes": 2,
        "models.draft": ABSENT,
        "benchmark.test_cases.9": ABSENT,
        "benchmark.test_cases.8": ABSENT,
        **swept(
            drafts=[
                {"id": "Qwen/Qwen3-0.6B", "revision": "c1899de289a04d12100db370d81485cdf75e47ca"}
            ],
            windows=[3, 15],
            batches=[4, 8],
        ),
    },
    # Renamed, since tests look for what begins with the name of another one.
    EAGLE3: of_file("eagle3-nxdi") | {"name": "llama-eagle3"},
    FIRST_START: of_file("eagle3-qwen3") | {"serving.api_key": True},
    DFLASH: of_file("dflash"),
    FIRST: of_file("one-chip"),
    VANILLA: of_file("vanilla"),
    MEDUSA: of_file("medusa"),
    IN_A_CLUSTER: _VPC
    | {
        "name": "guest",
        "aws.cluster": "Shared_1",
        "aws.cluster_security_group": "sg-0a1b2c3d4e5f60718",
        "aws.dra_driver": "there",
    },
    IN_A_VPC: _VPC
    | {
        "name": "tenant",
        "aws.api_access": ["203.0.113.0/24", "10.8.0.0/16"],
        "aws.cpu_zones": [f"{REGION}a"],
    },
}
