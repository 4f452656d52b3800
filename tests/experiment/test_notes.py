"""What may surprise the user of a valid experiment."""

from typing import Any

import pytest

from experiment.loader import parse
from experiment.notes import notes
from tests.experiment.files import REGION, edited, of_file

BLOCK = {"capacity.purchase": "capacity-block", "capacity.reservation_id": "cr-0123456789abcdef0"}
INDIA = BLOCK | {
    "aws.region": "ap-south-2",
    "aws.availability_zones": ["ap-south-2a", "ap-south-2b"],
    "capacity.availability_zone": "ap-south-2b",
}
NXDI = of_file("eagle3-nxdi")
UNSEEN = {
    "runtime": "vllm-0.16-nxdi",
    "speculation.mode": "eagle3",
    "models": {
        "target": {"id": "meta-llama/Llama-3.3-70B-Instruct", "revision": "6" * 40},
        "draft": {
            "id": "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3",
            "revision": "4" * 40,
        },
    },
}
ALONE = {"benchmark.load": [{"concurrency": 1}], "published": []}
SETS = {"benchmark.test_cases": [{"name": "humaneval", "set": "humaneval"}]}
NO_PRICE = f"capacity.price: costs use the price of capacity-block in {REGION}; no price of "


@pytest.mark.parametrize(
    ("changes", "word", "beginning"),
    [
        (INDIA, "no price of", f"{NO_PRICE}capacity-block in ap-south-2 is given"),
        ({}, "try spot", "capacity.purchase = on-demand: others were refused trn2.48xlarge"),
        ({"capacity.purchase": "spot"}, "try spot", None),
        (
            SETS | {"benchmark.mean_output_tokens": 256},
            "cut off",
            "benchmark.mean_output_tokens = 256: Qwen/Qwen3-32B thinks before it answers",
        ),
        (SETS | {"benchmark.chat_template_kwargs": {"enable_thinking": False}}, "cut off", None),
        ({"benchmark.mean_output_tokens": 256}, "cut off", None),
        ({"benchmark.rounds": 2}, "at least 3", "benchmark.rounds = 2: there will be no verdict"),
        (
            {"models.draft.revision": "7" * 40},
            "add-model",
            f"models.draft.revision = {'7' * 40}: the known figures of Qwen/Qwen3-1.7B are those "
            "of 70d244cc86ccca08cf5af4e1e306ecf908b1ad5e; compare",
        ),
        (of_file("eagle3"), "maintenance", None),
        (
            of_file("eagle3"),
            "billed meanwhile, for up to 4 hours",
            "runtime = vllm-neuron: each service compiles when it first starts",
        ),
        (
            UNSEEN,
            "norm_before_residual",
            "models.draft = RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3: if its config.json",
        ),
        (
            of_file("eagle3-qwen3"),
            "A15",
            "speculation.mode = eagle3: nobody has shown it for qwen3 on this image",
        ),
        (of_file("dflash"), "A15", None),
        (
            of_file("dflash"),
            "0.35x",
            "speculation.mode = dflash: each request has 10 tokens verified a step",
        ),
        (of_file("dflash") | ALONE, "0.35x", None),
        (of_file("medusa"), "random token ids", "jobs: inference_demo --benchmark measures them"),
        (BLOCK, "", "runtime = vllm-0.9.1-nxdi: NxDI is in maintenance since SDK 2.30"),
        (NXDI, "norm_before_residual", None),
        (UNSEEN | {"runtime": "vllm-neuron"}, "norm_before_residual", None),
    ],
)
def test_what_may_surprise_is_noted(
    changes: dict[str, Any], word: str, beginning: str | None
) -> None:
    fitting = [note for note in notes(parse(edited(changes), "mine.yaml")) if word in note]
    assert len(fitting) == (beginning is not None)
    assert "".join(fitting).startswith(beginning or "")
