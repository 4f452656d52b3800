"""Runs ``inference_demo`` with Medusa, whose ``--benchmark`` would end with an error as it is.

usage: benchmark_medusa.py ARGUMENT...    those of ``inference_demo``, ``--global-topk`` among them

In neuronx-distributed-inference v0.6.10598 and neuronx-distributed 2.26 three things stop it:

- ``utils/benchmark.py`` leaves an empty list as the end token, which Medusa's loop looks up in a
  tensor (``utils/hf_adapter.py``, ``_medusa_assisted_decoding``).
- That loop counts a prompt's tokens by those that are not 0, and the benchmark draws some that are.
- ``utils/medusa_utils.py`` fills the tree from ``TOPK`` candidates of each head, however many the
  graph was compiled to hand out.
"""

from __future__ import annotations

import sys
from typing import Any

UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits.h: another try would end so, too."""

NEVER_A_TOKEN = -1


def main(arguments: list[str]) -> int:
    """Runs ``inference_demo``; returns the exit status."""
    try:
        from neuronx_distributed.utils import medusa_utils
        from neuronx_distributed_inference import inference_demo
        from neuronx_distributed_inference.utils.hf_adapter import HuggingFaceGenerationAdapter

        decode = HuggingFaceGenerationAdapter._medusa_assisted_decoding
    except (ImportError, AttributeError) as error:
        print(f"benchmark_medusa: this is not the inference_demo we know: {error}", file=sys.stderr)
        return UNAVAILABLE

    def medusa_assisted_decoding(
        adapter: Any,
        input_ids: Any,
        assistant_model: Any,
        stopping_criteria: Any,
        pad_token_id: Any,
        eos_token_id: Any,
        **model_kwargs: Any,
    ) -> Any:
        return decode(
            adapter,
            input_ids.clamp(min=1),
            assistant_model,
            stopping_criteria,
            pad_token_id,
            NEVER_A_TOKEN,
            **model_kwargs,
        )

    HuggingFaceGenerationAdapter._medusa_assisted_decoding = medusa_assisted_decoding
    medusa_utils.TOPK = int(arguments[arguments.index("--global-topk") + 1])
    sys.argv = ["inference_demo", *arguments]
    inference_demo.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
