"""What drives the endpoints: llmperf, or the built-in driver."""
