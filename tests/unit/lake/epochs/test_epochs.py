"""The epoch log as its readers see it: records in order, rows up to an epoch, one version of the table."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import make_arrow_schema

SCHEMA = make_arrow_schema({"_kind": pa.string(), "_epoch": pa.int64(), "_record": pa.string(), "n": pa.int64()})
FIRST = EpochRecord(
    epoch=0,
    run_id="pid-1-one",
    topic="t",
    topic_id="A",
    cluster_id="C",
    start={0: 0, 11: 5},
    end={0: 10, 11: 5},
    max_event={0: 7},
    watermark_before=None,
    watermark_after=3,
    idle=(11,),
    counts={"accepted": 2},
)
SECOND = replace(FIRST, epoch=1, start=FIRST.end, end={0: 20, 11: 6}, watermark_before=3)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Create an epoch log of two epochs, each a commit of one partial, one ledger row and its record."""
    table = delta.ensure(str(tmp_path / "stream"), SCHEMA, partition_by=["_kind"])
    for record in (FIRST, SECOND):
        rows = [{"_kind": kind, "_epoch": record.epoch, "n": 1} for kind in ("partial", "ledger")]
        rows.append({"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()})
        commits.append(table, pa.Table.from_pylist(rows, schema=SCHEMA))
    return str(tmp_path / "stream")


def rows(log: EpochLog, epoch: int) -> list[tuple[str, int]]:
    with queries.open_duckdb() as connection:
        log.relation(connection, "rows", epoch=epoch)
        result = connection.execute("SELECT _kind, _epoch FROM rows ORDER BY _epoch, _kind").fetchall()
    return [(row[0], row[1]) for row in result]


def test_a_record_is_read_as_it_was_written() -> None:
    assert EpochRecord.from_json(FIRST.to_json()) == FIRST
    assert FIRST.cut.to_json()["cut"] == {"0": 10, "11": 5}


def test_records_come_in_the_order_of_their_numbers(uri: str) -> None:
    log = EpochLog(uri)

    assert log.records() == [FIRST, SECOND]
    assert log.records(after=0) == [SECOND]
    assert log.newest() == SECOND


def test_a_cut_shows_no_row_of_a_later_epoch(uri: str) -> None:
    log = EpochLog(uri)

    assert rows(log, 0) == [("ledger", 0), ("partial", 0)]
    assert len(rows(log, 1)) == 4
    assert rows(log, -1) == []


def test_an_older_version_of_the_table_has_no_later_epoch(uri: str) -> None:
    log = EpochLog(uri, version=1)

    assert (log.version, log.newest()) == (1, FIRST)


def test_a_log_before_its_first_epoch_is_empty(tmp_path: Path) -> None:
    delta.ensure(str(tmp_path / "stream"), SCHEMA, partition_by=["_kind"])
    log = EpochLog(str(tmp_path / "stream"))

    assert (log.newest(), log.records(), rows(log, 0), log.transaction("x")) == (None, [], [], None)


def test_a_missing_file_stops_every_reader(uri: str) -> None:
    next((Path(uri) / "_kind=partial").glob("*.parquet")).unlink()

    with pytest.raises(LakeError, match="is listed and not there"):
        rows(EpochLog(uri), 1)
