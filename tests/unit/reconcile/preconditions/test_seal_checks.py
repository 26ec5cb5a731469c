"""Breaches of the seal as complete values (code, message, runbook), and the thresholds at which they begin."""

from dataclasses import replace
from typing import Any

import pytest

from cutover.engine.effective_settings import EffectiveSettings
from cutover.lake.batch_runs import BatchRun
from cutover.reconcile.preconditions.checks import ClassCounts, SealFacts, SettingsOfSides, breaches
from cutover.reconcile.result.finding import SealBreach
from tests.support.log.losses import LOSS
from tests.unit.verify.epochs import MINUTE, chain_of

ALIKE = EffectiveSettings({"jvm": {"locale": "en_US"}})
RECORDS = tuple(replace(record, in_force=ALIKE.digest) for record in chain_of(3))
PAIRS = {record.epoch: {"accepted": 10, "late": 1} for record in RECORDS}
BOOKS = ClassCounts(up_to_cut={"accepted": 30}, in_all={"accepted": 30})
RUN = BatchRun(
    run_id="batch-1",
    epoch=2,
    stream_version=0,
    topic="clicks",
    topic_id="topic-1",
    cluster_id="cluster-1",
    cut={0: 15, 1: 15},
    scanned={},
    watermark=3 * MINUTE,
    result_fingerprint="f",
    batch_fingerprint="same",
    isolation="read_committed",
    computed=(),
    batch_version=4,
)
AT_1 = replace(RUN, epoch=1, cut={0: 10, 1: 10}, watermark=2 * MINUTE)  # the stream has gone on by one epoch
TO_1 = ClassCounts(up_to_cut={"accepted": 20}, in_all={"accepted": 30})


def facts(**changes: Any) -> SealFacts:
    """Build the facts of a seal that holds, except for the changes."""
    values: dict[str, Any] = {
        "stream": "clicks/f/stream-0", "definition": "f", "batch_definition": "same", "records": RECORDS,
        "transaction": 2, "doubts": (), "losses": (), "run": RUN, "unaccounted": None, "books": BOOKS, "pairs": PAIRS,
        "settings": SettingsOfSides(
            pipeline="clicks", by_digest={ALIKE.digest: ALIKE}, batch="batch-1", by_batch=ALIKE, of_process=ALIKE
        ),
    }  # fmt: skip
    return SealFacts(**(values | changes))


def with_epoch(number: int, **changes: Any) -> tuple[Any, ...]:
    return tuple(replace(record, **changes) if record.epoch == number else record for record in RECORDS)


def history(message: str) -> SealBreach:
    return SealBreach(code="history", message=message, runbook="EpochHistoryBroken")


def sealed(code: str, message: str, runbook: str = "SealBroken") -> SealBreach:
    return SealBreach(code=code, message=message, runbook=runbook)


@pytest.mark.parametrize("changes", [{}, {"run": AT_1, "books": TO_1}], ids=["newest epoch", "an epoch before it"])
def test_two_sides_of_one_log_and_one_cut_are_comparable(changes: dict[str, Any]) -> None:
    assert breaches(facts(**changes)) == ()


LOG = "Log `clicks`: epoch 1 read topic id"
OTHER_LOG = "batch read topic-1 of cluster-1: another log under the same name."

