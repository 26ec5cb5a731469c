"""The last similar incident is the newest resolved one; an ongoing incident is not its own precedent."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cutover.lake.journal_rows import Loss
from cutover.reconcile.incident import list_of_checks, list_of_comparisons, list_of_losses
from cutover.reconcile.journal_rows import VerificationRow
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.verdict.records import RecordedComparison
from tests.support.history.journal_rows import make_row

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def comparison(hour: int, verdict: Verdict, *, page: str | None = None) -> RecordedComparison:
    breaches = [] if page is None else [{"code": "unreadable", "runbook": page}]
    return RecordedComparison(
        run_id=f"r{hour}",
        key="",
        content="",
        first_recorded=NOON + timedelta(hours=hour),
        last_recorded=NOON + timedelta(hours=hour),
        settled=NOON + timedelta(hours=hour),
        times=1,
        first_sequence=hour,
        sequence=hour,
        fingerprint="f",
        version=0,
        epoch=hour,
        has_cut=True,
        covers_all_windows=True,
        verdict=verdict,
        exit_code=0,
        result={"seal": {"breaches": breaches}},
        skipped_ranges=(),
        report=None,
    )


def checks(hour: int, **states: str) -> VerificationRow:
    return make_row(VerificationRow, at=NOON + timedelta(hours=hour), epoch=hour, checks=json.dumps(states))


def loss(hour: int, kind: str, *, sequence: int, partition: int = 0) -> Loss:
    at = NOON + timedelta(hours=hour)
    row: dict[str, Any] = {"kind": kind, "at": at, "sequence": sequence, "partition": partition}
    return make_row(Loss, **row, topic="flights", who="ada", why="disk lost a file")


def test_verdict_followed_by_another_one_is_an_incident() -> None:
    lines = [comparison(1, Verdict.DIVERGED), comparison(2, Verdict.CONSISTENT), comparison(3, Verdict.DIVERGED)]

    incidents = list(list_of_comparisons(lines, "DivergenceUnexplained"))

    assert [incident.text for incident in incidents] == ["a comparison came to DIVERGED at epoch 1 (run r1)"]


def test_broken_seal_is_an_incident_of_the_page_that_it_names() -> None:
    lines = [comparison(1, Verdict.NOT_COMPARABLE, page="TableUnreadable"), comparison(2, Verdict.CONSISTENT)]

    assert len(list(list_of_comparisons(lines, "TableUnreadable"))) == 1
    assert list(list_of_comparisons(lines, "SealBroken")) == []


def test_violated_checks_that_later_passed_are_an_incident() -> None:
    rows = [checks(1, N1="violated", N2="held"), checks(2, N1="held", N2="held"), checks(3, N2="violated")]

    assert [incident.text for incident in list_of_checks(rows, "InvariantBroken")] == ["N1 violated at epoch 1"]
    assert list(list_of_checks(rows, "NoInput")) == []


def test_each_accepted_loss_is_one_incident_with_author_and_reason() -> None:
    rows = [loss(1, "gap", sequence=0), loss(1, "gap", sequence=0, partition=1), loss(2, "anew", sequence=1)]

    losses, restarts = (list(list_of_losses(rows, name)) for name in ("LogDataLost", "TableUnreadable"))

    assert losses[0].text == "a loss was accepted (2 partitions of flights, ada: disk lost a file)"
    assert [incident.at for incident in restarts] == [NOON + timedelta(hours=2)]
