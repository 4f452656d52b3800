"""The embedded AWS of tests."""
