"""A driver that dies between two commits, in each delivery: what is doubled, what is lost, and who says so."""

from dataclasses import dataclass, replace

import pytest

from cutover.batch import recompute
from cutover.clock import Point, SystemClock
from cutover.definition.model.pipeline import Delivery
from cutover.errors import CutoverError
from cutover.lake.serving import views
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.pages.capabilities import note_feature

EVENTS = [Event(id=i, minute=i, key="ab"[i % 2], partition=i % 2) for i in range(60)]
AT_ONCE, DIES = 15, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A broken delivery and its expected effect."""

    delivery: Delivery
    point: Point
    times: int  # that each record of the epoch counts
    reason: str | None  # why its windows are not judged
    limit: int = 200_000  # partial rows beyond which the epoch is written by Spark


@pytest.mark.quick("at_most_once-200000")
@pytest.mark.parametrize(
    "case",
    [
        Case(delivery="exactly_once", point="epoch.aggregated", times=1, reason=None),
        Case(delivery="at_least_once", point="epoch.apart", times=2, reason="doubled"),
        Case(delivery="at_most_once", point="epoch.apart", times=0, reason="lost"),
        Case(delivery="at_least_once", point="epoch.apart", times=2, reason="doubled", limit=1),
    ],
    ids=lambda case: f"{case.delivery}-{case.limit}",
)
def test_driver_that_dies_doubles_or_loses_what_its_delivery_allows_and_it_is_named(
    quick: Settings, topic: str, case: Case
) -> None:
    settings = rig.fast(quick, overflow_rows=case.limit)
    pipeline = replace(rig.pipeline(topic, cap=AT_ONCE), delivery=case.delivery)
    rig.send(settings, topic, EVENTS)

    def dies(point: Point, epoch: int) -> None:
        if (point, epoch) == (case.point, DIES):
            msg = "the driver was killed"
            raise OSError(msg)

    lake = PipelineLake(settings, pipeline)
    with pytest.raises(CutoverError):
        driver.run_driver(lake, until="drain", probe=dies)
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)

    touched = rig.records(lake)[DIES]
    hit = [e for e in EVENTS if touched.start[e.partition] <= e.id // 2 < touched.end[e.partition]]
    other_events = [e for e in EVENTS if e not in hit]
    assert len(hit) in range(1, AT_ONCE + 1)
    assert rig.count_by_cell(lake) == rig.expect_cells([*other_events, *hit * case.times])
    assert report.finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
    assert set(report.finding.windows.incomplete_because) == ({case.reason} if case.reason else set())
    assert report.finding.windows.compared > 0
    notes = [note for note in report.finding.notes if note.startswith(("Doubled: epoch 1, ", "Lost: epoch 1, "))]
    assert len(notes) == (0 if case.reason is None else 1)
    with views.open_views(lake, epoch=DIES) as connection:  # its rows add up to what was written of them
        states = {str(row[0]) for row in connection.execute("SELECT DISTINCT _state FROM streaming").fetchall()}
    assert {state for state in states if "(" in state} == ({f"incomplete({case.reason})"} if case.reason else set())
    checks = verify_pipeline(lake, clock=SystemClock()).checks
    check_states = {name: checks[name].state for name in ("N1", "N2", "N4", "N5")}
    once = CheckState.HELD if case.reason is None else CheckState.WAIVED
    assert check_states == {"N1": once, "N2": once, "N4": once, "N5": CheckState.HELD}
    note_feature(f"delivery: {case.delivery}", "streaming")
