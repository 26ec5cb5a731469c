"""Sides of a comparison: what is known of each path at a cut, and both as tables of one DuckDB connection.

A pipeline that runs on Cutover's own paths has two sides: the epoch log of the stream, and the table of the batch path.
The seal has proven before that both stand at the same offsets of one log.

Tables: `batch_side`; `stage_0` (accepted rows folded, as the stream serves them), `stage_1` (with late rows merged);
if batch is a team's SQL, `stage_2` (with future rows merged); and if records have ids, a last one (with duplicates
merged), which is computed from the log if both sides have the same definition (`proof`). All contain only windows that
are compared: closed at the cut, covered by batch, in the requested range; for sessions, complete components.
`stream_log` is the epoch log up to the cut.

Of records with one id (twins), batch counts the lowest log position, the stream the one that it read first. A late row
may be a duplicate for batch, because the stream had forgotten its id, so batch has its own ledger of duplicates:
- `batch_twins`: partial rows that batch marks as duplicates, as of the last run that computed their windows;
- `left_out`: late rows of the stream (`__partition`, `__offset`, `window_start`) among them: batch counts their twins;
- `swapped`: partial rows that only one of the sides counts.
A swap is accepted only if it is balanced among twins (same window, event time and id): a record that batch counts and
the stream marks as a duplicate has a twin that the stream counted or marked as late, and a record that only the stream
counted has one that batch counts instead: a duplicate for the stream, or a late row of a minute whose ids it had
forgotten. Any other swap remains an unexplained difference. Its effect on a row is read from the log (`proof`).
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline, SameDefinition
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.engine.queries import fetch_number
from cutover.lake import batch_runs
from cutover.lake.batch_runs import EXPIRED, LOST, BatchRun, Range
from cutover.lake.control.losses import find_touched_windows
from cutover.lake.epochs.delivery import DOUBLED
from cutover.lake.serving.views import is_affected, is_affected_sql
from cutover.lake.tables import delta, schemas
from cutover.lake.tables.schemas import batch_ledger_schema, make_arrow_schema
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison import digests
from cutover.reconcile.comparison.digests import MEMBERS
from cutover.reconcile.comparison.layout import (
    Layout,
    SharedTable,
    make_pipeline_layout,
    stage,
)
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.records.watermark import find_closed_end, is_closed_sql
from cutover.timestamps import to_micros

SWAPPED, LEFT_OUT = "swapped", "left_out"
TRUTH = "stream_truth"
"""View of the stream's rows without the late ones that batch marks as duplicates."""

_PLACE = (
    '_positions[1].partition AS __partition, _positions[1]."offset" AS __offset, '
    "_positions[1].event_time AS __event, _positions[1].id AS __id"
)
_SAME = "a.__partition = b.__partition AND a.__offset = b.__offset AND a.window_start = b.window_start"
_OF = "OVER (PARTITION BY window_start, __event, __id)"
_SWAPPED = f"""
    CREATE TEMP TABLE {SWAPPED} AS SELECT * EXCLUDE (_side) FROM (
        SELECT a.*, 'put in' AS _side FROM stream_twins a WHERE NOT EXISTS (SELECT 1 FROM batch_twins b WHERE {_SAME})
        UNION ALL BY NAME
        SELECT a.*, CASE WHEN EXISTS (SELECT 1 FROM left_out b WHERE {_SAME}) THEN 'left out' ELSE 'taken out' END
        AS _side FROM batch_twins a WHERE NOT EXISTS (SELECT 1 FROM stream_twins b WHERE {_SAME})
        UNION ALL BY NAME SELECT window_start, __event, __id, 'merged' AS _side FROM late_rows a
        WHERE NOT EXISTS (SELECT 1 FROM left_out b WHERE {_SAME})
    ) QUALIFY _side IN ('put in', 'taken out')
    AND count(*) FILTER (_side = 'put in') {_OF} <= count(*) FILTER (_side IN ('taken out', 'left out')) {_OF}
    AND count(*) FILTER (_side = 'taken out') {_OF} <= count(*) FILTER (_side IN ('put in', 'merged')) {_OF}
"""


def keeps_twins(pipeline: Pipeline) -> bool:
    """Return whether batch has a ledger of twins; a team's SQL has none."""
    return pipeline.source.record_id is not None and isinstance(pipeline.batch, SameDefinition)


