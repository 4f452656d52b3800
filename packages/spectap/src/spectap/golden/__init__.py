"""Endpoints that answer by a schedule known beforehand."""
