"""Table of what `from_json` makes of each JSON token, by type, as the documentation shows it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.timestamps import from_micros

KINDS = ("boolean", "bigint", "double", "decimal(10,2)", "string", "date", "timestamp")
TOKENS = (
    "12", "-0.0", "1.5", "1.005", "1e2", "123456789", "1772409600", "1e400", "NaN", '"NaN"', "true", '"true"', '"12"',
    '"12.34"', '"1,234.5"', '" 12"', '""', '"abc"', "'abc'", '{"a": 1.10}', "[1, 2]", '"2026"', '"2026-3-2"',
    '"2026-03-02 01:02"', '"2026-03-02T01:02:03.5"', '"2026-03-02T01:02:03+8:00"', '"2026-03-02 01:02:03 Europe/Paris"',
    '"2026-03-02T01:02:03 UTC+8"', '"2026-03-02T24:00:00"', '"12:30"', '"9999-12-31"',
)  # fmt: skip

PIPELINE = Pipeline(
    name="p",
    source=Topic(
        name="t",
        schema=", ".join(f"c{place} {kind}" for place, kind in enumerate(KINDS)) + ", event timestamp",
        event_time="event",
        parse="from_json",
    ),
    key=("c4",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)

Parsed = tuple[str | None, dict[str, Any]]
"""Reason and values of a record."""


def render_table(parse_all: Callable[[Sequence[bytes]], Sequence[Parsed]]) -> str:
    """Return the table in Markdown, of what a parser makes of one record for each token and type."""
    records = [
        f'{{"event":"2026-03-02","c{place}":{token}}}'.encode() for token in TOKENS for place in range(len(KINDS))
    ]
    parsed = iter(parse_all(records))
    lines = [f"| in the JSON | {' | '.join(f'`{kind}`' for kind in KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for token in TOKENS:
        cells = [_format_cell(*next(parsed), f"c{place}") for place in range(len(KINDS))]
        lines.append(f"| `{token}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _format_cell(reason: str | None, values: dict[str, Any], name: str) -> str:
    if reason is not None:
        return "malformed"
    value = values[name]
    if value is None:
        return "null"
    if name == f"c{KINDS.index('timestamp')}":
        moment = value if isinstance(value, datetime) else from_micros(value)
        return moment.replace(tzinfo=None).isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    return (f"`{value}`" if value else "empty") if isinstance(value, str) else str(value)