def create_duplicate_tables(connection: duckdb.DuckDBPyConnection, lake: PipelineLake, run: BatchRun) -> None:
    """Create the tables, and the view `stream_truth`, from `stream_log`.

    Args:
        connection: Has `stream_log`.
        lake: A pipeline with a record id.
        run: The compared batch run.

    Raises:
        LakeError: Batch's ledger cannot be read.
    """
    _bind_batch(connection, lake, run)
    connection.execute(
        f"CREATE TEMP TABLE stream_twins AS SELECT *, {_PLACE} FROM {SharedTable.STREAM_LOG}"
        f" WHERE _class = '{Class.DUPLICATE}'"
    )
    late = f"SELECT window_start, {_PLACE} FROM {SharedTable.STREAM_LOG} WHERE _class = '{Class.LATE}'"
    connection.execute(f"CREATE TEMP TABLE late_rows AS {late}")
    connection.execute(f"CREATE TEMP TABLE left_out AS SELECT a.* FROM late_rows a SEMI JOIN batch_twins b ON {_SAME}")
    make_swapped(connection)
    positioned = f"SELECT *, {_PLACE} FROM {SharedTable.STREAM_LOG}"
    is_left_out = f"_class = '{Class.LATE}' AND EXISTS (SELECT 1 FROM left_out b WHERE {_SAME})"
    connection.execute(f"CREATE TEMP VIEW {TRUTH} AS SELECT * FROM ({positioned}) a WHERE NOT ({is_left_out})")


def make_swapped(connection: duckdb.DuckDBPyConnection) -> None:
    """Create `swapped` from `stream_twins`, `batch_twins`, `late_rows` and `left_out`."""
    connection.execute(_SWAPPED)


def _bind_batch(connection: duckdb.DuckDBPyConnection, lake: PipelineLake, run: BatchRun) -> None:
    """Create `batch_twins`; the rows of a window that count are those of the last run that computed it."""
    if run.ledger_version is None:
        connection.register("batch_ledger_all", batch_ledger_schema(lake.pipeline).empty_table())
    else:
        uri = lake.batch_uri("batch_ledger")
        delta.relation(connection, "batch_ledger_all", uri, version=run.ledger_version)
    all_runs = batch_runs.read_effective_runs(lake)
    runs = all_runs[: [batch_run.run_id for batch_run in all_runs].index(run.run_id) + 1]
    spans = [
        {"turn": turn, "run": batch_run.run_id, "first": start, "last": end}
        for turn, batch_run in enumerate(runs)
        for start, end in batch_run.computed
    ]
    kinds = make_arrow_schema({"turn": pa.int64(), "run": pa.string(), "first": pa.int64(), "last": pa.int64()})
    connection.register("batch_spans", pa.Table.from_pylist(spans, schema=kinds))
    connection.execute(
        f"CREATE TEMP TABLE batch_twins AS WITH found AS (SELECT *, {_PLACE} FROM batch_ledger_all"
        f" WHERE _class = '{Class.DUPLICATE}'), newest AS (SELECT window_start, max_by(run, turn) AS run FROM"
        " (SELECT DISTINCT window_start, window_end FROM found) JOIN batch_spans"
        " ON epoch_us(window_start) >= first AND epoch_us(window_end) <= last GROUP BY window_start)"
        " SELECT found.* FROM found JOIN newest USING (window_start) WHERE _run = run"
    )


STALE = "stale"  # changed since batch computed it
UNREAD = "unread"  # has records that had left the log before this version of the stream started
REASONS = (LOST, DOUBLED, EXPIRED, UNREAD, STALE)
"""Reasons for which a window is not compared; the first one that applies counts."""

MERGE_ORDER = (Class.LATE, Class.FUTURE, Class.DUPLICATE)
"""Classes of records that one side may leave out and the other count, in the order in which they are merged."""


class Side(Protocol):
    """One path at a cut of the log."""

    @property
    def excluded(self) -> frozenset[Class]:
        """Classes of records that the rows leave out."""

    def create_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the relation of the side's rows: window, key, measures and their states."""

    def list_incomplete_ranges(self) -> Mapping[str, Sequence[Range]]:
        """Map reasons to the ranges of event time in which rows may lack records, microseconds."""

    def is_final(self, interval: Interval) -> bool:
        """Return whether the path will not change a window's rows for records that it reads later."""

    def is_final_sql(self) -> str:
        """Return SQL over `window_start` and `window_end` that is true for windows whose rows are final."""


