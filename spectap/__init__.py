"""Compares speculative LLM servers. Imports nothing of the rest of the project."""
