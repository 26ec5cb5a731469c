"""Replays of a log in several ways, compared: accepted and late records together must give the same result.

A plan is a pure function of a seed: each replay ends its epochs elsewhere, distributes the records of an epoch over
another number of tasks, in another order, and folds the result. Which records are late depends on where epochs end, and
is reported separately. Of records with the same id and event time the same one counts in all replays. Columns in which
two answers differ are listed with the expression of the definition that each comes from.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
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
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Value, agreement_of, make_default_comparison
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


FIRST = "answer_0"
_ROWS = "windows and keys"
_NUMBER = re.compile(r"DOUBLE|FLOAT|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\(.*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceSize:
    """Size of the difference between two answers in a column, over the rows that differ."""

    largest: float  # absolute
    relative: float  # the largest difference by the larger magnitude
    half: float  # of the rows differ by at most so much; absolute
    p95: float
    p99: float
    volume: float  # sum of all, without signs


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedMeasure:
    """A measure, or the windows and keys themselves, that another replay gave otherwise."""

    column: str  # a result, or a state of it
    expression: str  # of the definition
    rows: int  # (window, key)
    within_tolerance: bool  # of doubles: the last digits of a sum depend on the order of its records
    example: str  # window, key and both values
    size: DifferenceSize | None = None  # None: no number, or none in any of the rows on both sides


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sized:
    """SQL over both sides of a numeric column: how far they are apart."""

    first_sql: str
    second_sql: str

    @property
    def aggregates(self) -> str:
        """Return the aggregates of `DifferenceSize`, in order; all null where no row has two finite numbers."""
        first, second = (f"TRY_CAST({side} AS DOUBLE)" for side in (self.first_sql, self.second_sql))
        apart = f"CASE WHEN isfinite({first}) AND isfinite({second}) THEN abs({first} - {second}) END"
        relative = f"{apart} / nullif(greatest(abs({first}), abs({second})), 0)"
        percentiles = ", ".join(f"quantile_cont({apart}, {share})" for share in (0.5, 0.95, 0.99))
        return f"max({apart}), max({relative}), {percentiles}, sum({apart} ORDER BY {apart})"


def find(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, other: str) -> tuple[BlamedMeasure, ...]:
    """Return every column in which a table differs from `answer_0`.

    Args:
        connection: Holds both: what `fold.finish_sql` returns.
        pipeline: The definition.
        other: Name of the other table.
    """
    keys = [identifier(name) for name in ("window_start", *pipeline.key)]
    on = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)
    joined = f"{FIRST} a FULL JOIN {other} b ON {on}"
    place = ", ".join(f"coalesce(a.{key}, b.{key})" for key in keys)
    return (*_rows(connection, pipeline, joined, place), *_measures(connection, pipeline, joined, place))


def _rows(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, joined: str, place: str
) -> Iterator[BlamedMeasure]:
    alone = "a.window_start IS NULL OR b.window_start IS NULL"
    query = f"SELECT count(*), min(({place}, a._n, b._n)) FROM {joined} WHERE {alone}"
    (rows, example) = connection.execute(query).fetchall()[0]
    if rows:
        yield BlamedMeasure(
            column=_ROWS,
            expression=_of_rows(pipeline),
            rows=int(rows),
            within_tolerance=False,
            example=_format_example(example),
        )


def _measures(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, joined: str, place: str
) -> Iterator[BlamedMeasure]:
    types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {FIRST}").fetchall()}
    for name, expression in _columns(pipeline).items():
        left, right = (f"{side}.{identifier(name)}" for side in "ab")
        value = agreement_of(pipeline, make_default_comparison(name, types[name]), same_definition=True)
        at_all, beyond = Value(name=name).differs(left, right), value.differs(left, right)
        both = "a.window_start IS NOT NULL AND b.window_start IS NOT NULL"
        sized = (
            _Sized(first_sql=left, second_sql=right).aggregates
            if _NUMBER.fullmatch(types[name])
            else ", ".join(["NULL"] * 6)
        )
        query = f"""
            SELECT count(*), count(*) FILTER ({beyond}), min_by(({place}, {left}, {right}), (NOT {beyond}, {place})),
                {sized}
            FROM {joined} WHERE {both} AND {at_all}
        """
        rows, far, example, *sizes = connection.execute(query).fetchall()[0]
        if rows:
            yield BlamedMeasure(
                column=name,
                expression=expression,
                rows=int(rows),
                within_tolerance=not far,
                example=_format_example(example),
                size=_make_size(sizes),
            )


def _make_size(figures: Sequence[float | None]) -> DifferenceSize | None:
    largest, relative, half, p95, p99, volume = (float(value or 0.0) for value in figures)
    if figures[0] is None:
        return None
    return DifferenceSize(largest=largest, relative=relative, half=half, p95=p95, p99=p99, volume=volume)


def _columns(pipeline: Pipeline) -> dict[str, str]:
    """Return results and states with the expression that they come from: a state shows what a result may hide."""
    expressions = {name: str(measure.expression) for name, measure in pipeline.measures.items()}
    if pipeline.window.merges:  # it follows from the rows, as they do
        expressions["window_end"] = _of_rows(pipeline)
    for state in compile_pipeline(pipeline).states:
        expressions.setdefault(state.column, expressions.get(state.column.rpartition("__")[0], state.create))
    return expressions


def _of_rows(pipeline: Pipeline) -> str:
    """Return what says which windows and keys there are."""
    derived = [text for name, text in pipeline.derive.items() if name in pipeline.key]
    filters = [] if pipeline.where is None else [pipeline.where]
    return "; ".join([*filters, *derived, ", ".join(pipeline.key)])


def _format_example(example: tuple[object, ...]) -> str:
    *place, first_value, second_value = example
    return f"{', '.join(map(str, place))}: {first_value} and {second_value}"


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
        blamed = find(self.connection, self.lake.pipeline, f"answer_{replay.number}")
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
