"""Tests of benchmark/proxy."""
