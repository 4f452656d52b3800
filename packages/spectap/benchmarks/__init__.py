"""Measurements that take longer than tests may; each prints its figures."""