BROKEN: dict[str, tuple[dict[str, Any], tuple[SealBreach, ...]]] = {
    "what others saw": ({"doubts": ("A reader saw epoch 7.",)}, (history("A reader saw epoch 7."),)),
    "transaction": (
        {"transaction": 3},
        (history("Epoch log of clicks/f/stream-0: transaction says 3, newest epoch row is 2."),),
    ),
    "cut": (
        {"run": replace(RUN, cut={0: 15, 1: 14})},
        (
            SealBreach(
                code="cut",
                message="Cut of epoch 2: the stream ends at {0: 15, 1: 15}, batch run batch-1 at {0: 15, 1: 14}.",
                runbook="NotComparable",
            ),
        ),
    ),
    "watermark": (
        {"run": replace(RUN, watermark=None)},
        (
            SealBreach(
                code="cut",
                message="Watermark at epoch 2: the stream has 180000000, the batch run took None.",
                runbook="NotComparable",
            ),
        ),
    ),
    "rows that no run left": (
        {"unaccounted": ("2026-01-01T00:00:00Z", 9)},
        (
            SealBreach(
                code="cut",
                message=(
                    "Batch table at version 4, window 2026-01-01T00:00:00Z: expected rows as the last recorded run over"
                    " it left them, got rows of epoch 9: a run was interrupted, or the table was edited."
                ),
                runbook="NotComparable",
            ),
        ),
    ),
    "result fingerprint of batch": (
        {"run": replace(RUN, result_fingerprint="g")},
        (sealed("fingerprint", "Result fingerprint: the definition has f, batch ran with g."),),
    ),
    "result fingerprint of epochs": (
        {"records": with_epoch(1, result_fingerprint="g")},
        (sealed("fingerprint", "Result fingerprint: the definition has f, streaming ran with f, g."),),
    ),
    "lateness": (
        {"records": with_epoch(1, lateness_fingerprint="m")},
        (sealed("fingerprint", "Lateness fingerprint: expected one, epochs have l, m."),),
    ),
    "SQL of the team": (
        {"run": replace(RUN, batch_fingerprint="abc")},
        (sealed("fingerprint", "Batch definition: now same, batch ran with abc."),),
    ),
    "isolation": (
        {"run": replace(RUN, isolation="read_uncommitted")},
        (sealed("isolation", "Isolation: batch read read_uncommitted, streaming read read_committed."),),
    ),
    "topic id": (
        {"records": with_epoch(1, topic_id="topic-2")},
        (sealed("log_identity", f"{LOG} topic-2 of cluster cluster-1, {OTHER_LOG}", "TopicIdentityChanged"),),
    ),
    "cluster": (
        {"records": with_epoch(1, cluster_id="cluster-2")},
        (sealed("log_identity", f"{LOG} topic-1 of cluster cluster-2, {OTHER_LOG}", "TopicIdentityChanged"),),
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_breach_is_reported_alone_with_both_sides(case: str) -> None:
    changes, expected = BROKEN[case]

    assert breaches(facts(**changes)) == expected


def test_the_first_epoch_of_another_log_is_named() -> None:
    seal_breaches = breaches(facts(run=replace(RUN, topic_id="topic-2")))

    assert [(breach.code, breach.message[:33]) for breach in seal_breaches] == [
        ("log_identity", "Log `clicks`: epoch 0 read topic "),
    ]


def test_the_first_break_between_epochs_is_named_and_a_recorded_loss_excuses_it() -> None:
    records_with_gap = (*RECORDS[:2], replace(RECORDS[2], start={0: 12, 1: 13}))
    losses = [replace(LOSS, topic_id="topic-1", epoch=2, partition=p, first=10, next=12 + p) for p in (0, 1)]

    assert breaches(facts(records=records_with_gap)) == (
        history(
            "Epoch log of clicks/f/stream-0: epoch 2, topic clicks, partition 0: "
            "expected to start at 10, got 12 (end 15)."
        ),
    )
    assert breaches(facts(records=records_with_gap, losses=tuple(losses))) == ()


@pytest.mark.parametrize(
    ("changes", "newest"),
    [({"run": replace(RUN, epoch=7)}, "2"), ({"records": (), "transaction": None}, "None")],
    ids=["a later epoch", "no epoch at all"],
)
def test_a_cut_whose_epoch_is_not_there_is_a_broken_history(changes: dict[str, Any], newest: str) -> None:
    run = changes.get("run", RUN)

    seal_breaches = breaches(facts(**changes))

    message = (
        f"Batch run batch-1 is at the cut of epoch {run.epoch}, newest epoch row of clicks/f/stream-0 is {newest}."
    )
    assert [breach for breach in seal_breaches if breach.code == "history"] == [history(message)]


def test_a_stream_without_an_epoch_ran_with_nothing_and_read_nothing() -> None:
    messages = {breach.message for breach in breaches(facts(records=(), transaction=None))}

    assert "Result fingerprint: the definition has f, streaming ran with none." in messages
    assert "Isolation: batch read read_committed, streaming read nothing." in messages


def test_epochs_behind_the_cut_may_run_under_other_terms() -> None:
    other = replace(RECORDS[2], result_fingerprint="g", lateness_fingerprint="m", isolation="else", topic_id="topic-2")

    assert breaches(facts(records=(*RECORDS[:2], other), run=AT_1, books=TO_1)) == ()


def test_settings_that_are_not_recorded_break_the_seal() -> None:
    unsaid = replace(facts().settings, by_batch=None)

    assert breaches(facts(settings=unsaid)) == (
        sealed(
            "settings",
            "Settings in force: expected every epoch and run to record them, got none of batch run batch-1.",
        ),
    )


def make_counts(up_to_cut: int, in_all: int) -> ClassCounts:
    return ClassCounts(up_to_cut={"accepted": up_to_cut}, in_all={"accepted": in_all})


FOLD = (
    "Cut of epoch 1: 20 accepted pairs up to it, {} can still be identified:"
    " a fold merged epochs across it, and no pin held it."
)


@pytest.mark.parametrize(
    ("books", "folded_to", "remaining"),
    [
        (make_counts(20, 30), None, None),
        (make_counts(19, 30), None, 19),  # all counted rows exist, but fewer of them up to the cut
        (make_counts(19, 29), None, None),  # rows are missing, but no fold merged them
        (make_counts(19, 29), 1, None),  # a fold that ended at the cut
        (make_counts(19, 29), 2, 19),  # a fold that went beyond it
        (make_counts(20, 29), 2, None),
        (ClassCounts(up_to_cut={}, in_all={"accepted": 30}), None, 0),
    ],
)
def test_rows_folded_across_the_cut_cannot_be_compared(
    books: ClassCounts, folded_to: int | None, remaining: int | None
) -> None:
    records = with_epoch(2, folded_to=folded_to)

    seal_breaches = breaches(facts(records=records, run=AT_1, books=books))

    assert seal_breaches == (() if remaining is None else (sealed("folded", FOLD.format(remaining), "NotComparable"),))


@pytest.mark.parametrize(
    ("accepted", "books", "remaining"),
    [
        ((0, 0, 0), ClassCounts(up_to_cut={}, in_all={}), None),
        ((10, 10, 0), make_counts(15, 20), 15),
        ((1, 0, 0), ClassCounts(up_to_cut={}, in_all={}), None),  # rows are missing, but no fold merged them
    ],
    ids=["nothing", "nothing behind the cut", "nothing is left"],
)
def test_epochs_that_accepted_nothing_add_nothing(
    accepted: tuple[int, ...], books: ClassCounts, remaining: int | None
) -> None:
    pairs = {number: {"accepted": n} if n else {"late": 1} for number, n in enumerate(accepted)}

    seal_breaches = breaches(facts(pairs=pairs, run=AT_1, books=books))

    assert seal_breaches == (() if remaining is None else (sealed("folded", FOLD.format(remaining), "NotComparable"),))
