"""Real vLLM on the CPU in place of golden endpoints, with a model pair made for it."""
