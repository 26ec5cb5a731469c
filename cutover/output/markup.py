"""Texts of data on a terminal that reads markup: they are shown as they stand, and move nothing."""

from rich.markup import escape

from cutover.output.cells import visible


def literal_text(text: str) -> str:
    """Return a text that rich prints to the letter: no markup in it, control characters as their escapes."""
    return escape(visible(text))
