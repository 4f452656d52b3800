"""Requests to a server other than the load: health, models, counters, greedy answers."""
