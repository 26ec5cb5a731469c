"""Loading of definitions from files.

`catalogue` loads definitions; `key_text` formats and parses keys.
"""