@dataclass(frozen=True, slots=True)
class StreamSide:
    """The streaming path: its epoch log up to the cut, as the relation `stream_log`."""

    pipeline: Pipeline
    evidence: SealEvidence

    @property
    def excluded(self) -> frozenset[Class]:
        """Records that came after their window had closed, that are ahead of the clock, or that came before."""
        return frozenset(MERGE_ORDER if self.pipeline.source.record_id is not None else MERGE_ORDER[:2])

    def create_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the relation of partial rows and ledger; `finish_sql` folds it."""
        self.evidence.epoch_log.relation(connection, SharedTable.STREAM_LOG, epoch=self.evidence.run.epoch)

    def list_incomplete_ranges(self) -> Mapping[str, Sequence[Range]]:
        """Return accepted losses, faults of delivery, and what had left the log before the stream started."""
        evidence = self.evidence
        touched = find_touched_windows(evidence.losses)
        lost_ranges = [(start, self.pipeline.window.last_end_before(end)) for start, end in touched]
        return {
            LOST: (*lost_ranges, *evidence.delivered.lost_windows),
            DOUBLED: evidence.delivered.doubled_windows,
            UNREAD: evidence.unread,
        }

    def is_final(self, interval: Interval) -> bool:
        """Return whether the watermark at the cut has closed a window."""
        closed_end = find_closed_end(self.pipeline, self.evidence.watermark)
        return closed_end is not None and interval.end <= closed_end

    def is_final_sql(self) -> str:
        """Return SQL that is true for windows that the watermark at the cut has closed."""
        return is_closed_sql(self.pipeline, self.evidence.watermark)


@dataclass(frozen=True, slots=True)
class BatchSide:
    """The batch path: its table as a run left it, as the relation `batch_table`."""

    pipeline: Pipeline
    evidence: SealEvidence

    @property
    def excluded(self) -> frozenset[Class]:
        """With the stream's definition, what it leaves out besides late records; a team's SQL leaves out nothing."""
        if isinstance(self.pipeline.batch, SameDefinition):
            return frozenset((Class.FUTURE, Class.DUPLICATE))
        return frozenset()

    def create_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the relation of the table's rows."""
        delta.bind(connection, "batch_table", self.evidence.batch)

    def list_incomplete_ranges(self) -> Mapping[str, Sequence[Range]]:
        """Return what the run recorded as incomplete, and windows that changed since it computed them.

        An entry may span many windows: all those before the oldest record that the log still has.
        """
        run = self.evidence.run
        incomplete = {
            reason: [(entry.window_start, entry.window_end) for entry in run.incomplete if entry.reason == reason]
            for reason in (LOST, EXPIRED)
        }
        return {**incomplete, STALE: run.stale}

    def is_final(self, interval: Interval) -> bool:  # noqa: ARG002 -- the same for every window
        """Return True: a run computes a window from all of its records up to the cut."""
        return True

    def is_final_sql(self) -> str:
        """Regard every window as final."""
        return "true"


def list_incomplete_ranges(sides: Sequence[Side]) -> dict[str, list[Range]]:
    """Return the ranges that are not compared, by reason, in the order of `REASONS`."""
    by_side = [side.list_incomplete_ranges() for side in sides]
    return {reason: [span for ranges in by_side for span in ranges.get(reason, ())] for reason in REASONS}


