"""Boundaries of the checks of records, results and time: exactly at the limit, and one beyond it."""

from dataclasses import replace

import pytest

from cutover.definition import Sliding
from cutover.lake.integrity import lost_records
from cutover.reconcile.verify.facts.facts import (
    MOST,
    EpochCommit,
    LedgerFault,
    LogCounts,
    Prefix,
    RecomputedPortion,
    RowTotals,
    Unknown,
    cap_violations,
)
from cutover.reconcile.verify.invariants import epochs, published_results
from cutover.records.classes import Class, Reason
from cutover.records.reference import ResultRow, UncountedPair
from tests.unit.verify.epochs import MINUTE, chain_of, epoch
from tests.unit.verify.facts_of import PIPELINE, facts, texts

AWAY = Unknown(reason="no check requested it")
UNEVEN = replace(PIPELINE, window=Sliding(size="25 minutes", every="10 minutes"))  # a record is in 2 windows or in 3


# N1


@pytest.mark.parametrize(("record_count", "holds"), [(3, False), (4, True), (5, True), (6, False)])
def test_records_of_uneven_windows_lie_between_the_fewest_and_the_most(record_count: int, *, holds: bool) -> None:
    records = (epoch(0, counts={"accepted": 10}),)
    log = LogCounts(records={(0, 0): record_count}, newest={}, is_complete=False)

    text = texts(epochs.COMPLETENESS.check(facts(pipeline=UNEVEN, records=records, log=log, books=AWAY)))

    assert (text == "") is holds
    assert holds or f"the log holds {record_count} records in 0: [0, 5), 1: [0, 5), expected 4 to 5 by" in text


def test_an_epoch_without_records_in_the_log_is_reported() -> None:
    log = LogCounts(records={(0, 7): 1}, newest={}, is_complete=False)

    text = texts(epochs.COMPLETENESS.check(facts(log=log, books=AWAY)))

    assert text.startswith("Epoch 0 of clicks: the log holds 0 records in")
    assert text.endswith("expected 10 by the classes that it counted (10 accepted).")


def test_an_epoch_that_counted_nothing_and_has_records_in_the_log_is_named() -> None:
    records, log = (epoch(0, counts={}),), LogCounts(records={(0, 0): 1}, newest={}, is_complete=False)

    text = texts(epochs.COMPLETENESS.check(facts(records=records, log=log, books=AWAY)))

    assert text.endswith(
        "the log holds 1 record in 0: [0, 5), 1: [0, 5), expected 0 by the classes that it counted (none)."
    )


def test_malformed_and_filtered_records_are_one_pair_each_however_many_windows_the_others_are_in() -> None:
    window = Sliding(size="20 minutes", every="10 minutes")

    assert lost_records.record_bounds({"accepted": 4, "malformed": 2, "filtered": 3}, window) == (7, 7)


@pytest.mark.parametrize(("rows", "end"), [(1, "it stands alone."), (2, "it stands alone (2 rows).")])
def test_only_a_fault_of_several_rows_of_the_ledger_counts_them(rows: int, end: str) -> None:
    fault = LedgerFault(fault="it stands alone", epoch=1, partition=0, offset=7, rows=rows)
    books = RowTotals(pairs={(n, "accepted"): 10 for n in range(3)}, positions={}, doubts=(fault,))

    assert texts(epochs.COMPLETENESS.check(facts(books=books))) == f"Ledger, epoch 1, partition 0, offset 7: {end}"


def test_pairs_that_moved_between_epochs_are_named_where_they_are_missing_and_where_they_are_too_many() -> None:
    books = RowTotals(pairs={(0, "accepted"): 7, (1, "accepted"): 10, (2, "accepted"): 13}, positions={})

    assert texts(epochs.COMPLETENESS.check(facts(books=books))).splitlines() == [
        "Epoch 0 of clicks: expected accepted rows of 10 pairs, got 7 (-3 up to here).",
        "Epoch 2 of clicks: expected accepted rows of 10 pairs, got 13 (+0 up to here).",
    ]


def test_an_epoch_that_counted_nothing_needs_no_accepted_rows() -> None:
    records, none = (epoch(0, counts={}),), RowTotals(pairs={}, positions={})

    assert texts(epochs.COMPLETENESS.check(facts(records=records, books=none, log=AWAY))) == ""


