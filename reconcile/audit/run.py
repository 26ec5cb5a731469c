"""Replays of a log in several ways, compared: accepted and late records together must give the same result.

A plan is a pure function of a seed: each replay ends its epochs elsewhere, distributes the records of an epoch over
another number of tasks, in another order, and folds the result. Which records are late depends on where epochs end, and
is reported separately. Of records with the same id and event time the same one counts in all replays.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from cutover.engine import queries
from cutover.engine.spark import session
from cutover.errors import LogError
from cutover.lake.control import versions
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import partial_schema
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.audit import blame
from cutover.reconcile.audit.blame import BlamedMeasure
from cutover.records import classify
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.fold import finish_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from cutover.records.reading.scan import Offsets, read_records
from cutover.records.watermark import Observation, WatermarkState, advance_watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST_EPOCHS = 6
MOST_TASKS = 7

MERGED_CLASSES = (Class.ACCEPTED, Class.LATE)
_NEWEST_COLUMN = "_newest_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One way through a log."""

    number: int
    epochs: tuple[Offsets, ...]  # in order; together every offset once
    tasks: int  # that the records of an epoch are dealt out to
    seed: int  # of the dealing


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedReplay:
    """One replay, compared with the first one."""

    replay: int
    epochs: int
    tasks: int
    late: int  # (record, window) pairs
    blamed: tuple[BlamedMeasure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeterminismAudit:
    """Result of an audit of determinism."""

    pipeline: str
    records: int  # offsets replayed
    rows: int  # (window, key) rows compared
    seed: int
    replays: tuple[AuditedReplay, ...]

    @property
    def exit_code(self) -> int:
        """Return 0: all replays agree, doubles within their tolerance; 1: one does not."""
        return int(any(not blamed.within_tolerance for replay in self.replays for blamed in replay.blamed))


def whole(span: Offsets) -> Replay:
    """Return the replay in one epoch that all others are compared with."""
    return Replay(number=0, epochs=(span,), tasks=1, seed=0)


def draw_batch_replay(span: Offsets, number: int, seed: int) -> Replay:
    """Draw a replay in one epoch, as batch reads, whose records are dealt out to other tasks.

    Args:
        span: As for `draw_replay`.
        number: Of the replay.
        seed: As for `draw_replay`.
    """
    draw = random.Random(f"{seed}/{number}/batch")  # noqa: S311 -- no secret
    return Replay(number=number, epochs=(span,), tasks=draw.randint(2, MOST_TASKS), seed=draw.randint(0, 2**31))


def draw_replay(span: Offsets, number: int, seed: int) -> Replay:
    """Draw a replay of offsets.

    Args:
        span: Partition -> `[from, to)`, none of them empty.
        number: Of the replay, from 1.
        seed: The same seed and number draw the same replay.
    """
    draw = random.Random(f"{seed}/{number}")  # noqa: S311 -- no secret
    count = draw.randint(2, MOST_EPOCHS)
    borders = {p: sorted(draw.randint(start, end) for _ in range(count - 1)) for p, (start, end) in span.items()}
    epochs = (_epoch(span, borders, turn) for turn in range(count))
    return Replay(
        number=number,
        epochs=tuple(epoch for epoch in epochs if epoch),
        tasks=draw.randint(1, MOST_TASKS),
        seed=draw.randint(0, 2**31),
    )


def _epoch(span: Offsets, borders: Mapping[int, list[int]], turn: int) -> Offsets:
    ends = {p: (start, *borders[p], end) for p, (start, end) in span.items()}
    return {p: (at[turn], at[turn + 1]) for p, at in ends.items() if at[turn] < at[turn + 1]}


def audit_determinism(lake: PipelineLake, *, replays: int, seed: int, repartitions: int = 0) -> DeterminismAudit:
    """Replay what the log holds now.

    Args:
        lake: The pipeline; its settings bound the memory of a comparison.
        replays: How many, in addition to the one that they are compared with.
        seed: Draws them.
        repartitions: Further ones, each in one epoch as batch reads, with other tasks.

    Raises:
        LogError: The topic is not there, or holds no record.
    """
    span = _span(lake)
    spark = session(lake.settings, app=f"cutover audit {lake.name}")
    with queries.open_duckdb(queries.make_reader_limits(lake.settings)) as connection:
        replayed = _Replayed(
            lake=lake,
            span=span,
            spark=spark,
            connection=connection,
            rejoin=Rejoin(lake),
            records=_records(lake),
            duplicates=_duplicates(lake, span, spark),
        )
        replayed.make(whole(span))
        (rows,) = connection.execute("SELECT count(*) FROM answer_0").fetchall()[0]
        drawn_replays = [draw_replay(span, number, seed) for number in range(1, replays + 1)]
        drawn_replays += [draw_batch_replay(span, replays + number, seed) for number in range(1, repartitions + 1)]
        audited_replays = [replayed.compare_replay(replay) for replay in drawn_replays]
    lost_records.check_log_of_version(lake)
    offsets = sum(end - start for start, end in span.values())
    return DeterminismAudit(
        pipeline=lake.name, records=offsets, rows=int(rows), seed=seed, replays=tuple(audited_replays)
    )


def _records(lake: PipelineLake) -> Sequence[EpochRecord]:
    """Return the epochs that say with which version of a dimension a record is joined; none without lookups."""
    version = versions.find_current_version(lake) if lake.pipeline.lookups else None
    return () if version is None or not delta.exists(version.uri) else EpochLog(version.uri).records()


def _span(lake: PipelineLake) -> Offsets:
    client, topic = LogClient(lake.settings), name_log(lake.pipeline)
    earliest, latest = client.earliest(topic), client.latest(topic, lake.pipeline.source.isolation)
    span = {p: (earliest[p], end) for p, end in latest.items() if earliest[p] < end}
    if not span:
        msg = f"Topic {topic}: expected records to replay, it holds none."
        raise LogError(msg)
    return span


def _duplicates(lake: PipelineLake, span: Offsets, spark: "SparkSession") -> pa.Table:
    """Return the records of which a twin counts; the same in every replay, since the answer does not depend on it."""
    if lake.pipeline.source.record_id is None:
        fields = [pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
        return pa.schema(fields).empty_table()
    rows = classify.mark_duplicates(parse_records(read_records(spark, lake, (span,)), lake.pipeline), lake.pipeline)
    found = rows.where(classify.IS_TWIN).selectExpr("_partition AS partition", "_offset AS offset")
    return found.toArrow()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replayed:
    """Replays whose answers are stored in tables `answer_<number>`."""

    lake: PipelineLake
    span: Offsets
    spark: "SparkSession"
    connection: duckdb.DuckDBPyConnection
    rejoin: Rejoin
    records: Sequence[EpochRecord]
    duplicates: pa.Table  # `partition`, `offset` of records with an id that do not count, as batch has it

    def make(self, replay: Replay) -> int:
        """Make the answer of a replay and return how many (record, window) pairs it judged late."""
        state, partials = WatermarkState(), []
        for offsets in replay.epochs:
            rows = self._epoch(replay, offsets, state.watermark)
            state = self._advance_watermark(state, offsets, rows)
            partials.append(rows)
        everything = pa.concat_tables(partials)
        self.connection.register("replayed", everything)
        answer = finish_sql(self.lake.pipeline, "replayed", keep=MERGED_CLASSES)
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE answer_{replay.number} AS {answer}")
        late = "SELECT coalesce(sum(_n), 0)::BIGINT FROM replayed WHERE _class = ?"
        (pairs,) = self.connection.execute(late, [Class.LATE.value]).fetchall()[0]
        self.connection.unregister("replayed")
        return int(pairs)

    def compare_replay(self, replay: Replay) -> AuditedReplay:
        """Make the answer of a replay and compare it with the first one."""
        late = self.make(replay)
        blamed = blame.find(self.connection, self.lake.pipeline, f"answer_{replay.number}")
        self.connection.execute(f"DROP TABLE answer_{replay.number}")
        return AuditedReplay(
            replay=replay.number, epochs=len(replay.epochs), tasks=replay.tasks, late=late, blamed=blamed
        )

    def _epoch(self, replay: Replay, offsets: Offsets, watermark: int | None) -> pa.Table:
        """Return the partial aggregates of an epoch, by partition, with the newest event time of each."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own name; only a run needs it

        records = read_records(self.spark, self.lake, (offsets,))
        dealt = records.repartition(replay.tasks, F.xxhash64("partition", "offset", F.lit(replay.seed)))
        spans = self.rejoin.resolve_versions(self.rejoin.collect_recorded(self.records), (offsets,))
        whole_rows = parse_records(dealt, self.lake.pipeline, self.rejoin.frames(self.spark, spans))
        flagged_rows, duplicate = classify.flag_records(whole_rows, self.duplicates)
        rows = classify_records(flagged_rows, self.lake.pipeline, watermark_micros=watermark, duplicate=duplicate)
        ahead = self.lake.pipeline.lateness.max_ahead_micros
        valid = f"_reason IS NULL AND unix_micros(_event_time) <= unix_micros(_log_time) + {ahead}L"
        newest = {_NEWEST_COLUMN: f"max(IF({valid}, unix_micros(_event_time), NULL))"}
        table = aggregate_partials(rows, self.lake.pipeline, by=("_partition",), extra_aggregates=newest).toArrow()
        schema = partial_schema(self.lake.pipeline).append(pa.field(_NEWEST_COLUMN, pa.int64()))
        return table.select(schema.names).cast(schema)

    def _advance_watermark(self, state: WatermarkState, offsets: Offsets, rows: pa.Table) -> WatermarkState:
        newest = rows.group_by("_partition").aggregate([(_NEWEST_COLUMN, "max")]).to_pylist()
        events = {
            row["_partition"]: row[f"{_NEWEST_COLUMN}_max"]
            for row in newest
            if row[f"{_NEWEST_COLUMN}_max"] is not None
        }
        start_offsets = {p: start for p, (start, _) in self.span.items()}
        read_offsets = start_offsets | dict(state.read) | {p: end for p, (_, end) in offsets.items()}
        high = {p: end for p, (_, end) in self.span.items()}
        observation = Observation(now=0.0, read=read_offsets, high=high, max_event=events)
        return advance_watermark(state, observation, self.lake.pipeline.lateness)
