"""Coverage of each check: examined facts, and omitted ones with their reason."""

from dataclasses import replace

import pytest

from cutover.reconcile.verify.facts.facts import (
    NOT_REQUESTED,
    Finals,
    LogCounts,
    Paths,
    Prefix,
    RecomputedPortion,
    Refold,
    RepeatedRuns,
    Unknown,
)
from cutover.reconcile.verify.invariants import epochs, published_results
from cutover.records.reference import ResultRow
from tests.support.log.losses import LOSS
from tests.unit.verify.epochs import chain_of, epoch
from tests.unit.verify.facts_of import facts, texts

COUNTED = LogCounts(records={(1, 0): 5, (1, 1): 5, (2, 0): 1_000}, newest={}, is_complete=False)
AWAY = Unknown(reason="the broker is away")


def test_records_that_were_counted_again_are_added_up_by_epoch() -> None:
    assert epochs.COMPLETENESS.describe_coverage(facts(log=COUNTED)) == "2 of 3 epochs, 1,010 records"
    assert epochs.COMPLETENESS.describe_coverage(facts(log=AWAY)) == "3 epochs"


def test_uncounted_epochs_are_reported_with_a_reason() -> None:
    omitted = replace(COUNTED, omission="Epochs 0 to 1 are not in the log any more.")

    assert [*epochs.COMPLETENESS.list_notes(facts(log=omitted))] == ["Epochs 0 to 1 are not in the log any more."]
    assert (
        [*epochs.COMPLETENESS.list_notes(facts(log=COUNTED))]
        == [*epochs.COMPLETENESS.list_notes(facts(log=AWAY))]
        == []
    )


def test_retained_commits_are_counted() -> None:
    assert epochs.SINGLE_EFFECT.describe_coverage(facts()) == "3 epochs, 4 kept commits"
    assert epochs.SINGLE_EFFECT.describe_coverage(facts(commits=AWAY)) == "3 epochs, 0 kept commits"


def test_offsets_are_counted_from_where_each_epoch_began_and_from_0_in_a_new_partition() -> None:
    grown = epoch(3, end={0: 20, 1: 20, 2: 1_007})

    assert epochs.CONTIGUITY.describe_coverage(facts()) == "3 epochs, 30 offsets"
    assert epochs.CONTIGUITY.describe_coverage(facts(records=(*chain_of(3), grown))) == "4 epochs, 1,047 offsets"


def test_a_log_that_starts_after_0_is_reported_by_its_first_epoch() -> None:
    late_start = epoch(0, start={0: 0, 1: 1_200})

    assert [*epochs.CONTIGUITY.list_notes(facts(records=(late_start, epoch(1))))] == [
        "Partition 1 was read from offset 1,200 on: the log held nothing before it."
    ]
    assert [*epochs.CONTIGUITY.list_notes(facts())] == []


@pytest.mark.parametrize(("following", "end"), [(6_000, "6,000"), (None, "an unknown offset")])
def test_a_recorded_loss_is_reported_with_offsets_and_reason(following: int | None, end: str) -> None:
    loss = replace(LOSS, partition=1, first=4_000, next=following)

    assert [*epochs.CONTIGUITY.list_notes(facts(losses=(loss,)))] == [
        f"Partition 1: offsets 4,000 to {end} are a recorded loss (me: retention)."
    ]


def portion(**changes: object) -> RecomputedPortion:
    none = frozenset[object]()
    values: dict[str, object] = {"expected": {}, "actual": {}, "expected_ledger": none, "actual_ledger": none}
    values |= {"first_epoch": 4, "last_epoch": 4, "records": 0, **changes}
    return RecomputedPortion(**values)  # type: ignore[arg-type]  # changes are named by the tests


FOLDS = (Refold(version=8, windows=1, different=()), Refold(version=9, windows=1, different=()))


def test_folds_that_were_held_against_the_version_before_are_counted() -> None:
    with_folds = Prefix(portions=(portion(),), of_epochs=2_000, sampled=False, seed=0, folds=FOLDS)

    assert (
        published_results.PREFIX.describe_coverage(facts(prefix=with_folds))
        == "1 of 2,000 epochs, 0 records, 0 rows, 2 folds"
    )
    assert published_results.PREFIX.describe_coverage(facts(prefix=AWAY)) == ""


