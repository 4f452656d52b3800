"""Tests of what jobs generate."""
