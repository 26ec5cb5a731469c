"""Escaping of data for a terminal library that interprets markup."""

from rich.markup import escape

from cutover.output.cells import visible


def literal_text(text: str) -> str:
    """Escape a text so that rich prints it literally, with control characters as escapes."""
    return escape(visible(text))
