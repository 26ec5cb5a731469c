"""Runs of batch over sessions, without Spark: each leaves the final ones of all that the log ever held, or says which.

A run plans, folds and publishes as the product does; only the offsets that it reads again come from a list.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.batch import windows
from cutover.batch.context import RunContext
from cutover.batch.read import index, scan
from cutover.batch.read.index import IndexHistory
from cutover.batch.read.scan import AGAIN, FIRST, LAST, SCAN, BatchCut, BatchEnrichment, Staging
from cutover.batch.write.replace import replace_windows
from cutover.definition import Count, Lateness, Pipeline, Sessions, Sum, Topic
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.engine import queries
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.serving.views import is_affected
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema, partial_schema
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.reading.scan import Offsets
from cutover.records.watermark import find_closed_end
from cutover.settings import KafkaSettings, Settings
from tests.support.suite.depth import depth

MINUTE = 60_000_000
GAP = 10 * MINUTE
WINDOW = Sessions("10 minutes")
PIPELINE = Pipeline(
    name="s",
    source=Topic(name="s", schema="k string, at timestamp, v int", event_time="at"),
    key=("k",),
    window=WINDOW,
    measures={"n": Count(), "v": Sum("v")},
    lateness=Lateness(max_ahead="1 hour"),
)
NOBODY = KafkaSettings(
    bootstrap_servers="127.0.0.1:1"
)  # no broker is read: every record was scanned before it was deleted
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Found = dict[tuple[str | None, Interval], tuple[int, int]]  # records, sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    partition: int
    key: str | None
    at: int  # microseconds
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Events before a run: rows arrive, time advances, the log deletes records."""

    rows: tuple[Row, ...]
    watermark: int | None
    earliest: tuple[int, int]  # of how many rows the log forgets all but the last


