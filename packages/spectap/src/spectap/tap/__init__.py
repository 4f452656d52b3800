"""A transparent proxy that records when each token passed: a ledger line for each request."""
