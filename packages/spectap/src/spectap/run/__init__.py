"""Measures: which turns, in which order, and the folder that keeps them."""
