"""How a golden endpoint goes wrong when a test says so."""

from enum import Enum


class Fault(Enum):
    """Ways to fail, of all requests."""

    TOO_MANY = 429
