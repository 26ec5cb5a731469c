"""Recorded differences: their runs, and the author and reason of a closed one."""

import json
from datetime import UTC, datetime

import pytest

from cutover.changes import user
from cutover.errors import DefinitionError
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.result.finding import Difference, Finding, Seal, Verdict
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.verdict import history, lifecycle, records
from cutover.reconcile.verdict.lifecycle import OpenDifference
from cutover.settings import Settings

NOW = datetime(2026, 1, 2, tzinfo=UTC)
FOUND = Difference(
    window_start="2026-01-01T00:00:00Z",
    key={"shop": "a"},
    measure="revenue",
    kind="changed",
    streaming=1,
    batch=2,
    difference=1 - 2,
    cause="unexplained",
)


def record(settings: Settings, *, holds: bool = True) -> None:
    """Record a comparison with one unexplained row."""
    finding = Finding(
        pipeline="sales",
        verdict=Verdict.DIVERGED,
        exit_code=1,
        sentence="They differ.",
        seal=Seal(epoch=3, holds=holds, stream_version=0),
        differences=(FOUND,),
        differences_total=1,
    )
    outcome = ComparisonOutcome(finding=finding)
    entry = history.find_entry(settings, outcome, run_id="run-1", fingerprint="f", version=0, at=NOW)
    history.record_comparison(settings, outcome, entry, None)


def read_open(settings: Settings) -> list[OpenDifference]:
    lines = records.of_definition(records.read_comparisons(settings, "sales"), "f")
    return list(lifecycle.fold_open_differences(settings, "sales", lines, 0).values())


@pytest.mark.parametrize(
    ("holds", "version", "expected"),
    [
        pytest.param(True, None, [("run-1", '{"shop": "a"}')], id="of the version that serves"),
        pytest.param(True, 1, [], id="of a parallel version"),
        pytest.param(False, None, [], id="not comparable"),
        pytest.param(False, 1, [], id="neither"),
    ],
)
def test_differences_live_where_the_serving_version_was_compared_while_each_run_has_its_row(
    settings: Settings, holds: bool, version: int | None, expected: list[tuple[str, str]]
) -> None:
    record(settings.model_copy(update={"stream_version": version}), holds=holds)

    rows = Journal(settings, "sales", DifferenceEvent).read()
    assert [(row.run_id, row.key) for row in rows] == expected
    assert [row.run_id for row in Journal(settings, "sales", ComparisonRow).read()] == ["run-1"]


def test_a_difference_that_was_closed_is_off_the_list_and_keeps_who_and_why(settings: Settings) -> None:
    record(settings)
    (open_difference,) = read_open(settings)

    lifecycle.close(settings, "sales", "f", open_difference, " a backfill ", NOW)

    row = Journal(settings, "sales", DifferenceEvent).read()[-1]
    assert json.loads(row.detail or "") == {"who": user(), "why": "a backfill"}
    assert (row.state, row.run_id, row.at) == ("closed", "run-1", NOW)
    assert read_open(settings) == []


def test_a_difference_is_not_closed_without_a_reason(settings: Settings) -> None:
    record(settings)
    (open_difference,) = read_open(settings)

    with pytest.raises(DefinitionError, match="Resolve: expected a reason"):
        lifecycle.close(settings, "sales", "f", open_difference, "  ", NOW)

    assert read_open(settings) == [open_difference]
