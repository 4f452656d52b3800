"""What a person looks at: the HTML page, the terminal's table, the figures."""
