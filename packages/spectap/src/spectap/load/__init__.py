"""Load generators: llmperf, and the built-in driver."""
