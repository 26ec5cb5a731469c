"""Comparison by day: windows compared, windows that differ, and their causes."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from cutover.quoting import literal
from cutover.reconcile.attribution.causes import UNEXPLAINED, cause_sql
from cutover.reconcile.comparison.shared_tables import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.result.overview import CalendarDay

DAYS_AT_MOST = 1_500
"""Maximum number of entries; if there are more days, each entry is a month, and if there are more months, a year."""

_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def calendar(sides: Sides) -> tuple[CalendarDay, ...]:
    """Return the days on which compared windows start, in order; needs `touched`.

    Args:
        sides: Open sides for which `causes.find_causes` has run.
    """
    day = f"epoch_us(window_start) // {_DAY}"
    both = f"(SELECT window_start FROM {SharedTable.EXPECTED} UNION SELECT window_start FROM {stage(0)})"
    query = f"""
        WITH w AS (SELECT {day} AS d, count(DISTINCT window_start) AS many FROM {both} b
              WHERE window_start IS NOT NULL GROUP BY 1),
        t AS (SELECT {day} AS d, count(DISTINCT window_start) AS different FROM {SharedTable.TOUCHED} GROUP BY 1)
        SELECT w.d, many, coalesce(different, 0) FROM w LEFT JOIN t ON w.d = t.d ORDER BY 1
    """
    causes = _causes(sides)
    days = [
        CalendarDay(day=_format_day(d), windows=int(window_count), different=int(different), causes=causes.get(d, {}))
        for d, window_count, different in sides.connection.execute(query).fetchall()
    ]
    return shorten(days)


def _causes(sides: Sides) -> dict[int, dict[str, int]]:
    """Count rows by day and cause; a class without rows has no entry."""
    conditions = {str(name): cause_sql(sides, name) for name in sides.merged} | {UNEXPLAINED: "t._explained = 0"}
    rows_by_day: dict[int, dict[str, int]] = {}
    for name, condition in conditions.items():
        query = f"""
            SELECT epoch_us(window_start) // {_DAY} AS d, {literal(name)}, count(*)
            FROM {SharedTable.TOUCHED} t WHERE {condition} AND window_start IS NOT NULL GROUP BY 1 ORDER BY 1
        """
        for day, cause, rows in sides.connection.execute(query).fetchall():
            rows_by_day.setdefault(day, {})[cause] = int(rows)
    return rows_by_day


def _format_day(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).date().isoformat()


def shorten(days: Iterable[CalendarDay], limit: int = DAYS_AT_MOST) -> tuple[CalendarDay, ...]:
    """Merge days into months, or months into years, if there are more entries than a limit."""
    entries = tuple(days)
    for length in (len("2013-02"), len("2013")):
        if len(entries) > limit:
            entries = _merge_days(entries, length)
    return entries


def _merge_days(days: Iterable[CalendarDay], length: int) -> tuple[CalendarDay, ...]:
    """Add up the days whose texts start with the same prefix."""
    merged: dict[str, CalendarDay] = {}
    for day in days:
        period = day.day[:length]
        subtotal = merged.get(period, CalendarDay(day=period, windows=0, different=0, causes={}))
        merged[period] = replace(
            subtotal,
            windows=subtotal.windows + day.windows,
            different=subtotal.different + day.different,
            causes=dict(Counter(subtotal.causes) + Counter(day.causes)),
        )
    return tuple(merged.values())
