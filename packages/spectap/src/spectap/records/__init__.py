"""What a run keeps: one record a request, and the answers."""
