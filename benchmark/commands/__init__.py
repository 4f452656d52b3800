"""What ``python -m benchmark`` can be told to do, one module a command."""
