"""Invariants of an epoch log at any time, against the plain-Python runner over the same records."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from cutover.definition import Pipeline
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.records import reference
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from tests.integration.streaming.rig import gaps
from tests.support.comparison.same_truth import counted_sql, select_settled

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Rows = Mapping[tuple[int, int, tuple[Any, ...]], tuple[int, dict[str, Any]]]
Position = tuple[str, int, int, int | None, str | None]  # class, partition, offset, window start, reason


def micros(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def expected_rows(result: reference.Result) -> Rows:
    return {group: (row.n, dict(row.measures)) for group, row in result.rows.items()}


def expected_ledger(result: reference.Result) -> set[Position]:
    return {(str(r.cls), r.partition, r.offset, r.window_start, r.reason and str(r.reason)) for r in result.ledger}


def rows_of(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, query: str) -> Rows:
    return {
        (micros(row["window_start"]), micros(row["window_end"]), tuple(row[name] for name in pipeline.key)): (
            row["_n"],
            {name: row[name] for name in pipeline.measures},
        )
        for row in queries.query_table(connection, query).to_pylist()
    }


def positions(connection: duckdb.DuckDBPyConnection) -> list[Position]:
    query = "SELECT _class, window_start, unnest(_positions) AS p FROM found WHERE _positions IS NOT NULL"
    return [
        (
            row["_class"],
            row["p"]["partition"],
            row["p"]["offset"],
            None if row["window_start"] is None else micros(row["window_start"]),
            row["p"]["reason"],
        )
        for row in queries.query_table(connection, query).to_pylist()
    ]


def check_books(lake: PipelineLake, log: Sequence[RawRecord]) -> list[EpochRecord]:
    """Check the current epoch log; return its records.

    Args:
        lake: Pipeline whose epoch log is checked.
        log: The whole log; what the newest epoch has not read is left out.
    """
    version = versions.find_current_version(lake)
    if version is None or not delta.exists(version.uri):
        return []
    epochs = EpochLog(version.uri)
    records = epochs.records()
    if not records:
        return []
    connection = queries.open_duckdb()
    epochs.relation(connection, "found", epoch=records[-1].epoch)
    _numbers(records, epochs.transaction(version.app_id))
    _books(connection, lake.pipeline, records, log)
    return records


def _numbers(records: Sequence[EpochRecord], transaction: int | None) -> None:
    assert [record.epoch for record in records] == list(range(len(records)))
    assert transaction == records[-1].epoch
    assert gaps(records) == []
    marks = [record.watermark_after for record in records]
    assert [record.watermark_before for record in records] == [None, *marks[:-1]]
    known_marks = [mark for mark in marks if mark is not None]
    assert known_marks == sorted(known_marks)
    assert marks[len(marks) - len(known_marks) :] == known_marks  # once known, a watermark stays known


def _books(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, records: Sequence[EpochRecord], log: Sequence[RawRecord]
) -> None:
    read = [r for r in log if r.offset < records[-1].end.get(r.partition, 0)]
    watermarks = [record.watermark_before for record in records]
    late = reference.compute_reference(pipeline, read, epochs=[record.end for record in records], watermarks=watermarks)
    accepted = rows_of(connection, pipeline, finish_sql(pipeline, "found", keep=[Class.ACCEPTED]))
    batch = reference.compute_reference(pipeline, read)
    counted_query = finish_sql(pipeline, counted_sql("found", batch), keep=[Class.ACCEPTED, Class.LATE])
    truth = rows_of(connection, pipeline, counted_query)
    ledger = positions(connection)
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(record.counts)

    assert expected_rows(late) == accepted
    assert select_settled(expected_rows(batch), late, batch) == select_settled(truth, late, batch)
    assert len(ledger) == len(set(ledger))
    assert expected_ledger(late) == set(ledger)
    assert {kind.value: number for kind, number in late.counts.items()} == {k.value: counts[k.value] for k in Class}
    assert sum(record.unknown for record in records) == late.unknown
