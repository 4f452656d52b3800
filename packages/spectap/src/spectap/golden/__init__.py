"""Servers that answer by a known schedule."""
