"""The embedded AWS of tests: it notes what it is asked, denies what it shall, knows an account."""
