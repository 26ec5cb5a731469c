"""The ids that a stream remembers: committed with each epoch, and looked up in tables of this process that follow them.

What is committed is the truth: one row of kind `ids` for each event minute of an epoch, with the ids and event times
that it was the first to show. The tables here are a cache of it, rebuilt at a start. They are cut by event time, so
that a look reads the stretches that an epoch touches, and to forget is to drop a table; the latest ids are in a small
one next to them until distributing them pays off.

Measured: docs/adr/0017-ids-of-records.md.
"""

# ruff: noqa: S608 -- constant names and numbers

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from cutover.definition.model.pipeline import (
    MINUTE,
    Pipeline,
    compute_id_horizon,
    compute_oldest_remembered,
    truncate_to_minute,
)
from cutover.engine import queries
from cutover.events import log
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import RowKind, epoch_log_schema, id_type, map_arrow_type_to_duckdb
from cutover.pipeline_lake import PipelineLake

STRETCHES = 64  # into which the horizon is cut, minutes at least
RECENT = 100_000  # ids that wait to be dealt out


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupResult:
    """Duplicates and new ids among an epoch's candidate records."""

    twins: pa.Table  # `partition int`, `offset bigint` of the records that duplicate an earlier one
    new: pa.Table  # `id`, `event_time bigint` (microseconds) of new ids, by event time
    conflicts: int  # of these, number whose id has another event time, in the stretches touched


