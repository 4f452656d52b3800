"""In place of neuronx-distributed 2.26."""
