"""Commands of an installation, and their output on a terminal."""
