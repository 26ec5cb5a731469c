"""Doubts about the stream's ledger: position and time must confirm that a record is late, or in a window."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from unittest.mock import Mock

import duckdb
import pytest

from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic
from cutover.engine import queries
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.attribution import attribution
from cutover.reconcile.comparison.layout import Layout, SharedTable
from tests.unit.reconcile.attribution.indexed import HOUR
from tests.unit.verify.epochs import epoch

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="id bigint NOT NULL, who string, at timestamp NOT NULL", event_time="at"),
    key=("who",),
    window=Fixed(hours=1),
    measures={"clicks": Count()},
    lateness=Lateness(allowed="1 hour"),
)
COUNT = "the ledger's counts differ from the records that it lists"
TWICE = "a record is in the ledger twice"
OUTSIDE = "a record is outside the offsets of its epoch"
EARLY = "a record is marked late before its window had closed"
TIME = "a record's event time is outside its window"
CLOSED = 2 * HOUR  # the watermark by which the first window, with its allowed lateness, is over


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the ledger, which lists records `(partition, offset, event time)`."""

    class_: str = "late"
    epoch: int = 1
    hour: int | None = 0
    record_count: int = 1
    positions: Sequence[tuple[int, int, int | None]] | None = ((0, 5, 7),)


LATE = Row()  # as it has to be


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with queries.open_duckdb() as database:
        kinds = 'STRUCT(partition INTEGER, "offset" BIGINT, event_time TIMESTAMPTZ, reason VARCHAR)[]'
        database.execute(
            f"CREATE TEMP TABLE {SharedTable.STREAM_LOG} (_class VARCHAR, _epoch BIGINT, window_start TIMESTAMPTZ,"
            f" window_end TIMESTAMPTZ, who VARCHAR, _n BIGINT, _positions {kinds})"
        )
        yield database


def insert_rows(connection: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    for row in rows:
        position_list = ", ".join(
            f'{{partition: {p}, "offset": {o}, event_time: {"NULL" if at is None else f"make_timestamptz({at})"},'
            " reason: NULL}"
            for p, o, at in row.positions or ()
        )
        start, end = (None, None) if row.hour is None else (row.hour * HOUR, (row.hour + 1) * HOUR)
        connection.execute(
            f"INSERT INTO {SharedTable.STREAM_LOG} VALUES (?, ?, make_timestamptz(?), make_timestamptz(?), 'a', ?,"  # noqa: S608 -- ours
            f" {'NULL' if row.positions is None else f'[{position_list}]'})",
            [row.class_, row.epoch, start, end, row.record_count],
        )


def doubts(
    connection: duckdb.DuckDBPyConnection,
    *rows: Row,
    records: Sequence[EpochRecord] = (epoch(1, watermark_before=CLOSED),),
    pipeline: Pipeline = PIPELINE,
) -> list[tuple[str, int | None]]:
    """Return what is doubted of rows, each time with the offset of the record that is meant."""
    insert_rows(connection, rows)
    attribution.create_ledger_tables(connection, pipeline, records)
    query = f"SELECT why, _offset FROM {SharedTable.DOUBTFUL} ORDER BY ALL"  # noqa: S608 -- ours
    return connection.execute(query).fetchall()


def listing(*records: tuple[int, int, int | None], **changes: object) -> Row:
    return replace(LATE, positions=records, record_count=len(records), **changes)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (LATE, []),
        (listing((0, 5, 0), (1, 9, HOUR - 1)), []),  # the first and the last time of a window, and offset of an epoch
        (listing((0, 4, 7)), [(OUTSIDE, 4)]),
        (listing((0, 10, 7)), [(OUTSIDE, 10)]),
        (listing((2, 5, 7)), [(OUTSIDE, 5)]),  # a partition that the epoch did not read
        (replace(LATE, epoch=2), [(EARLY, 5), (OUTSIDE, 5)]),  # an epoch that is not there
        (listing((0, 5, HOUR)), [(TIME, 5)]),
        (listing((0, 5, HOUR + 7), hour=1), [(EARLY, 5)]),  # a window that was open
        (listing((0, 5, HOUR - 1), hour=1), [(EARLY, 5), (TIME, 5)]),
        (listing((0, 5, None)), [(TIME, 5)]),
        (listing((0, 5, 7), (0, 5, 7)), [(TWICE, 5), (TWICE, 5)]),
        (listing((0, 5, 7), (1, 5, 7)), []),
        (replace(LATE, class_="future", hour=1, positions=((0, 5, HOUR),)), []),  # no watermark is needed to be ahead
        (replace(LATE, class_="malformed", hour=None, positions=((0, 5, None),)), []),  # in no window
        (replace(LATE, class_="malformed", hour=None, positions=((0, 3, None),)), [(OUTSIDE, 3)]),
        (replace(LATE, class_="accepted", record_count=7, positions=None), []),
        (replace(LATE, record_count=0, positions=None), []),
        (replace(LATE, record_count=1, positions=None), [(COUNT, None)]),
        (replace(LATE, record_count=2), [(COUNT, None)]),
        (replace(LATE, class_="future", record_count=0), [(COUNT, None)]),
        (replace(LATE, class_="duplicate", record_count=2), [(COUNT, None)]),
    ],
)
def test_a_row_of_the_ledger_is_doubted_where_position_or_time_contradicts_it(
    connection: duckdb.DuckDBPyConnection, row: Row, expected: list[tuple[str, int | None]]
) -> None:
    assert doubts(connection, row) == expected


