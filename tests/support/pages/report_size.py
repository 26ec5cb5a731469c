"""Size of the largest report and the time to write it: the most that a comparison lists, of 100,000 windows.

    python -m tests.support.pages.report_size docs/report.md

writes what it measured into that page.
"""

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cutover.reconcile.attribution.cells import RECORDS_AT_MOST, ROWS_AT_MOST
from cutover.reconcile.report import page, sections
from cutover.reconcile.report.sections import KEYS_AT_MOST, POINTS_AT_MOST, RUNS_AT_MOST, SAMPLES_AT_MOST
from cutover.reconcile.result.finding import CellStep, Difference, Verdict, WorstKey
from cutover.reconcile.result.measurements import WindowPoint
from cutover.reconcile.result.parts import CalendarDay, RecordBehind
from cutover.reconcile.result.report import Report
from tests.support.history.reconciliations import flights, iso
from tests.support.history.reports import change_report

WINDOWS = 100_000
MEASURES = 6
START = datetime(1950, 1, 1, tzinfo=UTC)
_MARKED = re.compile(r"(<!-- report size -->\n).*?(?=<!-- end of report size -->)", re.DOTALL)


def make_largest(windows: int = WINDOWS, hours: float = 1) -> Report:
    """Return a comparison in which every window differs, with as much of everything as a comparison lists.

    Args:
        windows: How many.
        hours: From the start of one to the start of the next.
    """
    base = flights()
    return change_report(
        base,
        verdict=Verdict.DIVERGED,
        exit_code=1,
        policy=replace(base.finding.policy, within=False, unexplained=windows),
        windows=replace(base.finding.windows, compared=windows, different=windows),
        days=sections.shorten(_days(windows, hours)),
        window_series=tuple(_points(windows, hours)),
        epochs_series=tuple(base.finding.epochs_series[i % 329] for i in range(POINTS_AT_MOST)),
        worst_keys=tuple(WorstKey(key=_key(i), rows=9, measure="m", difference=-1) for i in range(KEYS_AT_MOST)),
        samples=tuple(base.finding.samples[i % len(base.finding.samples)] for i in range(6 * SAMPLES_AT_MOST)),
        trend=tuple(base.trend[i % len(base.trend)] for i in range(RUNS_AT_MOST)),
        differences=tuple(_cells(hours)),
        differences_total=windows * MEASURES,
        behind=tuple(_records(hours)),
    )


def _at(number: int, hours: float) -> str:
    return iso(START + timedelta(hours=hours * number))


def _key(number: int) -> dict[str, str | int | None]:
    return {"customer": f"customer-{number:012}", "region": f"a region with a long name {number % 40}", "desk": None}


def _days(windows: int, hours: float) -> list[CalendarDay]:
    windows_by_day: dict[str, int] = {}
    for number in range(windows):
        day = _at(number, hours)[:10]
        windows_by_day[day] = windows_by_day.get(day, 0) + 1
    return [
        CalendarDay(day=day, windows=many, different=many, causes={"late": many, "unexplained": i % 3})
        for i, (day, many) in enumerate(windows_by_day.items())
    ]


def _points(windows: int, hours: float) -> Iterator[WindowPoint]:
    many = windows // POINTS_AT_MOST
    for number in range(POINTS_AT_MOST):
        start = _at(number * many, hours)
        yield WindowPoint(window_start=start, streaming=number, batch=number + 9, different_rows=many, windows=many)


def _cells(hours: float) -> Iterator[Difference]:
    for row in range(ROWS_AT_MOST):
        for measure in range(MEASURES):
            yield Difference(
                window_start=_at(row * 7, hours),
                key=_key(row),
                measure=f"measure_{measure}",
                kind="changed",
                streaming=1_234_567.25 + row,
                batch=7_654_321.75,
                difference=-6_419_754.5 + row,
                cause="late + unexplained",
                steps=(CellStep(cause="late", before=1, after=2), CellStep(cause="unexplained", before=2, after=3)),
            )


def _records(hours: float) -> Iterator[RecordBehind]:
    for number in range(RECORDS_AT_MOST):
        row = number // (RECORDS_AT_MOST // ROWS_AT_MOST)
        yield RecordBehind(
            window_start=_at(row * 7, hours),
            key=_key(row),
            cause="late",
            partition=number % 12,
            offset=10**9 + number,
            event_time=_at(row * 7, hours),
            epoch=number,
            reason=None,
        )


def measure(windows: int, hours: float) -> tuple[int, float]:
    """Return the bytes of the page, and the seconds that it took to render."""
    result = make_largest(windows, hours)
    began = time.perf_counter()
    html = page.render_page(result)
    return len(html.encode()), time.perf_counter() - began


def _table() -> str:
    cases = [("an hour", WINDOWS, 1.0), ("a day", WINDOWS, 24.0), ("an hour", 36_000, 1.0)]
    lines = ["| windows, all of which differ | each of | page | rendered in |", "|---|---|---|---|"]
    for of, windows, hours in cases:
        size, seconds = measure(windows, hours)
        lines.append(f"| {windows:,} | {of} | {size / 1e6:.2f} MB | {seconds:.1f} s |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measure(1_000, 1)  # templates are compiled once
    file, table = Path(sys.argv[1]), _table()
    file.write_text(_MARKED.sub(lambda match: match[1] + table, file.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(table)
