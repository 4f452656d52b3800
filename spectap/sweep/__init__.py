"""A run whose variants are measured apart: the part of each, and the whole made of them."""
