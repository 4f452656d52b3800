"""Tests of spectap/tap/proxy."""
