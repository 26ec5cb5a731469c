"""Records come out in log-time order, ties in the file's order, with bounded memory."""

from pathlib import Path

import pytest

from cutover.log.sending import spool as spool_module
from cutover.log.sending.rows import FileRecord
from cutover.log.sending.spool import Spool


def row(line: int, log_micros: int | None, key: bytes | None = b"k") -> FileRecord:
    return FileRecord(line=line, log_micros=log_micros, key=key, value=b"v%d" % line)


@pytest.fixture(params=[2, 1_000])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "CHUNK", request.param)


@pytest.mark.usefixtures("chunk")
def test_rows_come_in_log_time_order_and_ties_in_the_files_order(tmp_path: Path) -> None:
    given = [row(1, 30), row(2, 10, None), row(3, 20, b""), row(4, 10), row(5, 30)]

    with Spool(tmp_path) as spool:
        spool.fill(given)

        assert list(spool.read_sorted_rows()) == [given[1], given[3], given[2], given[0], given[4]]
        assert (spool.count, spool.bounds()) == (5, (10, 30))


def test_without_log_times_the_files_order_stays(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.fill([row(1, None), row(2, None), row(3, None)])

        assert [r.line for r in spool.read_sorted_rows()] == [1, 2, 3]


def test_empty_file_has_no_rows(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.fill([])

        assert (list(spool.read_sorted_rows()), spool.bounds()) == ([], (None, None))
