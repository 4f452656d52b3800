"""Estimates, intervals and tests: arithmetic that knows no cells."""
