"""Variants that run as jobs: what they are to generate, and what is made of what they generated."""
