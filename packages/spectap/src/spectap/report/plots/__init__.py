"""Paints each figure. ``page`` decides which are shown."""
