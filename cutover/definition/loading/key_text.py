"""Keys as people type them, at a terminal and in files: values separated by commas, as in CSV."""

import re

from cutover.errors import DefinitionError

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(?=,|$)', re.DOTALL)


def split_key(text: str) -> list[str | None]:
    """Split a key into its values; `null` is null, `"null"` a text.

    Raises:
        DefinitionError: A quote is left open, or text stands beside one.
    """
    found: list[str | None] = []
    at = -1
    while at < len(text):
        match = _FIELD.match(text, at + 1)
        if match is None:
            msg = f"KEY: expected values separated by commas, one with a comma or a quote in quotes, got `{text[:80]}`."
            raise DefinitionError(msg + '\nHint: as CSV has it: `a,"b,c"`; `null` is null, `"null"` a text.')
        quoted, plain = match.groups()
        found.append(quoted.replace('""', '"') if quoted is not None else None if plain == "null" else plain)
        at = match.end()
    return found
