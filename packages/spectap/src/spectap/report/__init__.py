"""Reports for people: the HTML page, the terminal's table, the figures."""
