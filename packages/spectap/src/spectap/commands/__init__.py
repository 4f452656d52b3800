"""The commands of spectap: each is a function whose docstring is its help."""
