"""``make status``: how an experiment stands, on one screen."""