# N2


def test_an_epoch_that_was_left_out_is_named_behind_commits_that_carry_none() -> None:
    marks = (None, epoch(0).to_json(), "fold", epoch(2).to_json())
    commits = [EpochCommit(version=n, operation="WRITE", mark=mark) for n, mark in enumerate(marks)]

    assert list(epochs.find_misordered_epochs("clicks", commits)) == [
        "Epoch log of clicks: table version 3: expected epoch 1 after epoch 0 (version 1), got epoch 2."
    ]


def test_every_commit_of_a_driver_behind_its_fence_is_named() -> None:
    records = (epoch(0), epoch(1, run_id="pid-2-b"), epoch(2), epoch(3, run_id="pid-2-b"))

    assert [text.partition(": expected")[0] for text in epochs.find_fenced_commits("clicks", records)] == [
        "Epoch log of clicks: epoch 2",
        "Epoch log of clicks: epoch 3",
    ]


# N4

ROW = ResultRow(n=2, measures={"clicks": 2})


def of_portion(**changes: object) -> str:
    """Return what N4 says of one portion; nothing is expected or found in it but for the changes."""
    values: dict[str, object] = {
        "first_epoch": 4,
        "last_epoch": 4,
        "records": 0,
        "expected": {},
        "actual": {},
        "expected_ledger": frozenset(),
        "actual_ledger": frozenset(),
    }
    portion = RecomputedPortion(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests
    return texts(
        published_results.PREFIX.check(facts(prefix=Prefix(portions=(portion,), of_epochs=9, sampled=False, seed=0)))
    )


def test_a_row_of_one_epoch_is_named_by_its_number_and_by_all_parts_of_its_key() -> None:
    text = of_portion(expected={(0, 10 * MINUTE, ("a", None)): ROW})

    assert text == "Epoch 4, window 1970-01-01T00:00:00Z, key a, null: expected a row of 2 records, got no row."


@pytest.mark.parametrize(
    ("reason", "entry_text"),
    [(None, "late offset 3"), (Reason.TYPE, "late (type) offset 3")],
    ids=["plain", "with reason"],
)
def test_a_row_of_the_ledger_is_named_with_its_reason_where_it_has_one(reason: Reason | None, entry_text: str) -> None:
    entry = UncountedPair(cls=Class.LATE, partition=0, offset=3, window_start=0, event_time=7, reason=reason)

    assert f"Epoch 4: expected {entry_text} of partition 0, window" in of_portion(expected_ledger=frozenset({entry}))


# N6


def ahead(*, by: int, **changes: object) -> str:
    """Return what N6 says of an epoch whose watermark is at 3 min, where the log's timestamps allow so much less."""
    lateness = PIPELINE.lateness
    newest = 3 * MINUTE - by - lateness.max_ahead_micros + lateness.out_of_orderness_micros
    log = LogCounts(records={}, newest={2: newest}, is_complete=True)
    return texts(published_results.MONOTONICITY.check(facts(records=(*chain_of(2), epoch(2, **changes)), log=log)))


@pytest.mark.parametrize(("by", "holds"), [(0, True), (1, False)])
def test_a_watermark_reaches_the_newest_log_timestamp_and_what_may_be_ahead_of_it_and_no_further(
    by: int, *, holds: bool
) -> None:
    assert (ahead(by=by) == "") is holds


def test_a_watermark_that_stays_needs_no_newer_log_timestamp() -> None:
    assert ahead(by=90 * MINUTE, watermark_after=2 * MINUTE) == ""


def test_a_final_drain_needs_no_newer_log_timestamp() -> None:
    assert ahead(by=90 * MINUTE, final=True) == ""


def test_a_first_watermark_is_checked_by_its_own_epoch() -> None:
    log = LogCounts(records={}, newest={0: -60 * MINUTE}, is_complete=True)

    text = texts(published_results.MONOTONICITY.check(facts(log=log)))

    assert [line.partition(": expected")[0] for line in text.splitlines()] == ["Watermark of clicks, epoch 0"]


# What all checks share


def test_violations_up_to_the_limit_are_all_named() -> None:
    violation_texts = [violation.text for violation in cap_violations("N1", [f"text {n}" for n in range(MOST)])]

    assert violation_texts == [f"text {n}" for n in range(MOST)]
