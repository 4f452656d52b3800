"""From what was measured to what to serve: acceptance, cost of a step, prospects, advice."""
