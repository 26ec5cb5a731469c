"""Each check as a pure function over facts: silent on what is right, naming what is planted."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from cutover.definition import Count, Fixed, Lateness, Pipeline, Sum, Topic
from cutover.lake import tables
from cutover.lake.batch_runs import BatchRun
from cutover.lake.witnesses import Witness
from cutover.records.classes import Class
from cutover.records.reference import LedgerRow, Row
from reconcile.verify import n1_books, n2_one_effect, n3_no_gap, n4_prefix, n5_paths, n6_forward, n8_same_story
from reconcile.verify.equal import plain, same
from reconcile.verify.facts import (
    Books,
    Commit,
    Doubt,
    Facts,
    Finals,
    LogCounts,
    Paths,
    Portion,
    Prefix,
    Refold,
    Reopened,
    Twice,
)
from reconcile.verify.model import MOST, Unknown, Violation, capped
from reconcile.verify.results import compared, overlap, same_cut
from tests.unit.verify.epochs import COUNTS, MINUTE, chain_of, epoch

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="id bigint NOT NULL, k string, at timestamp NOT NULL", event_time="at"),
    key=("k",),
    window=Fixed(minutes=10),
    measures={"clicks": Count(), "ids": Sum("id")},
    lateness=Lateness(out_of_orderness="5 minutes", allowed="0 seconds", max_ahead="1 hour"),
)


def facts(**changes: object) -> Facts:
    """Return the facts of three epochs in which everything holds, but for the changes."""
    records = tuple(chain_of(3))
    values: dict[str, object] = {
        "stream": "clicks",
        "pipeline": PIPELINE,
        "records": records,
        "transaction": 2,
        "table_version": 3,
        "commits": (
            Commit(version=0, operation="CREATE TABLE", mark=None),
            *(Commit(version=r.epoch + 1, operation="WRITE", mark=r.to_json()) for r in records),
        ),
        "books": Books(pairs={(n, "accepted"): 10 for n in range(3)}, listed={}),
        "log": LogCounts(
            records={(n, p): 5 for n in range(3) for p in range(2)},
            newest={n: (n + 7) * MINUTE for n in range(3)},
            whole=True,
        ),
        "reopened": (),
        "twice": (),
    }
    return Facts(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests


def texts(found: Iterable[Violation]) -> str:
    return "\n".join(violation.text for violation in found)


@pytest.mark.parametrize(
    "check", [m.check for m in (n1_books, n2_one_effect, n3_no_gap, n4_prefix, n5_paths, n6_forward, n8_same_story)]
)
def test_what_is_right_is_not_named(check: Callable[[Facts], Iterable[Violation]]) -> None:
    assert list(check(facts())) == []


# N1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"log": LogCounts(records={(1, 0): 5, (1, 1): 4}, newest={}, whole=False)},
            "Epoch 1 of clicks: the log holds 9 records in 0: [5, 10), 1: [5, 10), expected 10 by the classes",
        ),
        (
            {"books": Books(pairs={(n, "accepted"): 10 for n in range(2)}, listed={})},
            "Epoch 2 of clicks: expected accepted rows of 10 pairs, got 0 (-10 up to here).",
        ),
        (
            {"books": Books(pairs={(0, "accepted"): 10, (2, "accepted"): 21}, listed={})},
            "Epochs 1 to 2 of clicks: expected accepted rows of 20 pairs, got 21 (+1 up to here).",
        ),
        (
            {
                "books": Books(
                    pairs={**{(n, "accepted"): 10 for n in range(3)}, (1, "late"): 1}, listed={(1, "late"): 1}
                )
            },
            "Epoch 1 of clicks: expected 0 late pairs as it counted, got rows of 1.",
        ),
        (
            {"books": Books(pairs={**{(n, "accepted"): 10 for n in range(3)}, (7, "late"): 1}, listed={})},
            "Epoch log of clicks: expected an epoch 7 for 1 late pairs, got none.",
        ),
        (
            {
                "books": Books(
                    pairs={(n, "accepted"): 10 for n in range(3)},
                    listed={},
                    doubts=(Doubt(why="it stands twice", epoch=1, partition=0, offset=7, rows=2),),
                )
            },
            "Ledger, epoch 1, partition 0, offset 7: it stands twice (2 rows).",
        ),
    ],
)
def test_books_that_do_not_balance_are_named(changes: dict[str, object], text: str) -> None:
    assert text in texts(n1_books.check(facts(**changes)))


def test_a_ledger_that_lists_fewer_positions_than_pairs_is_named() -> None:
    late = {**COUNTS, "late": 2}
    records = (epoch(0, counts=late),)
    books = Books(pairs={(0, "accepted"): 10, (0, "late"): 2}, listed={(0, "late"): 1})

    found = texts(n1_books.check(facts(records=records, books=books, log=Unknown(why="away"))))

    assert found == "Epoch 0 of clicks: expected 2 late pairs as it counted, got 1 positions in the ledger."


def test_folded_rows_are_counted_under_their_last_epoch() -> None:
    books = Books(pairs={(1, "accepted"): 20, (2, "accepted"): 10}, listed={})

    assert list(n1_books.check(facts(books=books))) == []


@pytest.mark.parametrize(
    ("counts", "size", "every", "expected"),
    [
        ({"accepted": 7, "malformed": 2, "filtered": 1}, 10, 10, (10, 10)),
        ({"accepted": 6, "late": 2, "malformed": 1}, 20, 10, (5, 5)),
        ({"accepted": 6}, 25, 10, (2, 3)),
        ({}, 10, 10, (0, 0)),
    ],
)
def test_pairs_bound_their_records(counts: dict[str, int], size: int, every: int, expected: tuple[int, int]) -> None:
    assert n1_books.record_bounds(counts, size, every) == expected


# N2


def commits(*marks: str | None, operation: str = "WRITE") -> tuple[Commit, ...]:
    return tuple(Commit(version=n, operation=operation, mark=mark) for n, mark in enumerate(marks))


def of(number: int) -> str:
    return epoch(number).to_json()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"records": (*chain_of(3), epoch(2))}, "epoch 2: expected one record, got 2: it was committed twice."),
        (
            {"records": (epoch(0), epoch(1, run_id="pid-2-b"), epoch(2))},
            "epoch 2: expected no commit of pid-1-a after epoch 1 of pid-2-b had fenced it, got one.",
        ),
        (
            {"commits": commits(of(0), of(2))},
            "table version 1: expected epoch 1 after epoch 0 (version 0), got epoch 2.",
        ),
        (
            {"commits": commits(of(0), of(0))},
            "table version 1: expected epoch 1 after epoch 0 (version 0), got epoch 0.",
        ),
        ({"commits": commits(of(0), None)}, "table version 1: expected an epoch or a fold, got WRITE without a record"),
        ({"commits": commits(None, operation="DELETE")}, "got DELETE without a record"),
        ({"commits": commits(None, operation="RESTORE")}, "got RESTORE without a record"),
        (
            {"commits": commits(epoch(1, end={0: 10, 1: 9}).to_json())},
            "epoch 1: expected the record that table version 0 brought, got another one.",
        ),
    ],
)
def test_more_than_one_effect_is_named(changes: dict[str, object], text: str) -> None:
    assert text in texts(n2_one_effect.check(facts(**changes)))


def test_folds_and_upkeep_are_no_strangers() -> None:
    found = (*commits(of(0), "fold"), Commit(version=2, operation="OPTIMIZE", mark=None))

    assert list(n2_one_effect.check(facts(commits=found))) == []


def test_drivers_that_follow_one_another_hold() -> None:
    records = (epoch(0), epoch(1, run_id="pid-2-b"), epoch(2, run_id="pid-2-b"))

    assert list(n2_one_effect.drivers("clicks", records)) == []


# N3


@pytest.mark.parametrize(
    ("witness", "holds"),
    [
        (Witness(who="a reader", epoch=2, end={0: 15, 1: 15}, table_version=3), True),
        (Witness(who="a reader", epoch=3), False),
        (Witness(who="a reader", epoch=1, end={0: 10, 1: 11}), False),
        (Witness(who="a reader", epoch=1, table_version=4), False),
    ],
)
def test_what_somebody_saw_must_still_be_there(witness: Witness, *, holds: bool) -> None:
    assert (list(n3_no_gap.check(facts(seen=(witness,)))) == []) is holds


# N4

GROUP = (0, 10 * MINUTE, ("a",))
ENTRY = LedgerRow(cls=Class.LATE, partition=0, offset=3, window_start=0, event_time=7, reason=None)


def portion(**changes: object) -> Portion:
    row = Row(n=2, measures={"clicks": 2, "ids": Decimal(5)})
    values: dict[str, object] = {
        "first": 0,
        "last": 1,
        "records": 3,
        "expected": {GROUP: row},
        "found": {GROUP: row},
        "expected_ledger": frozenset({ENTRY}),
        "found_ledger": frozenset({ENTRY}),
    }
    return Portion(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"found": {}}, "window 1970-01-01T00:00:00Z, key a: expected a row of 2 records, got no row."),
        ({"expected": {}}, "expected no row, got a row of 2 records."),
        ({"found": {GROUP: Row(n=3, measures={"clicks": 3, "ids": 5})}}, "expected 2 records, got 3."),
        ({"found": {GROUP: Row(n=2, measures={"clicks": 2, "ids": 6})}}, "ids: expected 5, got 6."),
        ({"found_ledger": frozenset()}, "Epochs 0 to 1: expected late offset 3 of partition 0"),
        ({"expected_ledger": frozenset()}, "expected no late offset 3 of partition 0"),
        ({"found_ledger": frozenset({replace(ENTRY, event_time=8)})}, "event time 1970-01-01T00:00:00.000007Z in the"),
    ],
)
def test_an_epoch_that_is_not_right_is_named(changes: dict[str, object], text: str) -> None:
    prefix = Prefix(portions=(portion(**changes),), of_epochs=2, sampled=False, seed=0)

    assert text in texts(n4_prefix.check(facts(prefix=prefix)))


def test_an_epoch_that_is_right_is_not_named() -> None:
    prefix = Prefix(portions=(portion(),), of_epochs=2, sampled=False, seed=0)

    assert list(n4_prefix.check(facts(prefix=prefix))) == []


def test_a_fold_that_changes_a_window_is_named() -> None:
    fold = Refold(version=9, windows=2, different=("window x: expected the result of the version before it.",))
    prefix = Prefix(portions=(), of_epochs=2, sampled=False, seed=0, folds=(fold,))

    assert texts(n4_prefix.check(facts(prefix=prefix))).startswith("Fold in table version 9: window x")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
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
def test_values_are_the_same_but_for_the_order_of_float_sums(left: object, right: object, *, expected: bool) -> None:
    assert same(left, right) is expected


def test_times_are_compared_in_utc_without_a_zone() -> None:
    assert plain(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1)  # noqa: DTZ001 -- what plain Python has


# N5


def test_what_nothing_explains_is_named() -> None:
    paths = Paths(epoch=2, windows=3, rows=4, late_rows=1, unexplained=("Window w: expected 1 as in batch, got 2.",))

    assert texts(n5_paths.check(facts(paths=paths))) == "Window w: expected 1 as in batch, got 2."


# N6


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"watermark_after": 2 * MINUTE - 1000}, "epoch 2: expected not before 1970-01-01T00:02:00Z"),
        ({"watermark_after": None}, "epoch 2: expected not before"),
        ({"watermark_after": 3 * MINUTE + 1}, "epoch 2: expected at most 1970-01-01T00:03:00Z by its partitions"),
        (
            {"watermark_before": 2 * MINUTE - 1000},
            "epoch 2: expected to judge by 1970-01-01T00:02:00Z, that of epoch 1",
        ),
        ({"max_event": {0: 9 * MINUTE, 1: 8 * MINUTE - 1}}, "by its partitions, got 1970-01-01T00:03:00Z."),
        ({"idle": (0, 1)}, "expected at most none by its partitions"),
    ],
)
def test_time_that_goes_back_or_ahead_is_named(changed: dict[str, object], text: str) -> None:
    assert text in texts(n6_forward.check(facts(records=(*chain_of(2), epoch(2, **changed)))))


def test_an_idle_partition_does_not_hold_the_watermark() -> None:
    records = (*chain_of(2), epoch(2, idle=(1,), max_event={0: 8 * MINUTE, 1: 0}))

    assert list(n6_forward.check(facts(records=records))) == []


def test_a_partition_that_wakes_does_not_pull_the_watermark_back() -> None:
    records = (*chain_of(2), epoch(2, watermark_after=2 * MINUTE, max_event={0: 8 * MINUTE, 1: 0}))

    assert list(n6_forward.check(facts(records=records))) == []


@pytest.mark.parametrize(("reached", "holds"), [(10 * MINUTE, True), (10 * MINUTE + 1, False)])
def test_a_final_drain_closes_the_windows_seen_and_no_more(reached: int, *, holds: bool) -> None:
    records = (*chain_of(2), epoch(2, final=True, watermark_after=reached))

    assert (list(n6_forward.check(facts(records=records))) == []) is holds


def test_a_watermark_ahead_of_the_log_is_named() -> None:
    log = LogCounts(records={}, newest=dict.fromkeys(range(3), -60 * MINUTE), whole=True)

    assert "by the newest log timestamp" in texts(n6_forward.check(facts(log=log)))
    assert list(n6_forward.check(facts(log=replace(log, whole=False)))) == []


def test_a_final_window_that_changes_is_named() -> None:
    finals = Finals(version=2, epoch=1, windows=4, changed=(0,))
    opened = Reopened(epoch=2, window_start=0, watermark=11 * MINUTE, pairs=3)

    found = texts(n6_forward.check(facts(finals=finals, reopened=(opened,))))

    assert "final at epoch 1: expected what table version 2 held, got another result." in found
    assert "expected no accepted record in epoch 2" in found


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
    with tables.connect() as connection:
        for name in ("a", "b"):
            connection.execute(f"CREATE TABLE {name} AS {rows} FROM range(3) t(n)")
        connection.execute(edit)
        found = compared(connection, ("k",), "a", "b")

    assert (found.windows, found.changed) == (3, expected)


def test_a_cut_with_two_results_is_named() -> None:
    pair = Twice(first_run="batch-1", second_run="batch-2", windows=2, changed=(0,))

    assert "expected the result of batch run batch-1 from batch-2" in texts(n8_same_story.check(facts(twice=(pair,))))


def test_only_windows_that_both_runs_computed_are_compared() -> None:
    assert overlap([(0, 30), (60, 90)], [(20, 70)], 10) == [(20, 20), (60, 60)]
    assert overlap([(0, 30)], [(25, 60)], 10) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, True), ({"cut": {0: 8}}, False), ({"topic_id": "x"}, False), ({"batch_version": 1}, False)],
)
def test_runs_have_one_story_at_one_cut_of_one_log(changes: dict[str, object], *, expected: bool) -> None:
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
    first = BatchRun(**raw)  # type: ignore[arg-type]  # all by name
    second = BatchRun(**{**raw, "run_id": "b", "batch_version": 2, **changes})  # type: ignore[arg-type]  # all by name

    assert same_cut(first, second) is expected


# What all checks share


def test_the_first_violations_are_named_and_the_others_counted() -> None:
    found = [*capped("N1", [f"text {n}" for n in range(MOST + 5)])]

    assert (len(found), found[-1].text) == (MOST + 1, "... and 5 more like the last one.")


def test_a_commit_that_is_no_json_object_carries_no_epoch() -> None:
    marks = ["fold", None, "7", json.dumps({"epoch": "7"}), json.dumps({"epoch": 7})]

    assert [n2_one_effect.epoch_of(commit) for commit in commits(*marks)] == [None, None, None, None, 7]
