"""A chart and the table behind it: the same data twice, for those who see shapes and for those who read."""

from dataclasses import dataclass

from markupsafe import Markup

UNEXPLAINED = "unexplained"
KNOWN = (UNEXPLAINED, "late", "future", "duplicate", "malformed", "dimension")
"""Causes with a separate colour, the worst first; a cause that is none of them is drawn as `other`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTable:
    """Data of a chart as words and numbers for readers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1  # leading columns that hold words or times; the others hold numbers
    omission: str = ""  # what the rows leave out, in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture and its table."""

    picture: Markup
    table: ChartTable


def tone(cause: str) -> str:
    """Return the class of the style sheet for a cause; a text from data never becomes one."""
    return f"cause-{cause if cause in KNOWN else 'other'}"
