"""Commands of the streaming path: `stream` drives one, `replay` replaces it."""
