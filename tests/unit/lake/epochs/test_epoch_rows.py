"""The view `epochs`: what an epoch read, saw and decided, as columns."""

from datetime import UTC, datetime

import duckdb

from cutover.lake.epochs.epoch_log import COLUMNS, EpochRecord, epoch_rows

RECORD = EpochRecord(
    epoch=3,
    run_id="r",
    topic="t",
    topic_id="i",
    cluster_id="c",
    start={1: 5, 0: 7},
    end={1: 9, 0: 7, 10: 2},
    max_event={},
    watermark_before=None,
    watermark_after=1_704_067_200_000_001,
    idle=(1, 2),
    counts={"late": 2, "accepted": 4},
    records=4,
    lag=6,
    dimensions={"ads": 2},
)


def test_an_epoch_shows_its_offsets_its_counts_and_both_watermarks() -> None:
    connection = duckdb.connect()
    connection.register("epochs", epoch_rows([RECORD]))

    query = "SELECT start_offsets, end_offsets, counts, watermark_before, watermark_after, idle, lag FROM epochs"
    (row,) = connection.execute(query).fetchall()

    watermark_after = datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    offsets, counts = ({0: 7, 1: 5}, {0: 7, 1: 9, 10: 2}), {"accepted": 4, "late": 2}
    assert row == (*offsets, counts, None, watermark_after, [1, 2], 6)


def test_records_without_the_offset_of_a_partition_are_found_by_sql() -> None:
    connection = duckdb.connect()
    connection.register("epochs", epoch_rows([RECORD]))

    query = "SELECT end_offsets[1] - start_offsets[1], counts['late'], counts['future'] FROM epochs"
    assert connection.execute(query).fetchall() == [(4, 2, None)]


def test_a_log_without_epochs_has_the_same_columns() -> None:
    assert (epoch_rows([]).column_names, epoch_rows([]).num_rows) == (list(COLUMNS), 0)
