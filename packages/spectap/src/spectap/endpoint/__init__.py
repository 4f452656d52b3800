"""Requests to a server besides the load: health, models, counters, greedy answers."""