# Halves of the gap, and a little before and after: rows touch exactly, bridge, fall short. Some hours, for the index.
TIMES = st.integers(-4, 40).flatmap(lambda half: st.integers(-1, 1).map(lambda off: half * GAP // 2 + off))
ROWS = st.builds(
    Row, partition=st.integers(0, 1), key=st.sampled_from([None, "a", "b"]), at=TIMES, value=st.integers(-3, 3)
)
STEPS = st.lists(
    st.tuples(
        st.lists(ROWS, max_size=7).map(tuple),
        st.integers(-2, 12),
        st.sampled_from([0, 0, 0, 0, 3, 6]),
        st.sampled_from([0, 0, 0, 0, 4]),
    ),
    min_size=2,
    max_size=6,
)


@dataclass
class Batch:
    """The batch side of a pipeline, and its log."""

    settings: Settings
    log: tuple[list[Row], list[Row]] = field(default_factory=lambda: ([], []))
    runs: list[BatchRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = queries.open_duckdb()
        self.connection.execute(
            "CREATE TEMP TABLE ranges (scan INTEGER, _partition INTEGER, window_start BIGINT, window_end BIGINT,"
            " first_offset BIGINT, last_offset BIGINT)"
        )
        delta.ensure(PipelineLake(self.settings, PIPELINE).batch_uri(), batch_schema(PIPELINE))

    def run(self, watermark: int | None, earliest: dict[int, int]) -> BatchRun:
        """Do what a run does between its scan and its record."""
        work = self._work(watermark, earliest)
        new = work.new_offsets
        self._bind(SCAN, [new], earliest)
        scan._bind_touched(PIPELINE, self.connection, SCAN, condition="_class = 'accepted'")
        index.add_ranges(self.connection, scan.TOUCHED, work.scan)
        computation = windows.compute_sessions(work, WINDOW, new, lambda _, reads: self._bind(AGAIN, reads, earliest))
        self.connection.execute(f"DROP VIEW {scan.TOUCHED}")
        uri = PipelineLake(self.settings, PIPELINE).batch_uri()
        schema = batch_schema(PIPELINE)
        rows = schema.empty_table()
        if computation.query:
            rows = queries.query_table(self.connection, computation.query).select(schema.names).cast(schema)
        version = replace_windows(delta.open_table(uri), rows, computation.plan.computed, of="r")
        self.runs.append(
            BatchRun(
                run_id=str(len(self.runs)),
                epoch=len(self.runs),
                stream_version=0,
                topic="s",
                topic_id="t",
                cluster_id="c",
                cut=work.target.record.end,
                scanned=new,
                watermark=watermark,
                result_fingerprint="r",
                batch_fingerprint="same",
                isolation="read_committed",
                computed=computation.plan.computed,
                stale=computation.plan.stale,
                incomplete=computation.incomplete,
                batch_version=version,
                open_from=computation.open_from,
            )
        )
        return self.runs[-1]

    def table(self) -> Found:
        delta.relation(self.connection, "now", PipelineLake(self.settings, PIPELINE).batch_uri())
        rows = self.connection.sql("SELECT k, epoch_us(window_start), epoch_us(window_end), n, v FROM now").fetchall()
        assert len({row[:2] for row in rows}) == len(rows)
        return {(k, Interval(start, end)): (n, int(v)) for k, start, end, n, v in rows}

    def _work(self, watermark: int | None, earliest: dict[int, int]) -> RunContext:
        record = EpochRecord(
            epoch=len(self.runs),
            run_id="r",
            topic="s",
            topic_id="t",
            cluster_id="c",
            start={},
            end={p: len(rows) for p, rows in enumerate(self.log)},
            max_event={},
            watermark_before=None,
            watermark_after=watermark,
        )
        version = Version(pipeline="s", result_fingerprint="r", lateness_fingerprint="l", number=0, uri="")
        target = BatchCut(version=version, record=record, newest=record)
        lake = PipelineLake(self.settings, PIPELINE)
        return RunContext(
            lake=lake,
            target=target,
            lookups=BatchEnrichment(lake, target),
            client=LogClient(self.settings),
            earliest=earliest,
            history=IndexHistory(runs=tuple(self.runs)),
            accepted_losses=(),
            staged=Staging(self.connection, str(self.settings.home)),
            run_id="r",
            anew=False,
            requested=None,
            started=EPOCH,
            began=0.0,
        )

    def _bind(self, name: str, reads: Sequence[Offsets], earliest: dict[int, int]) -> None:
        """Bind a view of partial rows, one for each record; what the log has forgotten cannot be read."""
        rows = []
        for spans in reads:
            for partition, (start, end) in spans.items():
                assert start >= earliest[partition]
                rows += [_partial(self.log[partition][offset], offset) for offset in range(start, end)]
        schema = partial_schema(PIPELINE).append(pa.field(FIRST, pa.int64())).append(pa.field(LAST, pa.int64()))
        self.connection.register(name, pa.Table.from_pylist(rows, schema=schema))


def _partial(row: Row, offset: int) -> dict[str, object]:
    start = EPOCH + timedelta(microseconds=row.at)
    return {
        "_class": "accepted",
        "window_start": start,
        "window_end": start + timedelta(microseconds=GAP),
        "k": row.key,
        "n": 1,
        "v": row.value,
        "_n": 1,
        "_partition": row.partition,
        FIRST: offset,
        LAST: offset,
    }


def truth(log: Sequence[Sequence[Row]]) -> Found:
    sessions: Found = {}
    for key in {row.key for rows in log for row in rows}:
        key_rows = [row for rows in log for row in rows if row.key == key]
        for session in merge_intervals(Interval(row.at, row.at + GAP) for row in key_rows):
            session_values = [row.value for row in key_rows if session.start <= row.at <= session.end]
            sessions[key, session] = (len(session_values), sum(session_values))
    return sessions


def select_vouched(batch_run: BatchRun, sessions: Found) -> Found:
    closed_end, spans = (
        find_closed_end(PIPELINE, batch_run.watermark),
        [(e.window_start, e.window_end) for e in batch_run.incomplete],
    )
    return {
        (key, session): value
        for (key, session), value in sessions.items()
        if closed_end is not None and session.end <= closed_end and not is_affected(WINDOW, session, spans)
    }


@pytest.mark.quick
@depth(few=25, many=2000)
@given(steps=STEPS)
def test_each_run_leaves_the_final_sessions_of_all_that_the_log_ever_held(
    steps: list[tuple[tuple[Row, ...], int, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as home:
        batch, watermark, earliest = Batch(Settings(home=Path(home), kafka=NOBODY)), 0, {0: 0, 1: 0}
        for rows, on, *deletions in steps:
            for row in rows:
                batch.log[row.partition].append(row)
            watermark += max(on, 0) * GAP
            batch_run = batch.run(None if on < -1 else watermark, earliest)

            assert select_vouched(batch_run, batch.table()) == select_vouched(batch_run, truth(batch.log))
            for partition, forgotten in enumerate(deletions):  # what every run so far has scanned
                earliest[partition] = min(earliest[partition] + forgotten, len(batch.log[partition]))
