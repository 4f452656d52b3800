"""What a run is given: its configuration, loads, prompts and published figures."""
