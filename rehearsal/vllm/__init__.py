"""Real vLLM on the CPU in place of the golden endpoints, with a model pair made for it."""
