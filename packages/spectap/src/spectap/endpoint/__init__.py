"""What is asked of a server besides the load: health, models, counters, greedy answers."""
