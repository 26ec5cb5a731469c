"""N4 to N8 as pure functions over facts: no false violations, and planted ones are named."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from cutover.engine import queries
from cutover.lake.batch_runs import BatchRun
from cutover.reconcile.comparison.layout import same, to_plain
from cutover.reconcile.verify.facts.facts import (
    Finals,
    LogCounts,
    Paths,
    Prefix,
    RecomputedPortion,
    Refold,
    Reopened,
    RepeatedRuns,
)
from cutover.reconcile.verify.facts.rows import compare_results, have_same_cut, intersect_ranges
from cutover.reconcile.verify.invariants import published_results
from cutover.records.classes import Class
from cutover.records.reference import ResultRow, UncountedPair
from tests.unit.verify.epochs import MINUTE, chain_of, epoch
from tests.unit.verify.facts_of import PIPELINE, facts, texts

# N4

GROUP = (0, 10 * MINUTE, ("a",))
ENTRY = UncountedPair(cls=Class.LATE, partition=0, offset=3, window_start=0, event_time=7, reason=None)


def portion(**changes: object) -> RecomputedPortion:
    row = ResultRow(n=2, measures={"clicks": 2, "ids": Decimal(5)})
    values: dict[str, object] = {
        "first_epoch": 0,
        "last_epoch": 1,
        "records": 3,
        "expected": {GROUP: row},
        "actual": {GROUP: row},
        "expected_ledger": frozenset({ENTRY}),
        "actual_ledger": frozenset({ENTRY}),
    }
    return RecomputedPortion(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"actual": {}}, "window 1970-01-01T00:00:00Z, key a: expected a row of 2 records, got no row."),
        ({"expected": {}}, "expected no row, got a row of 2 records."),
        ({"actual": {GROUP: ResultRow(n=3, measures={"clicks": 3, "ids": 5})}}, "expected 2 records, got 3."),
        ({"actual": {GROUP: ResultRow(n=2, measures={"clicks": 2, "ids": 6})}}, "ids: expected 5, got 6."),
        ({"actual_ledger": frozenset()}, "Epochs 0 to 1: expected late offset 3 of partition 0"),
        ({"expected_ledger": frozenset()}, "expected no late offset 3 of partition 0"),
        ({"actual_ledger": frozenset({replace(ENTRY, event_time=8)})}, "event time 1970-01-01T00:00:00.000007Z in the"),
    ],
)
def test_an_epoch_that_is_not_right_is_named(changes: dict[str, object], text: str) -> None:
    prefix = Prefix(portions=(portion(**changes),), of_epochs=2, sampled=False, seed=0)

    assert text in texts(published_results.PREFIX.check(facts(prefix=prefix)))


def test_an_epoch_that_is_right_is_not_named() -> None:
    prefix = Prefix(portions=(portion(),), of_epochs=2, sampled=False, seed=0)

    assert list(published_results.PREFIX.check(facts(prefix=prefix))) == []


def test_recomputed_rows_are_added_up() -> None:
    other = portion(first_epoch=4, last_epoch=8, records=2, expected={}, actual={})
    prefix = Prefix(portions=(portion(), other), of_epochs=12, sampled=False, seed=0)

    assert published_results.PREFIX.describe_coverage(facts(prefix=prefix)) == "7 of 12 epochs, 5 records, 1 row"


def test_ids_that_are_those_of_the_log_are_not_named() -> None:
    ids = frozenset({("a", 7), (None, 8)})
    recomputed_portion = portion(expected_ids=ids, actual_ids=ids)

    assert not list(published_results.compare_ids(recomputed_portion))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"expected_ids": frozenset({("a", 7)})}, "expected id 'a', event time 1970-01-01T00:00:00.000007Z, to be"),
        ({"actual_ids": frozenset({("a", 7)})}, "expected no id 'a', event time 1970-01-01T00:00:00.000007Z, got one"),
        (
            {"expected_ids": frozenset({("a", 7)}), "actual_ids": frozenset({("a", 8)})},
            "expected no id 'a', event time 1970-01-01T00:00:00.000008Z",
        ),
    ],
)
def test_an_id_missing_from_the_log_is_named(changes: dict[str, object], text: str) -> None:
    prefix = Prefix(portions=(portion(**changes),), of_epochs=2, sampled=False, seed=1)

    assert text in texts(published_results.PREFIX.check(facts(prefix=prefix)))


def test_a_fold_that_changes_a_window_is_named() -> None:
    fold = Refold(version=9, windows=2, different=("window x: expected the result of the version before it.",))
    prefix = Prefix(portions=(), of_epochs=2, sampled=False, seed=0, folds=(fold,))

    assert texts(published_results.PREFIX.check(facts(prefix=prefix))).startswith("Fold in table version 9: window x")


@pytest.mark.parametrize(
    ("left_value", "right_value", "expected"),
    [
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.0001, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (None, None, True),
        (None, 0, False),
        (Decimal(5), 5, True),
        (Decimal("0.1"), Decimal("0.2"), False),
    ],
)
def test_values_are_the_same_but_for_the_order_of_float_sums(
    left_value: object, right_value: object, *, expected: bool
) -> None:
    assert same(left_value, right_value) is expected


def test_times_are_compared_in_utc_without_a_zone() -> None:
    assert to_plain(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1)  # noqa: DTZ001 -- what plain Python has


# N5


def test_unexplained_rows_are_named() -> None:
    paths = Paths(epoch=2, windows=3, rows=4, late_rows=1, unexplained=("Window w: expected 1 as in batch, got 2.",))

    assert (
        texts(published_results.PATH_AGREEMENT.check(facts(paths=paths))) == "Window w: expected 1 as in batch, got 2."
    )


# N6


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"watermark_after": 2 * MINUTE - 1000}, "epoch 2: expected not before 1970-01-01T00:02:00Z"),
        ({"watermark_after": None}, "epoch 2: expected not before"),
        ({"watermark_after": 3 * MINUTE + 1}, "epoch 2: expected at most 1970-01-01T00:03:00Z by its partitions"),
        (
            {"watermark_before": 2 * MINUTE - 1000},
            "epoch 2: expected to use watermark 1970-01-01T00:02:00Z, that of epoch 1",
        ),
        ({"max_event": {0: 9 * MINUTE, 1: 8 * MINUTE - 1}}, "by its partitions, got 1970-01-01T00:03:00Z."),
        ({"idle": (0, 1)}, "expected at most none by its partitions"),
    ],
)
def test_time_that_goes_back_or_ahead_is_named(changes: dict[str, object], text: str) -> None:
    assert text in texts(published_results.MONOTONICITY.check(facts(records=(*chain_of(2), epoch(2, **changes)))))


def test_an_idle_partition_does_not_hold_the_watermark() -> None:
    records = (*chain_of(2), epoch(2, idle=(1,), max_event={0: 8 * MINUTE, 1: 0}))

    assert list(published_results.MONOTONICITY.check(facts(records=records))) == []


def test_a_partition_that_wakes_does_not_pull_the_watermark_back() -> None:
    records = (*chain_of(2), epoch(2, watermark_after=2 * MINUTE, max_event={0: 8 * MINUTE, 1: 0}))

    assert list(published_results.MONOTONICITY.check(facts(records=records))) == []


@pytest.mark.parametrize(("closed_up_to", "holds"), [(10 * MINUTE, True), (10 * MINUTE + 1, False)])
def test_a_final_drain_closes_only_observed_windows(closed_up_to: int, *, holds: bool) -> None:
    records = (*chain_of(2), epoch(2, final=True, watermark_after=closed_up_to))

    assert (list(published_results.MONOTONICITY.check(facts(records=records))) == []) is holds


def test_a_watermark_ahead_of_the_log_is_named() -> None:
    log = LogCounts(records={}, newest=dict.fromkeys(range(3), -60 * MINUTE), is_complete=True)

    assert "by the newest log timestamp" in texts(published_results.MONOTONICITY.check(facts(log=log)))
    assert list(published_results.MONOTONICITY.check(facts(log=replace(log, is_complete=False)))) == []


def test_a_final_window_that_changes_is_named() -> None:
    finals = Finals(version=2, epoch=1, windows=4, changed_windows=(0,))
    opened = Reopened(epoch=2, window_start=0, watermark=11 * MINUTE, pairs=3)

    text = texts(published_results.MONOTONICITY.check(facts(finals=finals, reopened=(opened,))))

    assert "final at epoch 1: expected what table version 2 held, got another result." in text
    assert "expected no accepted record in epoch 2" in text


# N8


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("SELECT 1", ()),
        ("UPDATE b SET v = v + 1e-13 WHERE window_start = TIMESTAMPTZ '1970-01-01 00:10:00+00'", ()),
        ("UPDATE b SET v = v + 1 WHERE window_start = TIMESTAMPTZ '1970-01-01 00:10:00+00'", (10 * MINUTE,)),
        ("DELETE FROM b WHERE k IS NULL", (0,)),
        ("INSERT INTO b SELECT * FROM b WHERE k IS NULL", (0,)),
        ("UPDATE b SET _epoch = 7", ()),
    ],
)
def test_windows_whose_results_differ_have_changed(edit: str, expected: tuple[int, ...]) -> None:
    key = "CASE n WHEN 0 THEN NULL ELSE 'k' END AS k"
    rows = f"SELECT to_timestamp(600 * n) AS window_start, {key}, n / 3 AS v, n AS _epoch"
    with queries.open_duckdb() as connection:
        for name in ("a", "b"):
            connection.execute(f"CREATE TEMP TABLE {name} AS {rows} FROM range(3) t(n)")
        connection.execute(edit)
        results = compare_results(connection, PIPELINE, "a", "b")

    assert (results.windows, results.changed_windows) == (3, expected)


def test_a_cut_with_two_results_is_named() -> None:
    pair = RepeatedRuns(first_run="batch-1", second_run="batch-2", windows=2, changed_windows=(0,))

    assert "expected the result of batch run batch-1 from batch-2" in texts(
        published_results.DETERMINISM.check(facts(repeated=(pair,)))
    )


def test_only_windows_that_both_runs_computed_are_compared() -> None:
    assert intersect_ranges([(0, 30), (60, 90)], [(20, 70)]) == [(20, 30), (60, 70)]
    assert intersect_ranges([(0, 30)], [(30, 60)]) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, True), ({"cut": {0: 8}}, False), ({"topic_id": "x"}, False), ({"batch_version": 1}, False)],
)
def test_runs_agree_at_one_cut_of_one_log(changes: dict[str, object], *, expected: bool) -> None:
    raw = {
        "run_id": "a",
        "epoch": 2,
        "stream_version": 0,
        "topic": "t",
        "topic_id": "i",
        "cluster_id": "c",
        "cut": {0: 7},
        "scanned": {},
        "watermark": None,
        "result_fingerprint": "f",
        "batch_fingerprint": "same",
        "isolation": "read_committed",
        "computed": (),
        "batch_version": 1,
    }
    batch_run = BatchRun(**raw)  # type: ignore[arg-type]  # all by name
    second = BatchRun(**{**raw, "run_id": "b", "batch_version": 2, **changes})  # type: ignore[arg-type]  # all by name

    assert have_same_cut(batch_run, second) is expected
