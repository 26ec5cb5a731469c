"""Servers of a test's own: a broker, a browser, a database, what alerts are sent to."""
