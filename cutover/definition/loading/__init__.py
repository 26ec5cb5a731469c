"""Loading of definitions and acceptance rules from files.

`catalogue` loads definitions, `acceptance_files` acceptance rules. `encoding` stores a definition as JSON; `key_text`
formats and parses keys.
"""
