"""How advice is shown: in words, in tables, in a terminal, on the page and in figures."""
