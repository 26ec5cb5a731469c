"""N1 to N3 and shared parts of the checks as pure functions: no false violations, and planted ones are named."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from cutover.definition.windows.kinds import SlidingWindows
from cutover.lake.integrity import lost_records
from cutover.lake.integrity.high_water import Witness
from cutover.reconcile.verify.facts.facts import (
    MOST,
    EpochCommit,
    LedgerFault,
    LogCounts,
    RowTotals,
    Unknown,
    VerifyFacts,
    Violation,
    cap_violations,
)
from cutover.reconcile.verify.invariants import epochs, published_results
from tests.unit.verify.epochs import COUNTS, chain_of, epoch
from tests.unit.verify.facts_of import facts, texts


@pytest.mark.parametrize(
    "check",
    [
        m.check
        for m in (
            epochs.COMPLETENESS,
            epochs.SINGLE_EFFECT,
            epochs.CONTIGUITY,
            published_results.PREFIX,
            published_results.PATH_AGREEMENT,
            published_results.MONOTONICITY,
            published_results.DETERMINISM,
        )
    ],
)
def test_consistent_facts_have_no_violation(check: Callable[[VerifyFacts], Iterable[Violation]]) -> None:
    assert list(check(facts())) == []


# N1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"log": LogCounts(records={(1, 0): 5, (1, 1): 4}, newest={}, is_complete=False)},
            "Epoch 1 of clicks: the log holds 9 records in 0: [5, 10), 1: [5, 10), expected 10 by the classes",
        ),
        (
            {"books": RowTotals(pairs={(n, "accepted"): 10 for n in range(2)}, positions={})},
            "Epoch 2 of clicks: expected accepted rows of 10 pairs, got 0 (-10 up to here).",
        ),
        (
            {"books": RowTotals(pairs={(0, "accepted"): 10, (2, "accepted"): 21}, positions={})},
            "Epochs 1 to 2 of clicks: expected accepted rows of 20 pairs, got 21 (+1 up to here).",
        ),
        (
            {
                "books": RowTotals(
                    pairs={**{(n, "accepted"): 10 for n in range(3)}, (1, "late"): 1}, positions={(1, "late"): 1}
                )
            },
            "Epoch 1 of clicks: expected 0 late pairs as it counted, got rows of 1.",
        ),
        (
            {"books": RowTotals(pairs={**{(n, "accepted"): 10 for n in range(3)}, (7, "late"): 1}, positions={})},
            "Epoch log of clicks: expected an epoch 7 for 1 late pairs, got none.",
        ),
        (
            {
                "books": RowTotals(
                    pairs={(n, "accepted"): 10 for n in range(3)},
                    positions={},
                    doubts=(LedgerFault(fault="it stands twice", epoch=1, partition=0, offset=7, rows=2),),
                )
            },
            "Ledger, epoch 1, partition 0, offset 7: it stands twice (2 rows).",
        ),
    ],
)
def test_books_that_do_not_balance_are_named(changes: dict[str, object], text: str) -> None:
    assert text in texts(epochs.COMPLETENESS.check(facts(**changes)))


def test_a_ledger_that_lists_fewer_positions_than_pairs_is_named() -> None:
    late = {**COUNTS, "late": 2}
    records = (epoch(0, counts=late),)
    books = RowTotals(pairs={(0, "accepted"): 10, (0, "late"): 2}, positions={(0, "late"): 1})

    text = texts(epochs.COMPLETENESS.check(facts(records=records, books=books, log=Unknown(reason="away"))))

    assert text == "Epoch 0 of clicks: expected 2 late pairs as it counted, got 1 position in the ledger."


def test_folded_rows_are_counted_under_their_last_epoch() -> None:
    books = RowTotals(pairs={(1, "accepted"): 20, (2, "accepted"): 10}, positions={})

    assert list(epochs.COMPLETENESS.check(facts(books=books))) == []


@pytest.mark.parametrize(
    ("counts", "size", "step", "expected"),
    [
        ({"accepted": 7, "malformed": 2, "filtered": 1}, 10, 10, (10, 10)),
        ({"accepted": 6, "late": 2, "malformed": 1}, 20, 10, (5, 5)),
        ({"accepted": 6}, 25, 10, (2, 3)),
        ({}, 10, 10, (0, 0)),
    ],
)
def test_pairs_bound_their_records(counts: dict[str, int], size: int, step: int, expected: tuple[int, int]) -> None:
    assert lost_records.record_bounds(counts, SlidingWindows(size=size, every=step)) == expected


# N2


def commits(*marks: str | None, operation: str = "WRITE") -> tuple[EpochCommit, ...]:
    return tuple(EpochCommit(version=n, operation=operation, mark=mark) for n, mark in enumerate(marks))


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
            "epoch 1: expected the record that table version 0 committed, got another one.",
        ),
    ],
)
def test_more_than_one_effect_is_named(changes: dict[str, object], text: str) -> None:
    assert text in texts(epochs.SINGLE_EFFECT.check(facts(**changes)))


def test_folds_and_compaction_are_not_foreign() -> None:
    epoch_commits = (*commits(of(0), "fold"), EpochCommit(version=2, operation="OPTIMIZE", mark=None))

    assert list(epochs.SINGLE_EFFECT.check(facts(commits=epoch_commits))) == []


def restored(version: int, back_to: int) -> EpochCommit:
    return EpochCommit(version=version, operation="RESTORE", mark=None, restored_version=back_to)


def test_a_reverted_foreign_commit_is_no_violation() -> None:
    hand = commits(of(0), None, None)
    epoch_commits = (*hand, restored(3, 0), replace(commits(of(1))[0], version=4))

    assert list(epochs.find_foreign_commits("clicks", hand)) != []
    assert list(epochs.find_foreign_commits("clicks", epoch_commits)) == []


@pytest.mark.parametrize(
    "epoch_commits",
    [
        (*commits(of(0), None, of(1)), restored(3, 0)),  # took back an epoch
        (*commits(of(0), None, "fold"), restored(3, 0)),  # and a fold
        (*commits(of(0), None, None), restored(3, 1)),  # left one of two
        (*commits(of(0))[:1], restored(3, 0)),  # the version in between is unknown
        (*commits(of(0), None), EpochCommit(version=2, operation="RESTORE", mark=None)),  # to a time
    ],
)
def test_a_restore_of_more_or_less_than_a_foreign_commit_is_foreign(epoch_commits: tuple[EpochCommit, ...]) -> None:
    assert list(epochs.find_foreign_commits("clicks", epoch_commits)) != []


def test_consecutive_drivers_hold() -> None:
    records = (epoch(0), epoch(1, run_id="pid-2-b"), epoch(2, run_id="pid-2-b"))

    assert list(epochs.find_fenced_commits("clicks", records)) == []


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
def test_witnessed_epochs_must_still_exist(witness: Witness, *, holds: bool) -> None:
    assert (list(epochs.CONTIGUITY.check(facts(witnesses=(witness,)))) == []) is holds


# What all checks share


def test_the_first_violations_are_named_and_the_others_counted() -> None:
    violations = [*cap_violations("N1", [f"text {n}" for n in range(MOST + 5)])]

    assert (len(violations), violations[-1].text) == (MOST + 1, "... and 5 more like the last one.")


def test_a_commit_that_is_no_json_object_carries_no_epoch() -> None:
    marks = ["fold", None, "7", json.dumps({"epoch": "7"}), json.dumps({"epoch": 7})]

    assert [epochs.parse_epoch(commit) for commit in commits(*marks)] == [None, None, None, None, 7]
