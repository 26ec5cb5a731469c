"""Accuracy of the stream's results before windows close, by age: those of compared windows, and of windows still open.

For compared windows, an age is the distance from a window's end to the newest event time of the slowest partition. The
result at an age is the fold of the rows accepted by the end of the epoch in which the window reached that age; batch's
result is that of the comparison. A window that reached the next age in the same epoch had no result at this one and is
left out: a replay reads hours at once, and has no early results. The error of a measure is the sum of absolute
differences over the window's keys divided by the sum of batch's values; a missing row counts as 0. After the closing no
result changes, so the curve ends there. Folds of the compactor hide which epoch accepted a row, so that a window is
left out at the ages for which that is unknown.

Batch computes only closed windows, so the open ones are folded here from the log in plain Python: the newest ones, up
to a number of records. They are compared with the results that users see: the newest pane of each row, or without
panes the accepted rows so far. Panes follow a trigger and therefore lag; accepted rows should be equal. The age of an
open window is the event time that has passed since its start.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.triggers import Accumulation
from cutover.definition.windows.window_fn import Interval
from cutover.engine.queries import fetch_number, fetch_row
from cutover.errors import LakeError, LogError
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.read_speed import measure_read_speed
from cutover.lake.serving.views import panes_sql
from cutover.log.kafka import LogClient, RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.attribution import log_rows
from cutover.reconcile.attribution.log_rows import LogReader, Place
from cutover.reconcile.attribution.proof import find_gone_records
from cutover.reconcile.comparison.column_types import is_number
from cutover.reconcile.comparison.layout import SharedTable, same, stage, to_plain
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.early.settlement import (
    AGES,
    FOREVER,
    age_sql,
    find_closing_age,
    find_event_time,
    list_ages,
    select_known_sql,
)
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.measurements import EarlyAnswers, EarlyError, EarlyPoint, OpenAnswers, gather_points
from cutover.reconcile.result.parts import rate
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.records.reference.run import place_records
from cutover.records.watermark import is_closed_sql

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


MOST_RECORDS = 20_000
"""Maximum number of records of open windows that are read and folded: plain Python takes a second for them."""

Values = Mapping[str, Any]
Rows = dict[Place, Values]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWindow:
    """Open window with the error of each measure."""

    start: int  # microseconds
    is_same: bool
    errors: Mapping[str, float]

    @property
    def worst(self) -> float:
        """Return the largest error of any measure."""
        return max(self.errors.values(), default=0.0)


def measure_open_windows(
    lake: PipelineLake,
    evidence: SealEvidence,
    sides: Sides,
    *,
    log: LogReader | None,
    silent: str | None,
) -> OpenAnswers:
    """Measure how accurate the stream's results of open windows are.

    Args:
        lake: Pipeline that is compared.
        evidence: The cut, its batch run and the epoch log.
        sides: Open sides.
        log: Reader of the records; None: the cluster of the settings.
        silent: Reason why the cluster is not available; None: it is.
    """
    pipeline = lake.pipeline
    panes = bool(evidence.records) and evidence.records[-1].panes is not None
    source = "panes" if panes else "aggregates"
    if pipeline.window.merges:
        return _make_unknown(0, source, "Sessions grow and join: an open one is no answer yet.")
    windows, selected = _select_windows(sides, pipeline, evidence.watermark)
    if not windows:
        return _make_unknown(0, source, "No window is open at the cut.")
    if not selected:
        return _make_unknown(windows, source, f"Each holds more than {MOST_RECORDS:,} records.")
    if silent is not None and log is None:
        return _make_unknown(windows, source, silent)
    try:
        truth = _fold_log(lake, evidence, sides, log or LogClient(lake.settings), selected)
    except (LogError, LakeError) as error:
        return _make_unknown(windows, source, str(error).split("\n", maxsplit=1)[0])
    comparisons = _compare(truth, _read_shown(sides, pipeline, evidence, selected, panes=panes), selected)
    event_time = (evidence.watermark or 0) + pipeline.lateness.out_of_orderness_micros
    return OpenAnswers(
        near=NEAR,
        windows=windows,
        looked=len(comparisons),
        shown=source,
        same=sum(comparison.is_same for comparison in comparisons),
        within=rate(sum(comparison.worst <= NEAR for comparison in comparisons), len(comparisons)),
        errors=_summarize(comparisons),
        points=gather_points(
            [(event_time - comparison.start, comparison.is_same, comparison.worst) for comparison in comparisons]
        ),
        unknown=None,
    )


def _make_unknown(windows: int, source: str, reason: str) -> OpenAnswers:
    return OpenAnswers(
        near=NEAR,
        windows=windows,
        looked=0,
        shown=source,
        same=0,
        within=rate(0, 0),
        errors=(),
        points=(),
        unknown=reason,
    )


def _select_windows(sides: Sides, pipeline: Pipeline, watermark: int | None) -> tuple[int, list[Interval]]:
    """Count the open windows, and select the newest with at most `RECORDS` records together, ascending."""
    query = (
        "SELECT epoch_us(window_start), epoch_us(window_end), sum(_n)::BIGINT FROM all_0"
        f" WHERE NOT {is_closed_sql(pipeline, watermark)} GROUP BY 1, 2 ORDER BY 1 DESC, 2 DESC"
    )
    rows = sides.connection.execute(query).fetchall()
    selected, total = list[Interval](), 0
    for start, end, count in rows:
        total += count
        if total > MOST_RECORDS:
            break
        selected.append(Interval(start, end))
    return len(rows), selected[::-1]


def _fold_log(
    lake: PipelineLake,
    evidence: SealEvidence,
    sides: Sides,
    log: LogReader,
    intervals: Sequence[Interval],
) -> Rows:
    """Fold the records up to the cut into the rows that batch would have of some windows.

    Raises:
        LogError: No broker answers, the topic was replaced by another log, or records have left it.
        LakeError: The index of the batch path cannot be read.
    """
    pipeline = lake.pipeline
    run = evidence.run
    description, earliest = log.describe(run.topic), log.earliest(run.topic)
    if (description.cluster_id, description.topic_id) != (run.cluster_id, run.topic_id):
        msg = f"Topic `{run.topic}` was replaced by another log."
        raise LogError(msg)
    rejoin = Rejoin(lake)
    dimensions = rejoin.at(rejoin.collect_recorded(evidence.records))
    stretches = sorted({pipeline.window.event_range(interval) for interval in intervals})
    raw: dict[tuple[int, int], RawRecord] = {}
    for portion in log_rows.list_read_portions(lake, sides.connection, run, stretches):
        missing = find_gone_records(portion, earliest, run.topic)
        if missing is not None:
            raise LogError(missing)
        raw |= {
            (record.partition, record.offset): record
            for record in log_rows.read_portion(log, pipeline, run, portion, stretches)
        }
    placed_records = list(place_records(pipeline, [raw[at] for at in sorted(raw)], dimensions))
    bounds = {(interval.start, interval.end) for interval in intervals}
    places = {Place(Interval(*record.group[:2]), tuple(map(to_plain, record.group[2]))) for record in placed_records}
    selected = [place for place in places if (place.interval.start, place.interval.end) in bounds]
    claims_by_place = log_rows.fold_places(pipeline, placed_records, {}, selected, ())
    return {
        place: {name: to_plain(value) for name, value in row.measures.items()}
        for place, claim in claims_by_place.items()
        for row in claim.batch.values()
    }


def _read_shown(
    sides: Sides, pipeline: Pipeline, evidence: SealEvidence, intervals: Sequence[Interval], *, panes: bool
) -> Rows:
    """Read the rows of some windows that users see."""
    relation = _make_panes(sides, pipeline, evidence) if panes else "all_0"
    starts = ", ".join(str(interval.start) for interval in intervals)
    names = ", ".join(map(identifier, (*pipeline.key, *pipeline.measures)))
    query = (
        f"SELECT epoch_us(window_start), epoch_us(window_end), {names} FROM {relation} AS shown"
        f" WHERE epoch_us(window_start) IN ({starts})"
    )
    rows, keys = Rows(), len(pipeline.key)
    for start, end, *values in sides.connection.execute(query).fetchall():
        place = Place(Interval(start, end), tuple(map(to_plain, values[:keys])))
        rows[place] = dict(zip(pipeline.measures, map(to_plain, values[keys:]), strict=True))
    return rows


def _make_panes(sides: Sides, pipeline: Pipeline, evidence: SealEvidence) -> str:
    """Return SQL for the rows of the panes: the newest pane of each row, or their sum if panes are discarding."""
    evidence.epoch_log.panes(sides.connection, "open_panes", epoch=evidence.run.epoch)
    if pipeline.accumulation is Accumulation.DISCARDING:
        rows = f"(SELECT * REPLACE ('{Class.ACCEPTED}' AS _class) FROM open_panes WHERE _class <> 'dropped')"
        return f"({finish_sql(pipeline, rows)})"
    rows = "(SELECT * FROM open_panes WHERE _class NOT IN ('dropped', 'retraction'))"
    keys = ", ".join(map(identifier, ("window_start", "window_end", *pipeline.key)))
    newest = f"row_number() OVER (PARTITION BY {keys} ORDER BY _epoch DESC, _order DESC) = 1"
    return f"(SELECT * FROM ({panes_sql(pipeline, rows)}) AS panes QUALIFY {newest})"


def _compare(truth: Rows, rows: Rows, intervals: Sequence[Interval]) -> list[OpenWindow]:
    places: dict[Interval, list[Place]] = {interval: [] for interval in intervals}
    for place in truth.keys() | rows.keys():
        places.setdefault(place.interval, []).append(place)
    return [_compare_window(window, places[window], truth, rows) for window in intervals]


def _compare_window(window: Interval, places: Sequence[Place], truth: Rows, rows: Rows) -> OpenWindow:
    names = next((list(side[place]) for place in places for side in (truth, rows) if place in side), [])
    is_same = all(
        place in truth and place in rows and all(same(truth[place][name], rows[place][name]) for name in names)
        for place in places
    )
    errors = {}
    for name in names:
        pairs = [(_number(truth.get(place, {}).get(name)), _number(rows.get(place, {}).get(name))) for place in places]
        deviation = math.fsum(abs(actual - expected) for expected, actual in pairs)
        magnitude = math.fsum(abs(expected) for expected, _ in pairs)
        errors[name] = deviation / magnitude if magnitude else float(deviation > 0)
    return OpenWindow(start=window.start, is_same=is_same, errors=errors)


def _number(value: Any) -> float:
    """Convert a value to a float; a missing value, or one that is not a number, becomes 0."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _summarize(open_windows: Sequence[OpenWindow]) -> tuple[EarlyError, ...]:
    names = dict.fromkeys(name for open_window in open_windows for name in open_window.errors)
    summaries = []
    for name in names:
        errors = sorted(open_window.errors.get(name, 0.0) for open_window in open_windows)
        p50, p90, p99 = (errors[max(0, math.ceil(share * len(errors)) - 1)] for share in SHARES)
        summaries.append(EarlyError(measure=name, p50=p50, p90=p90, p99=p99, largest=errors[-1]))
    return tuple(summaries)
