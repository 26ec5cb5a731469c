"""Sections of a report other than the verdict: totals, windows over time, lateness, epochs, worst keys, samples.

By day it counts windows compared, windows that differ, and their causes. The trend of comparisons and the first
occurrence of differences come from the history.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import fetch_row
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal import Journal
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal
from cutover.reconcile.attribution.causes import UNEXPLAINED, cause_sql
from cutover.reconcile.comparison import diff, digests
from cutover.reconcile.comparison.column_types import is_number
from cutover.reconcile.comparison.diff import Pair
from cutover.reconcile.comparison.digests import SegmentColumn
from cutover.reconcile.comparison.layout import SharedTable, Value, additive, stage
from cutover.reconcile.comparison.sides import Sides, key_columns
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.result.codec import Scalar, scalar
from cutover.reconcile.result.finding import (
    Apart,
    Difference,
    Finding,
    KeySegment,
    SampleRecord,
    Waterfall,
    WaterfallStep,
    WorstKey,
    place_of,
)
from cutover.reconcile.result.measurements import EpochPoint, LatenessBin, WindowPoint
from cutover.reconcile.result.parts import CalendarDay, DifferenceLife, RunOfTrend
from cutover.reconcile.verdict import lifecycle, records
from cutover.reconcile.verdict.history import HistoryEntry
from cutover.reconcile.verdict.lifecycle import OpenDifference
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.records.watermark import compute_late_margin
from cutover.timestamps import format_micros, parse_duration, to_micros

POINTS_AT_MOST = 1_000
KEYS_AT_MOST = 20
SAMPLES_AT_MOST = 20  # of each class
BIN_EDGES = (0, 5, 15, 30, 60, 120, 240, 480, 960, 1440, 2880, 10080)  # minutes
_MINUTE = 60_000_000
_SECOND = 1_000_000
_MONDAY = 4 * 1440 * _MINUTE  # the first Monday of 1970
_SPANS = [m * _MINUTE for m in (5, 15, 30, 60, 180, 360, 720, 1440, 10_080, 40_320)]

DAYS_AT_MOST = 1_500
"""Maximum number of entries; if there are more days, each entry is a month, and if there are more months, a year."""

_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RUNS_AT_MOST = 60


def compute_waterfalls(sides: Sides, pipeline: Pipeline) -> tuple[Waterfall, ...]:
    """Return the steps from the batch's total to the stream's for each additive measure."""
    return tuple(_waterfall(sides, name) for name in additive(pipeline))


def _waterfall(sides: Sides, measure: str) -> Waterfall:
    i = [value.name for value in sides.layout.values].index(measure)
    last_stage = len(sides.merged)
    value = sides.layout.values[i]
    moves = [(f"__v{n - 1}_{i}", f"__v{n}_{i}") for n in range(1, last_stage + 1)] + [
        (f"__v{last_stage}_{i}", f"__b{i}")
    ]
    shares = [value.total(f"coalesce({previous}, 0) - coalesce({following}, 0)") for previous, following in moves]
    amounts = fetch_row(sides.connection, f"SELECT {', '.join(shares)} FROM {SharedTable.TOUCHED}")
    names = (*map(str, sides.merged), UNEXPLAINED)
    steps = [
        WaterfallStep(cause=name, amount=scalar(amount)) for name, amount in zip(names, amounts, strict=True) if amount
    ]
    batch, streaming = (_total(sides, side, value) for side in (SharedTable.EXPECTED, stage(0)))
    return Waterfall(measure=measure, batch=batch, steps=tuple(steps), streaming=streaming)


def _total(sides: Sides, side: str, value: Value) -> Scalar:
    return scalar(
        fetch_row(sides.connection, f"SELECT {value.total(identifier(value.name))} FROM {identifier(side)}")[0]
    )


def list_window_points(sides: Sides, pipeline: Pipeline) -> tuple[WindowPoint, ...]:
    """Return one point for each compared window; beyond 1,000 windows, one point per round period.

    Periods are hours, days or weeks (from Monday, UTC): a fixed number of windows would drift through the day and
    produce waves in the chart.
    """
    measures = additive(pipeline)
    value = next((value for value in sides.layout.values if value.name in measures[:1]), Value(name=""))
    column = identifier(value.name) if measures else "NULL::BIGINT"
    totals = ", ".join(
        f"{name} AS (SELECT window_start, {value.total(column)} AS total FROM {identifier(side)} GROUP BY 1)"
        for name, side in (("b", SharedTable.EXPECTED), ("s", stage(0)))
    )
    query = f"""
        WITH {totals},
        d AS (SELECT window_start, count(*) AS differing FROM {SharedTable.TOUCHED} GROUP BY 1),
        w AS (SELECT coalesce(b.window_start, s.window_start) AS opens, s.total AS streaming, b.total AS batch
              FROM b FULL JOIN s ON b.window_start = s.window_start),
        n AS (SELECT *, epoch_us(opens) - {_MONDAY} AS micros FROM w LEFT JOIN d ON d.window_start = w.opens),
        span AS (SELECT count(*) AS many, max(micros) - min(micros) AS span FROM n),
        size AS (SELECT CASE WHEN any_value(many) <= {POINTS_AT_MOST} THEN 1
                        ELSE coalesce(min(s) FILTER (span // s < {POINTS_AT_MOST}), {_SPANS[-1]}) END AS size
                 FROM span, unnest({_SPANS}) AS t(s))
        SELECT min(opens), {value.total("streaming")}, {value.total("batch")}, coalesce(sum(differing), 0), count(*)
        FROM n, size GROUP BY micros // size ORDER BY 1
    """
    return tuple(
        WindowPoint(
            window_start=str(scalar(start)),
            streaming=scalar(streaming),
            batch=scalar(batch),
            different_rows=int(rows),
            windows=int(window_count),
        )
        for start, streaming, batch, rows, window_count in sides.connection.execute(query).fetchall()
    )


def bin_lateness(sides: Sides, pipeline: Pipeline) -> tuple[LatenessBin, ...]:
    """Return late (record, window) pairs, binned by the time between the closing of their window and the watermark.

    A followed job that deduplicates drops by the record's own time, so it counts instead of the window's end.
    """
    is_by_row = pipeline.stream is not None and pipeline.source.record_id is not None
    closing = "l.event_time" if is_by_row else "l.window_end"
    query = f"""
        SELECT (w.watermark - epoch_us({closing}) - {compute_late_margin(pipeline)}) / {_MINUTE}
        FROM {SharedTable.LEDGER} l JOIN {SharedTable.EPOCH_WATERMARKS} w ON w.epoch = l._epoch
        WHERE l._class = 'late' AND w.watermark IS NOT NULL
    """
    late = [float(row[0]) for row in sides.connection.execute(query).fetchall()]
    edges = [*BIN_EDGES, find_last_edge(max([*late, BIN_EDGES[-1]]))]
    bins = [
        LatenessBin(from_minutes=low, to_minutes=high, events=sum(low <= minutes < high for minutes in late))
        for low, high in pairwise(edges)
    ]
    filled = [i for i, item in enumerate(bins) if item.events]
    return tuple(bins[: filled[-1] + 1]) if filled else ()


def find_last_edge(minutes: float) -> float:
    """Return the next whole hour behind a lateness: texts print days and hours, so that none is beyond its edge."""
    return (minutes // 60 + 1) * 60


def list_epoch_points(records: Sequence[EpochRecord]) -> tuple[EpochPoint, ...]:
    """Return a point for each epoch; beyond 1,000, one per group of consecutive epochs, with their total records."""
    step = -(-len(records) // POINTS_AT_MOST) or 1
    chunks = [records[i : i + step] for i in range(0, len(records), step)]
    return tuple(_epoch_point(chunk) for chunk in chunks)


def _epoch_point(chunk: Sequence[EpochRecord]) -> EpochPoint:
    record = chunk[-1]
    latest_event = max(record.max_event.values(), default=None)
    has_lag = latest_event is not None and record.watermark_after is not None
    # The final epoch's watermark is after the last window, which is not a lead over event time.
    lag = (latest_event - record.watermark_after) / _SECOND if has_lag and not record.final else None  # type: ignore[operator]  # both known
    return EpochPoint(
        epoch=record.epoch,
        watermark=format_micros(record.watermark_after),
        newest_event=format_micros(latest_event),
        lag=lag,
        records=sum(item.records for item in chunk),
        seconds=round(sum(item.seconds for item in chunk), 3),
    )


def worst_keys(sides: Sides, pipeline: Pipeline) -> tuple[WorstKey, ...]:
    """Return the keys with the most different rows, then the largest difference of the first additive measure."""
    measures = additive(pipeline)
    names = [value.name for value in sides.layout.values]
    i = names.index(measures[0]) if measures else None
    off = "NULL" if i is None else sides.layout.values[i].total(f"coalesce(__v0_{i}, 0) - coalesce(__b{i}, 0)")
    keys = ", ".join(map(identifier, pipeline.key)) or "1"
    query = f"""
        SELECT {keys}, count(*) AS differing, {off} AS off FROM {SharedTable.TOUCHED} GROUP BY ALL
        ORDER BY differing DESC, abs(off) DESC NULLS LAST, {keys} LIMIT {KEYS_AT_MOST}
    """
    return tuple(
        WorstKey(
            key={name: scalar(value) for name, value in zip(pipeline.key, row, strict=False)},
            rows=int(row[-2]),
            measure=measures[0] if measures else None,
            difference=scalar(row[-1]),
        )
        for row in sides.connection.execute(query).fetchall()
    )


def measure_apart(sides: Sides) -> tuple[Apart, ...]:
    """Measure the distance between the stream's values and batch's, over the rows on both sides that differ."""
    kinds = {str(row[0]): str(row[1]) for row in sides.connection.execute(f"DESCRIBE {SharedTable.TOUCHED}").fetchall()}
    pairs = [
        Pair(name=value.name, expected=f"__b{i}", actual=f"__v0_{i}", differs=value.differs(f"__b{i}", f"__v0_{i}"))
        for i, value in enumerate(sides.layout.values)
        if value.is_measure and is_number(kinds[f"__b{i}"])
    ]
    return diff.measure_distances(
        sides.connection, f"(SELECT * FROM {SharedTable.TOUCHED} WHERE _kind = 'changed')", pairs
    )


def find_over_represented(sides: Sides, pipeline: Pipeline) -> tuple[KeySegment, ...]:
    """Return parts of the key, hours and weekdays with more than their share of the rows that differ."""
    keys = ", ".join(map(identifier, sides.layout.keys))
    columns = {name: SegmentColumn(value=identifier(name), all_values=_every(name)) for name in pipeline.key}
    if pipeline.window.reach is not None:
        columns |= digests.window_columns(sides.layout.keys[0], _every(sides.layout.keys[0]))
    different = f"(SELECT {keys} FROM {SharedTable.TOUCHED} WHERE _kind <> 'masked')"
    compared = f"(SELECT count(*) FROM {_every(sides.layout.keys[0])})"
    return digests.find_over_represented_values(sides.connection, columns, different, compared)


def _every(name: str) -> str:
    missing = f"SELECT {identifier(name)}, 1 FROM {SharedTable.TOUCHED} WHERE _kind = 'missing'"
    return digests.every_sql(f"SELECT {identifier(name)}, 1 FROM {stage(0)}", missing)


def list_excluded_records(sides: Sides, pipeline: Pipeline) -> tuple[SampleRecord, ...]:
    """Return the first records of each class that did not count, by partition and offset."""
    order = f"_partition, _offset, {key_columns(sides.layout)}, event_time, reason"
    query = f"""
        SELECT _class, _partition, _offset, event_time, reason, {key_columns(sides.layout)} FROM {SharedTable.LEDGER}
        QUALIFY row_number() OVER (PARTITION BY _class ORDER BY {order}) <= {SAMPLES_AT_MOST}
        ORDER BY _class = 'late' DESC, _class, {order}
    """
    return tuple(
        SampleRecord(
            class_=str(row[0]),
            partition=int(row[1]),
            offset=int(row[2]),
            event_time=None if row[3] is None else str(scalar(row[3])),
            reason=row[4],
            window_start=None if row[5] is None else str(scalar(row[5])),
            key={} if row[5] is None else _key(pipeline, row[6:]),
        )
        for row in sides.connection.execute(query).fetchall()
    )


def _key(pipeline: Pipeline, values: Sequence[object]) -> dict[str, Scalar]:
    return {name: scalar(value) for name, value in zip(pipeline.key, values, strict=True)}


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


def trend(history_entry: HistoryEntry) -> tuple[RunOfTrend, ...]:
    """Return the latest complete comparisons by position, including that of an entry.

    Args:
        history_entry: Entry of a comparison in the history.
    """
    all_lines = [line for line in history_entry.lines if line.covers_all_windows]
    ordered = records.sort_by_position([*all_lines, history_entry.comparison], history_entry.version)[-RUNS_AT_MOST:]
    return tuple(map(_run, ordered))


def _run(recorded_comparison: RecordedComparison) -> RunOfTrend:
    def part(name: str) -> Mapping[str, Any]:
        return recorded_comparison.result.get(name) or {}

    return RunOfTrend(
        run_id=recorded_comparison.run_id,
        at=format_micros(to_micros(recorded_comparison.first_recorded)) or "",
        epoch=recorded_comparison.epoch if recorded_comparison.has_cut else None,
        verdict=recorded_comparison.verdict.value,
        within=bool(part("policy").get("within", True)),
        windows=int(part("windows").get("compared", 0)),
        different=int(part("windows").get("different", 0)),
        rows=sum(int(part("rows").get(kind, 0)) for kind in ("missing", "extra", "changed")),
        unexplained=records.count_unexplained(recorded_comparison),
        late_share=float(part("policy").get("late_share", 0)),
    )


def list_lives(lake: PipelineLake, finding: Finding, history_entry: HistoryEntry) -> tuple[DifferenceLife, ...]:
    """Return the lifetimes of the listed unexplained rows; this comparison counts among the runs that found them.

    Args:
        lake: The pipeline; a version that does not serve has no such history.
        finding: The comparison.
        history_entry: Its entry in the history.

    Raises:
        LakeError: The history cannot be read.
    """
    cells = {place_of(difference): difference for difference in finding.differences if UNEXPLAINED in difference.cause}
    if not cells or not finding.seal.holds or lake.settings.stream_version is not None:
        return ()
    opened = lifecycle.fold_open_differences(lake.settings, lake.name, history_entry.lines, history_entry.version)
    rows = Journal(lake.settings, lake.name, DifferenceEvent).read()
    rows += lifecycle.make_rows(finding, history_entry.comparison, opened, history_entry.newer, history_entry.lines)
    positions = {
        line.run_id: records.compute_line_position(line, history_entry.version)
        for line in (*history_entry.lines, history_entry.comparison)
    }
    settles = parse_duration(lake.pipeline.policy.settles_after, of="policy.settles_after")
    differences = lifecycle.mark_pending(lifecycle.fold_differences(rows, positions), history_entry.comparison, settles)
    return tuple(_make_life(cell, differences[place]) for place, cell in cells.items() if place in differences)


def _make_life(cell: Difference, open_difference: OpenDifference) -> DifferenceLife:
    return DifferenceLife(
        window_start=open_difference.window_start,
        key=cell.key,
        state=open_difference.state.value,
        rule=open_difference.rule,
        first_seen=format_micros(to_micros(open_difference.first_seen)) or "",
        first_run=open_difference.first_run,
        runs=open_difference.runs,
        returned=open_difference.returned,
    )
