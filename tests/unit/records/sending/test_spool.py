"""Spooled records in log-time order, ties in the file's order, with bounded memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutover.records.classes import Reason
from cutover.records.sending import spool as spool_module
from cutover.records.sending.rows import FileRecord, LogTimeRange, Malformed
from cutover.records.sending.spool import Spool


def row(line: int, log_micros: int | None, key: bytes | None = b"k") -> FileRecord:
    return FileRecord(number=line - 1, line=line, log_micros=log_micros, key=key, value=b"v%d" % line)


@pytest.fixture(params=[2, 1_000])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "CHUNK", request.param)


@pytest.mark.usefixtures("chunk")
def test_rows_come_in_log_time_order_and_ties_in_the_files_order(tmp_path: Path) -> None:
    spooled = [row(1, 30), row(2, 10, None), row(3, 20, b""), row(4, 10), row(5, 30)]

    with Spool(tmp_path) as spool:
        spool.fill(spooled)

        assert list(spool.read_sorted_rows()) == [spooled[1], spooled[3], spooled[2], spooled[0], spooled[4]]
        assert (spool.count, spool.find_extreme("log_micros"), spool.find_extreme("-log_micros")) == (
            5,
            (1, 30),
            (2, -10),
        )


def test_without_log_times_the_files_order_stays(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.fill([row(1, None), row(2, None), row(3, None)])

        assert [r.line for r in spool.read_sorted_rows()] == [1, 2, 3]


def test_empty_file_has_no_rows(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.fill([])

        assert (list(spool.read_sorted_rows()), spool.find_extreme("log_micros")) == ([], None)


def test_sent_records_are_excluded_by_range_and_number(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.fill([row(line, line * 10) for line in range(1, 9)])
        spool.drop_time_range(0, 4, LogTimeRange(start=20, end=40))  # lines 2 and 3
        spool.drop_numbers([7])  # line 8

        assert ([r.line for r in spool.read_sorted_rows()], spool.count) == ([1, 4, 5, 6, 7], 5)


def test_malformed_records_are_counted_by_reason_with_examples_in_the_files_order(tmp_path: Path) -> None:
    bad = Malformed(reason=Reason.TYPE, cells=2, example="column `i`: expected int, got 1.5")
    absent = Malformed(reason=Reason.MISSING, cells=0, example="column `k`: expected a value (NOT NULL), got none")
    with Spool(tmp_path) as spool:
        spool.fill([row(1, 30), replace(row(2, 20), malformed=bad), replace(row(3, 10), malformed=absent)])

        malformed = spool.summarize_malformed(max_examples=1)

    assert (malformed.records, malformed.cells, malformed.reasons) == (2, 2, {"missing": 1, "type": 1})
    assert malformed.examples == ("line 2, column `i`: expected int, got 1.5",)
