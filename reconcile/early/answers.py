"""Accuracy of the stream's early results, from its partial aggregates up to an age of a window.

A window's age is the distance from its end to the newest event time of the slowest partition. Its result at an age is
the fold of the rows accepted by the end of the epoch in which it reached that age; batch's result is that of the
comparison. A window that reached the next age in the same epoch had no result at this one and is left out: a replay
reads hours at once, and has no early results.

The error of a measure is the sum of absolute differences over the window's keys divided by the sum of batch's values;
a missing row counts as 0. After the closing no result changes, so the curve ends there.

Folds of the compactor hide which epoch accepted a row. A window is left out at the ages for which that is unknown.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Sequence

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import fetch_number, fetch_row
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.read_speed import measure_read_speed
from cutover.quoting import identifier
from cutover.reconcile.comparison.column_types import is_number
from cutover.reconcile.comparison.layout import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.measurements import EarlyAnswers, EarlyError, EarlyPoint
from cutover.reconcile.result.parts import rate
from cutover.reconcile.verdict.settlement import (
    AGES,
    FOREVER,
    age_sql,
    find_closing_age,
    find_event_time,
    list_ages,
    select_known_sql,
)
from cutover.records.classes import Class
from cutover.records.fold import finish_sql

NEAR = 0.04
"""Largest error of any measure of a window at which its result counts as near batch's."""

LEAST, MOST, MOST_ROWS = 20, 1_000, 30_000
"""Bounds of the newest windows that are measured: at least, at most, and up to these rows of both sides.

If the minimum number of windows has more rows, keys are sampled by a hash.
"""

_MINUTE = 60_000_000
SHARES = (0.5, 0.9, 0.99)


def measure_early_answers(sides: Sides, pipeline: Pipeline, evidence: SealEvidence) -> EarlyAnswers | None:
    """Measure the errors by age; None if no window was compared.

    Args:
        sides: Open sides, with the tables of `ages`.
        pipeline: The definition.
        evidence: The epochs up to the cut.
    """
    if pipeline.window.merges:
        return EarlyAnswers(
            near=NEAR, windows=0, one_of=1, points=(), unknown="Sessions grow and join: none has an age."
        )
    if not _list_measures(sides):
        return EarlyAnswers(near=NEAR, windows=0, one_of=1, points=(), unknown="No measure is a number.")
    windows, one_of = _make_windows(sides)
    if not windows:
        return None
    keys = _list_keys(pipeline, one_of)
    _make_cells(sides, pipeline, keys)
    _make_rows(sides, keys)
    closes = find_closing_age(pipeline)
    ages = [*list_ages(closes), closes]
    ages_reached = find_event_time(pipeline, evidence.records)
    points = []
    for age, next_age in zip(ages, (*ages[1:], FOREVER), strict=True):
        # The final epoch of a version closes windows at an age that they never reached in event time.
        if _make_known(sides, age, next_age, ages_reached if age < closes else FOREVER):
            points.append(_measure_age(sides, pipeline, age, is_open=age < closes))
    known_points = tuple(point for point in points if point is not None)
    reason = None if any(point.is_open for point in known_points) or closes <= AGES[0] else _explain(evidence.records)
    speed = measure_read_speed(evidence.records)
    return EarlyAnswers(
        near=NEAR,
        windows=windows,
        one_of=one_of,
        points=known_points,
        unknown=reason,
        is_replay=speed.is_replay,
        read_speed=speed.speed,
    )


def _explain(records: Sequence[EpochRecord]) -> str:
    """Explain why no window had a result between its end and its closing."""
    if sum(bool(record.records) for record in records) <= 1:
        return "All records were read in one epoch: nothing was shown before it."
    return "No epoch ended while a window was that young, or compaction has folded those that did."


def _list_measures(sides: Sides) -> list[str]:
    """List the numeric columns: measures, and the number of records if batch has it."""
    kinds = {str(row[0]): str(row[1]) for row in sides.connection.execute(f"DESCRIBE {stage(0)}").fetchall()}
    names = [value.name for value in sides.layout.values if value.is_measure and is_number(kinds[value.name])]
    return [*names, *(["_n"] if sides.same_definition else [])]


