"""The table of metrics in `docs/metrics.md`, written from the list of families."""

import sys
from collections.abc import Iterator
from pathlib import Path

from cutover.metrics import FAMILIES

BEGIN, END = "<!-- metrics: written by tests/support/pages/metric_table.py -->\n", "<!-- end -->\n"


def table() -> str:
    """Return the rows of all families."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield "| name | kind | labels | meaning |\n|---|---|---|---|\n"
    for name, family in FAMILIES.items():
        yield f"| `{name}` | {family.kind} | {', '.join(family.labels)} | {family.text} |\n"


def replace_table(text: str) -> str:
    """Return a page with the current table."""
    head, tail = text.split(BEGIN)
    return head + BEGIN + table() + END + tail.split(END, 1)[1]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(replace_table(page.read_text(encoding="utf-8")), encoding="utf-8")