def list_merged_classes(judged: Side, trusted: Side) -> Iterator[Class]:
    """Yield the classes that the judged side leaves out and the trusted side counts, in the order of `MERGE_ORDER`."""
    return (name for name in MERGE_ORDER if name in judged.excluded and name not in trusted.excluded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Open comparison of one pipeline."""

    connection: duckdb.DuckDBPyConnection
    layout: Layout
    merged: tuple[str, ...]  # classes, and perhaps DIMENSION, that stages 1, 2, ... merge, in the documented order
    same_definition: bool
    has_twin_tables: bool  # the tables of `duplicates` exist
    open_windows: int
    incomplete: Mapping[str, int]  # reason -> closed windows that are not compared
    skipped_ranges: tuple[Range, ...]  # microseconds; differences in their windows keep their state
    is_compared: str  # SQL over `window_start` and `window_end`; of sessions it holds for components

    @property
    def incomplete_windows(self) -> int:
        """Count the closed windows that are not compared, for any reason."""
        return sum(self.incomplete.values())


@contextmanager
def open_sides(
    lake: PipelineLake,
    evidence: SealEvidence,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[Sides]:
    """Open both sides for window starts in `[start, end)`; they are closed when the context exits."""
    pipeline = lake.pipeline
    with queries.open_duckdb(queries.make_reader_limits(lake.settings)) as connection:
        stream, batch = own_sides = open_own_sides(pipeline, evidence)
        for side in own_sides:
            side.create_rows(connection)
        same_definition = isinstance(pipeline.batch, SameDefinition)
        merged = tuple(list_merged_classes(stream, batch))
        if keeps_twins(pipeline):
            create_duplicate_tables(connection, lake, evidence.run)
        incomplete_ranges = list_incomplete_ranges(own_sides)
        in_range, is_final = _within(start, end), " AND ".join(f"({side.is_final_sql()})" for side in own_sides)
        is_uncovered = is_affected_sql(pipeline.window, _flatten(incomplete_ranges))
        is_compared = f"{in_range} AND {is_final} AND NOT ({is_uncovered})"
        for stage_number in range(len(merged) + 1):
            _fold(connection, pipeline, (Class.ACCEPTED, *merged[:stage_number]), stage_number)
        _choose(connection, pipeline, len(merged) + 1, is_compared)
        types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {stage(0)}").fetchall()}
        yield Sides(
            connection=connection,
            layout=make_pipeline_layout(types, pipeline, same_definition=same_definition),
            merged=merged,
            same_definition=same_definition,
            has_twin_tables=keeps_twins(pipeline),
            open_windows=_count(connection, f"{in_range} AND NOT ({is_final})"),
            incomplete=_count_incomplete(connection, pipeline, incomplete_ranges, f"{in_range} AND {is_final}"),
            skipped_ranges=_find_skipped_ranges(connection, pipeline, incomplete_ranges, is_compared),
            is_compared=is_compared,
        )


def _choose(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, stages: int, is_compared: str) -> None:
    """Create both sides of the compared windows, and `windows`: all windows, or for sessions all components."""
    sides = {SharedTable.EXPECTED: "batch_table"} | {
        stage(stage_number): f"all_{stage_number}" for stage_number in range(stages)
    }
    if pipeline.window.merges:
        digests.create_members(connection, pipeline, list(sides.values()))
        connection.execute(
            f"CREATE TEMP VIEW {SharedTable.WINDOWS} AS SELECT DISTINCT window_start, window_end FROM {MEMBERS}"
        )
        for name, side in sides.items():
            selected = digests.select_judged_sql(pipeline, side, is_compared)
            connection.execute(f"CREATE TEMP TABLE {name} AS {selected}")
        return
    connection.execute(
        f"CREATE TEMP VIEW {SharedTable.WINDOWS} AS SELECT window_start, window_end FROM all_1"
        " UNION SELECT window_start, window_end FROM batch_table"
    )
    for name, side in sides.items():
        kind = "TABLE" if name == SharedTable.EXPECTED else "VIEW"
        connection.execute(f"CREATE TEMP {kind} {name} AS SELECT * FROM {side} WHERE {is_compared}")


def _fold(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, classes: tuple[Class, ...], number: int) -> None:
    """Create one stage: rows of all `classes` folded as if they were accepted; only the first stage folds all rows."""
    try:
        if number:
            _fold_further(connection, pipeline, classes, number)
        else:
            connection.execute(f"CREATE TEMP TABLE all_0 AS {finish_sql(pipeline, 'stream_log', keep=classes)}")
    except duckdb.Error as error:
        raise schemas.find_overflow(connection, pipeline, SharedTable.STREAM_LOG, classes, error) or error from error


def _fold_further(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, classes: tuple[Class, ...], number: int
) -> None:
    """Fold again only windows in which the last class has rows: few are late, and a complete fold is expensive."""
    changed_keys, previous = f"moved_{number}", f"all_{number - 1}"
    source = f"stream_log WHERE _class = {literal(classes[-1])}"
    # A late row may join sessions before and after it, so all sessions of its key are folded again.
    window_columns = () if pipeline.window.merges else ("window_start",)
    keys = [identifier(name) for name in (*window_columns, *pipeline.key)]
    connection.execute(f"CREATE TEMP TABLE {changed_keys} AS SELECT DISTINCT {', '.join(keys)} FROM {source}")
    if not has_changed_rows(connection, number):
        connection.execute(f"CREATE TEMP VIEW all_{number} AS SELECT * FROM {previous}")
        return
    same_key = " AND ".join(f"m.{k} IS NOT DISTINCT FROM r.{k}" for k in keys)
    log = TRUTH if keeps_twins(pipeline) else SharedTable.STREAM_LOG
    rows = f"(SELECT * FROM {log} r WHERE EXISTS (SELECT 1 FROM {changed_keys} m WHERE {same_key}))"
    unchanged = f"SELECT * FROM {previous} r WHERE NOT EXISTS (SELECT 1 FROM {changed_keys} m WHERE {same_key})"
    refolded = finish_sql(pipeline, rows, keep=classes)
    connection.execute(f"CREATE TEMP TABLE all_{number} AS {unchanged} UNION ALL {refolded}")


def has_changed_rows(connection: duckdb.DuckDBPyConnection, stage_number: int) -> bool:
    """Return whether a stage differs from the previous one."""
    return fetch_number(connection, f"SELECT count(*) FROM moved_{stage_number}") > 0


def _within(start: datetime | None, end: datetime | None) -> str:
    lower = f"window_start >= {_timestamp(start)}" if start else "true"
    upper = f"window_start < {_timestamp(end)}" if end else "true"
    return f"({lower} AND {upper})"


def _timestamp(moment: datetime) -> str:
    return f"make_timestamptz({to_micros(moment)})"


def open_own_sides(pipeline: Pipeline, evidence: SealEvidence) -> tuple[StreamSide, BatchSide]:
    """Return the side that is judged, and the one that it is expected to equal."""
    return StreamSide(pipeline, evidence), BatchSide(pipeline, evidence)


def state_of(pipeline: Pipeline, evidence: SealEvidence, interval: Interval) -> str:
    """Return the state of a window (for sessions: of a component) at the cut.

    The state is `closed` (the only one that is compared), `open` or `incomplete(reason)`.
    """
    own_sides = open_own_sides(pipeline, evidence)
    is_final = all(side.is_final(interval) for side in own_sides)
    for reason, ranges in list_incomplete_ranges(own_sides).items():
        if (is_final or reason == LOST) and is_affected(pipeline.window, interval, ranges):
            return f"incomplete({reason})"
    return "closed" if is_final else "open"


def _flatten(ranges_by_reason: Mapping[str, Sequence[Range]]) -> tuple[Range, ...]:
    return tuple(span for ranges in ranges_by_reason.values() for span in ranges)


def _find_skipped_ranges(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    incomplete_ranges: Mapping[str, Sequence[Range]],
    is_compared: str,
) -> tuple[Range, ...]:
    """Return the ranges whose differences keep their state: those not compared; for sessions their actual extent."""
    if not pipeline.window.merges:
        return _flatten(incomplete_ranges)
    bounds = "epoch_us(window_start), epoch_us(window_end) + 1"
    query = f"SELECT {bounds} FROM {SharedTable.WINDOWS} WHERE NOT ({is_compared}) ORDER BY 1, 2"
    return tuple((start, end) for start, end in connection.execute(query).fetchall())


def _count_incomplete(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    incomplete_ranges: Mapping[str, Sequence[Range]],
    condition: str,
) -> dict[str, int]:
    """Count the windows that are not compared, by the first reason that applies."""
    counts, has_earlier_reason = {}, "false"
    for reason, ranges in incomplete_ranges.items():
        is_in_ranges = is_affected_sql(pipeline.window, ranges)
        count = _count(connection, f"{condition} AND ({is_in_ranges}) AND NOT ({has_earlier_reason})")
        has_earlier_reason = f"{has_earlier_reason} OR {is_in_ranges}"
        if count:
            counts[reason] = count
    return counts


def _count(connection: duckdb.DuckDBPyConnection, condition: str) -> int:
    return fetch_number(connection, f"SELECT count(*) FROM {SharedTable.WINDOWS} WHERE {condition}")


def key_columns(layout: Layout) -> str:
    """Return the key columns, quoted, as a list for SQL."""
    return ", ".join(map(identifier, layout.keys))
