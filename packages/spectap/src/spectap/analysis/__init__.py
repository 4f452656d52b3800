"""From the ledger to percentiles, intervals, verdicts and the cross-check."""