class DedupState:
    """Ids that one driver remembers."""

    def __init__(self, lake: PipelineLake) -> None:
        self._pipeline = lake.pipeline
        bounds = queries.Bounds(memory=lake.settings.stream.ids_memory, home=lake.settings.home)
        self._connection = queries.open_duckdb(bounds)
        self._connection.execute("SET preserve_insertion_order = false")
        self._width = max(1, -(-compute_id_horizon(lake.pipeline) // (STRETCHES * MINUTE))) * MINUTE
        self._stretches: set[int] = set()  # their starts, microseconds; table `seen_<n>` of each
        self._columns = f"id {map_arrow_type_to_duckdb(id_type(lake.pipeline))}, event_time BIGINT"
        self._begin_recent()

    def begin(self, table: DeltaTable, watermark: int | None) -> None:
        """Take in what an epoch log holds and what is not forgotten at a watermark."""
        delta.bind(self._connection, "log", table, kinds=(RowKind.IDS,))
        remembered = compute_oldest_remembered(self._pipeline, watermark)
        minute = None if remembered is None else truncate_to_minute(remembered)
        time_condition = "" if minute is None else f"WHERE epoch_us(window_start) >= {minute}"
        query = f"SELECT unnest(_ids, recursive := true) FROM log {time_condition}"
        with delta.naming(table):
            self._connection.execute(f"INSERT INTO recent SELECT id, epoch_us(event_time) FROM ({query})")
        self._connection.execute("DROP VIEW log")
        self._flush()

    def find_twins(self, candidates: pa.Table) -> LookupResult:
        """Find twins among records and those that are remembered; of several of one epoch the lowest position is first.

        Args:
            candidates: What `duplicates.select_candidates` returns.
        """
        self._connection.register("given", candidates)
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE looked AS SELECT *, "
            'row_number() OVER (PARTITION BY id, event_time ORDER BY partition, "offset") > 1 AS again FROM given'
        )
        self._connection.unregister("given")
        seen_ids = self._query_seen_ids(candidates["event_time"].to_numpy())
        # Only remembered rows with an id of this epoch are joined: the epoch is the small side.
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE known AS FROM ({seen_ids}) SEMI JOIN looked USING (id)")
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE flagged AS SELECT looked.*, again OR k.id IS NOT NULL AS is_twin "
            "FROM looked LEFT JOIN (SELECT id, event_time FROM known) k USING (id, event_time)"
        )
        twins = 'SELECT partition, "offset" FROM flagged WHERE is_twin'
        new = "SELECT id, event_time FROM flagged WHERE NOT is_twin ORDER BY event_time"
        return LookupResult(
            twins=queries.query_table(self._connection, twins),
            new=queries.query_table(self._connection, new),
            conflicts=self._conflicts(),
        )

    def remember(self, new: pa.Table, watermark: int | None) -> None:
        """Take in what an epoch has shown, once it is committed, and forget what its watermark has passed."""
        if new.num_rows:
            self._connection.register("given", new)
            self._connection.execute("INSERT INTO recent SELECT id, event_time FROM given")
            self._connection.unregister("given")
            self._waiting += new.num_rows
        if self._waiting > RECENT:
            self._flush()
        remembered = compute_oldest_remembered(self._pipeline, watermark)
        if remembered is not None:
            self._forget(remembered)

    @property
    def held(self) -> int:
        """Return how many ids are remembered."""
        names = [*(self._name(start) for start in sorted(self._stretches)), "recent"]
        counts = " + ".join(f"(SELECT count(*) FROM {name})" for name in names)
        (id_count,) = self._connection.execute(f"SELECT {counts}").fetchall()[0]
        return int(id_count)

    def _conflicts(self) -> int:
        query = """
            SELECT count(*) - count(DISTINCT id) + count(DISTINCT id) FILTER (id IN (SELECT id FROM known))
            FROM flagged WHERE NOT is_twin
        """
        (duplicate_count,) = self._connection.execute(query).fetchall()[0]
        return int(duplicate_count)

    def _query_seen_ids(self, times: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> str:
        """Return the query of what is remembered of the stretches that hold some times, and of what waits."""
        touched = self._stretches.intersection((np.unique(times // self._width) * self._width).tolist())
        names = [*(self._name(start) for start in sorted(touched)), "recent"]
        return " UNION ALL ".join(f"SELECT id, event_time FROM {name}" for name in names)

    def _flush(self) -> None:
        """Put what waits into the tables of its stretches."""
        floor = f"(event_time - (event_time % {self._width} + {self._width}) % {self._width})"
        starts = self._connection.execute(f"SELECT DISTINCT {floor} FROM recent").fetchall()
        for (start,) in starts:
            name = self._name(start)
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({self._columns})")
            is_inside = f"event_time >= {start} AND event_time < {start + self._width}"
            self._connection.execute(f"INSERT INTO {name} SELECT id, event_time FROM recent WHERE {is_inside}")
            self._stretches.add(start)
        self._begin_recent()

    def _begin_recent(self) -> None:
        self._connection.execute(f"CREATE OR REPLACE TABLE recent ({self._columns})")
        self._waiting = 0

    def _forget(self, remembered: int) -> None:
        expired = {start for start in self._stretches if start + self._width <= remembered}
        for start in expired:
            self._connection.execute(f"DROP TABLE {self._name(start)}")
        self._stretches -= expired
        if expired:
            log.info("ids_forgotten", pipeline=self._pipeline.name, before=remembered, held=self.held)

    def _name(self, start: int) -> str:
        return f'"seen_{start // self._width}"'


def make_id_rows(new: pa.Table, pipeline: Pipeline, epoch: int) -> pa.Table:
    """Return the rows of an epoch log that hold what an epoch was the first to show, one for each event minute.

    Args:
        new: `id`, `event_time bigint`, by event time.
        pipeline: The definition.
        epoch: Its number.
    """
    schema = epoch_log_schema(pipeline)
    if not new.num_rows:
        return schema.empty_table()
    times = new["event_time"].combine_chunks().cast(pa.int64())
    minutes, starts = np.unique(truncate_to_minute(times.to_numpy()), return_index=True)
    kind = schema.field("_ids").type.value_type
    ids = new["id"].combine_chunks().cast(id_type(pipeline))
    pairs = pa.StructArray.from_arrays([ids, times.cast(kind.field("event_time").type)], fields=list(kind))
    bounds = pa.array([*starts.tolist(), new.num_rows], pa.int32())
    own_columns = {
        "_kind": pa.array([RowKind.IDS.value] * len(minutes)),
        "_epoch": pa.array([epoch] * len(minutes), pa.int64()),
        "window_start": pa.array(minutes, pa.int64()).cast(schema.field("window_start").type),
        "_ids": pa.ListArray.from_arrays(bounds, pairs),
    }
    columns = [own_columns.get(field.name, pa.nulls(len(minutes), field.type)) for field in schema]
    return pa.table(columns, schema=schema)
