"""What ``python -m spectap`` can be told to do, one module a command."""