def _make_windows(sides: Sides) -> tuple[int, int]:
    """Create `early_windows`; return their number, and the number of keys per sampled key."""
    either = " UNION ALL ".join(
        f"SELECT window_start, window_end FROM {table}" for table in (SharedTable.EXPECTED, stage(0))
    )
    row_counts = f"SELECT window_start, window_end, count(*) AS __rows FROM ({either}) GROUP BY ALL"
    newest_first = "OVER (ORDER BY window_start DESC, window_end DESC)"
    sides.connection.execute(
        f"CREATE TEMP TABLE early_windows AS SELECT window_start, window_end, __rows FROM ({row_counts})"
        f" QUALIFY row_number() {newest_first} <= {LEAST} OR row_number() {newest_first} <= {MOST}"
        f" AND sum(__rows) {newest_first} - __rows < {MOST_ROWS}"
    )
    windows, rows = fetch_row(sides.connection, "SELECT count(*), coalesce(sum(__rows), 0) FROM early_windows")
    return int(windows), max(1, -(-int(rows) // MOST_ROWS))


def _list_keys(pipeline: Pipeline, one_of: int) -> str:
    """Return the SQL condition that a row's key is sampled: by its hash, so both sides sample the same keys."""
    if one_of == 1:
        return "true"
    return f"hash({', '.join(map(identifier, pipeline.key))}) % {one_of} = 0"


def _make_cells(sides: Sides, pipeline: Pipeline, sampled: str) -> None:
    """Create `early_cells`: window, key, and for each measure batch's value `__b` and the stream's final one `__s`."""
    keys = [identifier(name) for name in ("window_start", *pipeline.key)]
    same_key = " AND ".join(f"b.{key} IS NOT DISTINCT FROM s.{key}" for key in keys)
    names = (f"coalesce(b.{key}, s.{key}) AS {key}" for key in keys)
    values = (
        f"{_double(f'b.{identifier(name)}')} AS __b{i}, {_double(f's.{identifier(name)}')} AS __s{i}"
        for i, name in enumerate(_list_measures(sides))
    )
    condition = f"WHERE window_start IN (SELECT window_start FROM early_windows) AND {sampled}"
    sides.connection.execute(
        f"CREATE TEMP TABLE early_cells AS SELECT {', '.join((*names, *values))}"
        f" FROM (SELECT * FROM {SharedTable.EXPECTED} {condition}) b"
        f" FULL JOIN (SELECT * FROM {stage(0)} {condition}) s ON {same_key}"
    )


def _double(column: str) -> str:
    """Return SQL that casts a number to a double; a missing value, or one that is not a number, becomes 0."""
    return f"CASE WHEN isfinite({column}::DOUBLE) THEN {column}::DOUBLE ELSE 0 END"


def _make_rows(sides: Sides, sampled: str) -> None:
    """Create `early_rows`: accepted partial rows of the windows, with the ages `__low` to `__high` of their epochs."""
    end = "epoch_us(r.window_end)"
    low, high = (age_sql(name, end) for name in ("e.__first", "e.__last"))
    sides.connection.execute(
        f"CREATE TEMP TABLE early_rows AS SELECT r.*, {low} AS __low, {high} AS __high"
        f" FROM {SharedTable.STREAM_LOG} r JOIN {SharedTable.EPOCH_REACHED} e ON e.__epoch = r._epoch"
        f" WHERE r._class = '{Class.ACCEPTED}' AND r.window_start IN (SELECT window_start FROM early_windows)"
        f" AND {sampled}"
    )


def _make_known(sides: Sides, age: int, next_age: int, age_reached: int) -> bool:
    """Create `early_known`: the windows that had a result at an age, if that result is known.

    Returns:
        True if there are any.
    """
    query = select_known_sql("early_windows", "early_rows", age, next_age, age_reached)
    sides.connection.execute(f"CREATE OR REPLACE TEMP TABLE early_known AS {query}")
    return fetch_number(sides.connection, "SELECT count(*) FROM early_known") > 0


def _measure_age(sides: Sides, pipeline: Pipeline, age: int, *, is_open: bool) -> EarlyPoint | None:
    """Measure the errors of windows that reached an age; None if no result at that age is known."""
    keys = [identifier(name) for name in ("window_start", *pipeline.key)]
    names, same_key = ", ".join(keys), " AND ".join(f"m.{key} IS NOT DISTINCT FROM r.{key}" for key in keys)
    connection, measures = sides.connection, _list_measures(sides)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE early_moved AS SELECT DISTINCT {names} FROM early_rows WHERE __high >= {age}"
    )
    rows = f"(SELECT r.* FROM early_rows r SEMI JOIN early_moved m ON {same_key} WHERE r.__high < {age})"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE early_shown AS {finish_sql(pipeline, rows)}")
    off = ", ".join(_error_sql(i, f"f.{identifier(name)}") for i, name in enumerate(measures))
    joined = " AND ".join(f"f.{key} IS NOT DISTINCT FROM r.{key}" for key in keys)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE early_errors AS SELECT r.window_start, {off} FROM early_cells r"
        f" LEFT JOIN early_moved m ON {same_key} LEFT JOIN early_shown f ON {joined}"
        f" WHERE r.window_start IN (SELECT window_start FROM early_known) GROUP BY r.window_start"
    )
    worst = f"greatest({', '.join(f'__e{i}' for i in range(len(measures)))})"
    of, near = fetch_row(connection, f"SELECT count(*), count(*) FILTER ({worst} <= {NEAR}) FROM early_errors")
    errors = tuple(_error(sides, name, i) for i, name in enumerate(measures)) if of else ()
    return EarlyPoint(minutes=age / _MINUTE, is_open=is_open, within=rate(near, of), errors=errors) if of else None


def _error_sql(place: int, column: str) -> str:
    """Return SQL for the error of a measure over the rows of a window."""
    value = f"CASE WHEN m.window_start IS NULL THEN r.__s{place} ELSE {_double(column)} END"
    deviation = f"sum(abs({value} - r.__b{place}) ORDER BY abs({value} - r.__b{place}))"
    magnitude = f"sum(abs(r.__b{place}) ORDER BY abs(r.__b{place}))"
    return (
        f"CASE WHEN {deviation} = 0 THEN 0 WHEN {magnitude} = 0 THEN 1 ELSE {deviation} / {magnitude} END AS __e{place}"
    )


def _error(sides: Sides, name: str, place: int) -> EarlyError:
    column = f"__e{place}"
    quantiles, largest = fetch_row(
        sides.connection, f"SELECT quantile_disc({column}, {list(SHARES)}), max({column}) FROM early_errors"
    )
    p50, p90, p99 = map(float, quantiles)
    return EarlyError(measure="records" if name == "_n" else name, p50=p50, p90=p90, p99=p99, largest=float(largest))
