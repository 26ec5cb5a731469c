"""Part of a table that is read: some of its columns, and the rows of a range of times."""

from collections.abc import Iterator
from dataclasses import dataclass

from cutover.timestamps import format_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Range of a column of dates or timestamps, in microseconds of UTC; rows without a time are outside."""

    column: str
    start: int | None = None  # inclusive
    end: int | None = None  # exclusive

    def list_bounds(self) -> Iterator[tuple[str, str]]:
        """Yield each bound as an operator and a time of SQL without a zone."""
        for operator, bound in ((">=", self.start), ("<", self.end)):
            if bound is not None:
                yield operator, str(format_micros(bound)).removesuffix("Z").replace("T", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Columns and rows that a reader returns; sources that can, leave out the others where they lie."""

    excluded: frozenset[str] = frozenset()  # columns that are not read
    times: TimeRange | None = None


def select_times_sql(column: str, kind: str, times: TimeRange) -> str | None:
    """Return SQL of the engine that is true for rows in a range; None: the column holds no dates or timestamps.

    Args:
        column: SQL of the column.
        kind: Its DuckDB type.
        times: The range.
    """
    if kind != "DATE" and not kind.startswith("TIMESTAMP"):
        return None
    has_zone = kind.startswith("TIMESTAMP WITH TIME ZONE") or kind == "TIMESTAMPTZ"
    value = f"CAST({column} AS TIMESTAMP_NS)" if kind == "TIMESTAMPTZ_NS" else column
    zone, offset = ("TIMESTAMPTZ", "+00") if has_zone else ("TIMESTAMP", "")
    bounds = [f"{value} {operator} {zone} '{time}{offset}'" for operator, time in times.list_bounds()]
    return " AND ".join(bounds or [f"{column} IS NOT NULL"])
