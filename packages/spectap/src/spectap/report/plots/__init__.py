"""How each figure is painted. What the report shows is decided in ``page``."""
