"""Tests of benchmark/tap/proxy."""