def test_a_record_may_be_late_in_each_of_its_windows_once(connection: duckdb.DuckDBPyConnection) -> None:
    second = replace(LATE, hour=1, positions=((0, 5, HOUR + 7),))

    closed = (epoch(1, watermark_before=CLOSED + HOUR),)

    assert [doubt for doubt, _ in doubts(connection, LATE, second, records=closed)] == []


@pytest.mark.parametrize("mark", [CLOSED - 1, None])
def test_a_record_is_late_only_once_its_window_and_the_allowed_lateness_are_over(
    connection: duckdb.DuckDBPyConnection, mark: int | None
) -> None:
    assert doubts(connection, LATE, records=(epoch(1, watermark_before=mark),)) == [(EARLY, 5)]


def test_an_epoch_reads_a_new_partition_from_offset_0_on(connection: duckdb.DuckDBPyConnection) -> None:
    grown = epoch(1, watermark_before=CLOSED, end={0: 10, 1: 10, 2: 1})

    assert doubts(connection, listing((2, 0, 7), (2, 1, 8)), records=(grown,)) == [(OUTSIDE, 1)]


def test_a_record_that_is_older_than_the_ids_that_are_remembered_is_late_in_any_window(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    minute = HOUR // 60
    source = replace(PIPELINE.source, record_id="id", id_horizon="10 minutes")
    of_open_window = listing((0, 5, 20 * minute - 1), (0, 6, 20 * minute))

    doubted = doubts(
        connection,
        of_open_window,
        records=(epoch(1, watermark_before=30 * minute),),
        pipeline=replace(PIPELINE, source=source),
    )

    assert doubted == [(EARLY, 6)]


def test_records_of_a_class_are_counted_by_window_and_key_where_they_have_one(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    malformed = replace(LATE, class_="malformed", hour=None, positions=((0, 7, None),))
    doubts(connection, listing((0, 5, 7), (0, 6, 8)), replace(LATE, hour=1, positions=((0, 8, HOUR),)), malformed)

    key_rows = connection.execute("SELECT _class, epoch_us(window_start), who, records FROM ledger_keys ORDER BY ALL")

    assert key_rows.fetchall() == [("late", 0, "a", 2), ("late", HOUR, "a", 1)]


def test_doubts_of_one_kind_are_one_note_with_their_number(connection: duckdb.DuckDBPyConnection) -> None:
    insert_rows(connection, [listing((0, 4, 7), (0, 3, 7)), replace(LATE, record_count=2)])
    layout = Layout(keys=("window_start", "who"), values=(), group=None, wide=frozenset())

    notes = attribution.list_doubts(
        Mock(connection=connection, layout=layout), PIPELINE, [epoch(1, watermark_before=CLOSED)]
    )

    assert notes == (
        f"The stream's ledger is in doubt: {OUTSIDE} (2 rows).",
        f"The stream's ledger is in doubt: {COUNT} (1 rows).",
    )