def test_epochs_records_and_rows_of_all_portions_are_added_up() -> None:
    row = ResultRow(n=1, measures={})
    rows = {(start, start + 1, ()): row for start in range(3)}
    portions = (
        portion(first_epoch=4, last_epoch=5, records=7, expected=rows),
        portion(first_epoch=8, last_epoch=8, records=4, expected=rows),
    )
    prefix = Prefix(portions=portions, of_epochs=9, sampled=False, seed=0)

    assert published_results.PREFIX.describe_coverage(facts(prefix=prefix)) == "3 of 9 epochs, 11 records, 6 rows"


def test_a_sample_is_reported_with_its_seed_and_omissions() -> None:
    sample = Prefix(portions=(), of_epochs=2, sampled=True, seed=7, omission="Epoch 0 is not in the log any more.")

    assert [*published_results.PREFIX.list_notes(facts(prefix=sample))] == [
        "A sample of the epochs was recomputed (--seed 7); --all recomputes all of them.",
        "Epoch 0 is not in the log any more.",
    ]
    assert [*published_results.PREFIX.list_notes(facts(prefix=replace(sample, sampled=False, omission="")))] == []
    assert [*published_results.PREFIX.list_notes(facts(prefix=AWAY))] == []


PATHS = Paths(epoch=2, windows=3_000, rows=4_000, late_rows=1, unexplained=())


def test_rows_of_the_newest_comparison_are_counted() -> None:
    compared = "3,000 windows, 4,000 rows at epoch 2, 1 differ by late rows"

    assert published_results.PATH_AGREEMENT.describe_coverage(facts(paths=PATHS)) == compared
    assert published_results.PATH_AGREEMENT.describe_coverage(facts(paths=AWAY)) == ""


def test_accepted_rows_and_incomplete_windows_are_reported() -> None:
    agreement = replace(PATHS, accepted=1_000, incomplete=2_000)

    assert [*published_results.PATH_AGREEMENT.list_notes(facts(paths=agreement))] == [
        "1,000 rows have no cause and a rule that accepts this: no violation.",
        "2,000 windows are incomplete: records were lost, or their batch results are not complete.",
    ]
    assert (
        [*published_results.PATH_AGREEMENT.list_notes(facts(paths=PATHS))]
        == [*published_results.PATH_AGREEMENT.list_notes(facts(paths=AWAY))]
        == []
    )


def test_windows_that_were_final_are_counted() -> None:
    finals = Finals(version=2, epoch=1, windows=4_000, changed_windows=())

    assert (
        published_results.MONOTONICITY.describe_coverage(facts(finals=finals))
        == "3 epochs, 4,000 windows final at epoch 1"
    )
    assert published_results.MONOTONICITY.describe_coverage(facts(finals=AWAY)) == "3 epochs"


def test_time_that_could_not_be_compared_is_reported_with_a_reason() -> None:
    finals = Finals(version=2, epoch=1, windows=4, changed_windows=())

    assert [*published_results.MONOTONICITY.list_notes(facts(finals=AWAY, log=AWAY))] == [
        "the broker is away",
        "The watermark was not compared with the log's timestamps: the broker is away",
    ]
    assert [*published_results.MONOTONICITY.list_notes(facts(finals=finals, log=COUNTED))] == [
        "The watermark was compared with the log's timestamps only as far as the log was read."
    ]
    assert [*published_results.MONOTONICITY.list_notes(facts(finals=finals))] == []


def test_windows_that_two_runs_computed_are_added_up() -> None:
    pairs = tuple(RepeatedRuns(first_run="a", second_run=name, windows=1_000, changed_windows=()) for name in "bc")

    assert published_results.DETERMINISM.describe_coverage(facts(repeated=pairs)) == "2,000 windows of 2 pairs of runs"
    assert published_results.DETERMINISM.describe_coverage(facts(repeated=())) == "no cut was computed twice"
    assert published_results.DETERMINISM.describe_coverage(facts(repeated=NOT_REQUESTED)) == ""


def test_foreign_changes_are_named_if_readable() -> None:
    assert (
        texts(published_results.SOLE_WRITER.check(facts(foreign=("Table `a`: expected one.",))))
        == "Table `a`: expected one."
    )
    assert published_results.SOLE_WRITER.describe_coverage(facts(foreign=())) == "the newest version of each table"
    assert [*published_results.SOLE_WRITER.check(facts(foreign=AWAY))] == []
    assert published_results.SOLE_WRITER.describe_coverage(facts(foreign=AWAY)) == ""
