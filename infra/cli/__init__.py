"""Commands of an installation: `installation`, and `rehearsals` for demonstrations and drills."""
