"""How each kind of figure is painted. What the report shows is decided in ``figures``."""
