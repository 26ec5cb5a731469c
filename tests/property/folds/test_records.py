"""Plain Python, the batch path's functions and the streaming path's functions agree on any log, cut into any epochs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from cutover.definition import Pipeline
from cutover.engine import queries
from cutover.log.kafka import RawRecord
from cutover.records import classify, reference
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.fold import finish_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from cutover.records.watermark import Observation, WatermarkState, advance_watermark
from tests.support.comparison.same_truth import counted_sql, select_settled
from tests.support.log.logs import borders, event_logs, pipelines
from tests.support.rows.frames import frame
from tests.support.suite.depth import depth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FEW = depth(few=3, many=60)
UNTIL_FOUND = settings(FEW, max_examples=1_000, phases=(Phase.generate,))

Rows = Mapping[tuple[int, int, tuple[Any, ...]], tuple[int, dict[str, Any]]]


def parse(spark: "SparkSession", pipeline: Pipeline, records: Iterable[RawRecord]) -> "DataFrame":
    rows = [(r.value, r.partition, r.offset, EPOCH + timedelta(microseconds=r.log_time_micros)) for r in records]
    return parse_records(frame(spark, rows), pipeline)


def classify_whole_log(spark: "SparkSession", pipeline: Pipeline, records: Iterable[RawRecord]) -> pa.Table:
    parsed, twin = parse(spark, pipeline, records), "false"
    if pipeline.source.record_id is not None:
        parsed, twin = classify.mark_duplicates(parsed, pipeline), classify.IS_TWIN
    return partials(parsed, pipeline, None, twin)


def partials(parsed: "DataFrame", pipeline: Pipeline, watermark: int | None, duplicate: str) -> pa.Table:
    records = classify_records(parsed, pipeline, watermark_micros=watermark, duplicate=duplicate)
    ahead = f"unix_micros(_event_time) > unix_micros(_log_time) + {pipeline.lateness.max_ahead_micros}"
    newest = f"max(IF({ahead}, NULL, unix_micros(_event_time)))"
    return aggregate_partials(records, pipeline, by=("_partition",), extra_aggregates={"newest": newest}).toArrow()


def stream(
    spark: "SparkSession", pipeline: Pipeline, log: Sequence[RawRecord], ends: Sequence[Mapping[int, int]]
) -> tuple[pa.Table, list[int | None]]:
    """Return the partial rows of all epochs, and the watermark after each."""
    state, read_offsets, epochs, watermarks = WatermarkState(), dict.fromkeys(ends[-1], 0), [], []
    ids: set[tuple[Any, int]] = set()
    for end in ends:
        epoch_records = [r for r in log if read_offsets[r.partition] <= r.offset < end[r.partition]]
        rows = parse(spark, pipeline, epoch_records)
        duplicate = classify.match_positions_sql(find_repeated(rows, pipeline, state.watermark, ids))
        epochs.append(partials(rows, pipeline, state.watermark, duplicate))
        newest: dict[int, int] = {}
        for row in epochs[-1].select(["_partition", "newest"]).to_pylist():
            if row["newest"] is not None:
                newest[row["_partition"]] = max(row["newest"], newest.get(row["_partition"], row["newest"]))
        observation = Observation(now=0.0, read=end, high=ends[-1], max_event=newest)
        state, read_offsets = advance_watermark(state, observation, pipeline.lateness), dict(end)
        watermarks.append(state.watermark)
    return pa.concat_tables(epochs), watermarks


def find_repeated(
    rows: "DataFrame", pipeline: Pipeline, watermark: int | None, earlier_ids: set[tuple[Any, int]]
) -> list[tuple[int, int]]:
    """Return the positions of an epoch whose twins were seen before, and note what is new."""
    if pipeline.source.record_id is None:
        return []
    positions = []
    candidates = classify.select_candidates(rows, pipeline, watermark).collect()
    for row in sorted(candidates, key=lambda row: (row["partition"], row["offset"])):
        positions += [(row["partition"], row["offset"])] if (row["id"], row["event_time"]) in earlier_ids else []
        earlier_ids.add((row["id"], row["event_time"]))
    return positions


def fold_rows(pipeline: Pipeline, rows: pa.Table, keep: Sequence[Class], batch: reference.Result | None = None) -> Rows:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("partial_rows", rows)
    relation = "partial_rows" if batch is None else counted_sql("partial_rows", batch)
    rows_by_window = queries.query_table(connection, finish_sql(pipeline, relation, keep=keep)).to_pylist()
    return {
        (micros(row["window_start"]), micros(row["window_end"]), tuple(row[name] for name in pipeline.key)): (
            row["_n"],
            {name: row[name] for name in pipeline.measures},
        )
        for row in rows_by_window
    }


def micros(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def counts(rows: pa.Table) -> dict[Class, int]:
    totals: Counter[Class] = Counter()
    for row in rows.select(["_class", "_n"]).to_pylist():
        totals[Class(row["_class"])] += row["_n"]
    return {name: totals[name] for name in Class}


def ledger(rows: pa.Table) -> set[tuple[str, int, int, int | None, str | None]]:
    return {
        (
            row["_class"],
            position["partition"],
            position["offset"],
            None if row["window_start"] is None else micros(row["window_start"]),
            position["reason"],
        )
        for row in rows.select(["_class", "window_start", "_positions"]).to_pylist()
        for position in row["_positions"] or ()
    }


def expected_rows(result: reference.Result) -> Rows:
    return {group: (row.n, dict(row.measures)) for group, row in result.rows.items()}


def expected_ledger(result: reference.Result) -> set[tuple[str, int, int, int | None, str | None]]:
    return {(str(r.cls), r.partition, r.offset, r.window_start, r.reason and str(r.reason)) for r in result.ledger}


@FEW
@given(log=event_logs(), pipeline=pipelines())
def test_batch_is_the_reference(spark: "SparkSession", log: tuple[RawRecord, ...], pipeline: Pipeline) -> None:
    expected = reference.compute_reference(pipeline, log)
    batch_rows = classify_whole_log(spark, pipeline, log)

    assert expected_rows(expected) == fold_rows(pipeline, batch_rows, [Class.ACCEPTED])
    assert expected.counts == counts(batch_rows)
    assert expected_ledger(expected) == ledger(batch_rows)
    assert expected.unknown == sum(row["_unknown"] for row in batch_rows.to_pylist())


@FEW
@given(data=st.data(), log=event_logs(), pipeline=pipelines())
def test_stream_is_the_reference_and_with_its_late_rows_the_batch(
    spark: "SparkSession", data: st.DataObject, log: tuple[RawRecord, ...], pipeline: Pipeline
) -> None:
    ends = data.draw(borders(log))
    expected = reference.compute_reference(pipeline, log, epochs=ends)
    stream_rows, watermarks = stream(spark, pipeline, log, ends)

    assert expected.watermarks == tuple(watermarks)
    assert expected_rows(expected) == fold_rows(pipeline, stream_rows, [Class.ACCEPTED])
    assert expected.counts == counts(stream_rows)
    assert expected_ledger(expected) == ledger(stream_rows)
    truth = reference.compute_reference(pipeline, log)
    both = fold_rows(pipeline, stream_rows, [Class.ACCEPTED, Class.LATE], truth)
    assert select_settled(expected_rows(truth), expected, truth) == select_settled(both, expected, truth)


@pytest.mark.parametrize("expected_class", list(Class))
def test_every_class_occurs_among_the_drawn_logs(expected_class: Class) -> None:
    # What is drawn depends on the modules that a worker has imported: Hypothesis takes constants out of them. So no
    # fixed number of logs shows every class each time; a thousand do.
    def occurs(example: tuple[tuple[RawRecord, ...], Pipeline]) -> bool:
        log, pipeline = example
        ends = [dict.fromkeys(range(3), end) for end in (2, len(log))]
        return reference.compute_reference(pipeline, log, epochs=ends).counts[expected_class] > 0

    found_example = find(st.tuples(event_logs(), pipelines()), occurs, settings=UNTIL_FOUND)

    assert occurs(found_example)
