"""Tests of ``rehearsal.offline``."""
