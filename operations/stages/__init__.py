"""``make experiment``: from the file to the verdict, one stage after another."""
