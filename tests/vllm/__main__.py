"""``python -m tests.vllm [EXPERIMENT]``: a rehearsal with real vLLM on the CPU."""

import sys

from rehearsal.__main__ import main
from tests.vllm.endpoints import VLLM

if __name__ == "__main__":
    sys.exit(main(VLLM))
