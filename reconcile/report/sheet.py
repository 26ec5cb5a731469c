"""The differences as a CSV sheet: a text that a spreadsheet would take for a formula begins with an apostrophe."""

import csv
import io
import unicodedata
from collections.abc import Iterator

from reconcile.codec import Scalar
from reconcile.report.text import visible
from reconcile.result import Difference, Reconciliation

_FORMULA = ("=", "+", "-", "\N{MINUS SIGN}", "@")
_FIRST = ("\t", "\r", "\n")


def cell(value: Scalar) -> str:
    """Return a value as a cell: numbers as they are, texts made harmless, null empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    return f"'{visible(value)}" if _would_run(value) else visible(value)


def _would_run(text: str) -> bool:
    """Return whether a spreadsheet may take a text for a formula.

    Programs differ in what they leave aside first: blanks, control characters, marks without width, a byte order mark.
    A sign may come in its wide, small or raised form.
    """
    bare = text.lstrip("".join({c for c in text if c.isspace() or unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}}))
    return text.startswith(_FIRST) or unicodedata.normalize("NFKC", bare[:1]).startswith(_FORMULA)


def differences(result: Reconciliation) -> str:
    """Return the report's differences as CSV: window, key columns, measure, both values, difference, row, cause.

    Where the report lists some of them only, the last line says of how many.
    """
    if not result.differences:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [cell(name) for name in result.differences[0].key]
    sides = [cell(result.sides.expected), cell(result.sides.actual)]
    columns = ["window_start", *keys, "measure", *sides, "difference", "row", "cause"]
    writer.writerow(columns)
    writer.writerows(list(_cells(one)) for one in result.differences)
    listed = len(result.differences)
    if listed < result.differences_total:
        said = f"cut here: {listed:,} of {result.differences_total:,} differing cells are listed"
        writer.writerow([said, *("" for _ in columns[1:])])
    return text.getvalue()


def _cells(one: Difference) -> Iterator[str]:
    for value in (one.window_start, *one.key.values(), one.measure):
        yield cell(value)
    for value in (one.batch, one.streaming, one.difference, one.kind, one.cause):
        yield cell(value)
