"""N1 over the books of the batch path: offsets scanned twice, and positions listed twice in its ledger."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from cutover.lake import batch_runs
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import batch_ledger_schema
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verify.facts.facts import BatchLedger, DoubledPosition, RescannedOffsets, Unknown, VerifyFacts
from cutover.reconcile.verify.facts.rows import read_batch_ledger
from cutover.reconcile.verify.invariants import epochs
from cutover.settings import Settings
from cutover.timestamps import to_micros
from tests.unit.reconcile.attribution.indexed import PIPELINE, make_index_row, make_run, write_index

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Raw = dict[str, Any]


def listed(run: str, offset: int, cls: str = "malformed", *, start: datetime | None = None) -> Raw:
    """Return a row of the ledger: a run lists a record of partition 0."""
    position = {"partition": 0, "offset": offset, "event_time": NOON, "reason": None}
    end = None if start is None else start + timedelta(hours=1)
    return {"_run": run, "_epoch": 0, "_class": cls, "window_start": start, "window_end": end, "_positions": [position]}


def write_books(settings: Settings, ledger: list[Raw], *scanned: tuple[int, int]) -> None:
    """Write a ledger, and the runs `a`, `b`, ... that scanned these offsets of partition 0 and left that version."""
    schema = batch_ledger_schema(PIPELINE)
    table = delta.ensure(PipelineLake(settings, PIPELINE).batch_uri("batch_ledger"), schema)
    if ledger:
        commits.append(table, pa.Table.from_pylist(ledger, schema=schema))
    names = [chr(ord("a") + number) for number in range(len(scanned))]
    runs = [
        make_run(name, scanned={0: span}, ledger_version=table.version())
        for name, span in zip(names, scanned, strict=True)
    ]
    write_index(settings, [make_index_row(name, 0, *span) for name, span in zip(names, scanned, strict=True)], runs)


def read(settings: Settings) -> BatchLedger:
    return read_batch_ledger(Mock(lake=PipelineLake(settings, PIPELINE)), Mock())


@pytest.fixture
def settings(tmp_path: Any) -> Settings:
    return Settings(home=tmp_path)


def test_books_with_each_offset_scanned_once_hold(settings: Settings) -> None:
    hours = [NOON, NOON + timedelta(hours=1)]
    ledger = [listed("a", 1), listed("b", 101), *(listed("a", 2, "future", start=start) for start in hours)]
    write_books(settings, [*ledger, *(listed(run, 3, "duplicate", start=NOON) for run in "ab")], (0, 100), (100, 200))

    assert read(settings) == BatchLedger()


@pytest.mark.parametrize("start", [None, NOON])
def test_a_position_that_two_runs_listed_is_named_with_its_window(settings: Settings, start: datetime | None) -> None:
    write_books(settings, [listed("b", 7, start=start), listed("a", 7, "filtered", start=start)], (0, 7), (7, 9))

    window = None if start is None else to_micros(start)
    doubled = DoubledPosition(partition=0, offset=7, window_start=window, rows=2, runs=("a", "b"))
    assert read(settings) == BatchLedger(doubled=(doubled,))


def test_a_duplicate_that_one_run_listed_twice_is_named(settings: Settings) -> None:
    write_books(settings, [listed("a", 7, "duplicate", start=NOON)] * 2, (0, 9))

    (doubled,) = read(settings).doubled
    assert (doubled.offset, doubled.rows, doubled.runs) == (7, 2, ("a",))


def test_offsets_that_two_runs_scanned_are_named_though_the_ledger_has_no_row_of_them(settings: Settings) -> None:
    write_books(settings, [], (0, 100), (40, 120), (120, 130))

    rescanned = RescannedOffsets(partition=0, start=40, end=100, runs=("a", "b"))
    assert read(settings) == BatchLedger(rescanned=(rescanned,))


def test_runs_replaced_by_a_run_from_scratch_are_excluded(settings: Settings) -> None:
    write_books(settings, [listed("b", 7)])
    runs = [make_run(name, scanned={0: (0, 100)}, ledger_version=1) for name in "ab"]
    write_index(settings, [make_index_row("b", 0, 0, 99)], runs)

    assert read(settings) == BatchLedger()


def test_a_pipeline_without_a_batch_run_has_empty_books(settings: Settings) -> None:
    assert batch_runs.read_effective_runs(PipelineLake(settings, PIPELINE)) == []
    assert read(settings) == BatchLedger()


def test_check_names_runs_and_offsets_or_why_the_ledger_is_unread() -> None:
    facts = VerifyFacts(
        stream="views/r/stream-0",
        pipeline=PIPELINE,
        records=(),
        transaction=None,
        batch_ledger=BatchLedger(
            doubled=(DoubledPosition(partition=1, offset=7, window_start=to_micros(NOON), rows=2, runs=("a", "b")),),
            rescanned=(RescannedOffsets(partition=1, start=5, end=9, runs=("a", "b")),),
        ),
    )

    rescanned, doubled = (violation.text for violation in epochs.COMPLETENESS.check(facts))

    assert "partition 1" in rescanned
    assert "[5, 9) of runs a and b" in rescanned
    assert "partition 1, offset 7, window 2026-01-01T12:00:00Z: expected one row, got 2 of runs a, b" in doubled
    unread = VerifyFacts(
        stream="", pipeline=PIPELINE, records=(), transaction=None, batch_ledger=Unknown(reason="Its file is gone.")
    )
    assert any("Its file is gone." in note for note in epochs.COMPLETENESS.list_notes(unread))
