"""Loading of definitions from files.

`catalogue` loads definitions. `encoding` stores a definition as JSON; `key_text` formats and parses keys.
"""
