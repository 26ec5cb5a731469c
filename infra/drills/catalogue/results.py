"""Alerts on what was computed: nobody computes or compares, another SQL, an epoch that is held for too long."""

from datetime import timedelta

from cutover.clock import SystemClock
from cutover.infra.drills.drill import Drill, nothing
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.lake.control import pins
from cutover.lake.epochs.epoch_log import EpochLog

HOLDER = "drill"
SOON = 30 / 3_600  # of the schedule, an hour: 30 seconds
TEAMS_OWN = 'Sql("legacy.sql")'
QUERY = """\
SELECT window.start AS window_start, carrier, count(*) AS flights, sum(id) AS ids, max(id) AS newest
FROM events WHERE _class = 'accepted' {further} GROUP BY window(at, '10 seconds'), carrier
"""


def pin_for_too_long(stack: Stack) -> None:
    """Hold the newest epoch for longer than the table keeps files that were replaced."""
    newest = EpochLog(stack.version.uri).newest()
    now = SystemClock().now()
    expires = now + timedelta(days=30)
    epoch = 0 if newest is None else newest.epoch
    pins.pin(stack.settings, stack.version, epoch, holder=HOLDER, expires_at=expires, now=now)


def release(stack: Stack) -> None:
    """Let it go, whichever epochs came since: the holder is done."""
    now = SystemClock().now()
    for pin in pins.list_held_by_version(stack.settings, stack.version, now=now):
        if pin.holder == HOLDER:
            pins.release(stack.settings, stack.version, pin.epoch, holder=HOLDER, now=now)


def compare(stack: Stack) -> None:
    """Compare at the newest cut of batch, as the schedule does."""
    stack.require(f"cutover reconcile {PIPELINE}")


def recompute(stack: Stack) -> None:
    """Compute what is dirty, as the schedule does."""
    stack.require(f"cutover batch {PIPELINE}")


def compare_before_batch(stack: Stack) -> None:
    """Compare a new version of the stream before batch has run for it."""
    stack.require(f"cutover reconcile {PIPELINE}", 2)


def _write_query(stack: Stack, further: str = "") -> None:
    stack.define(batch=TEAMS_OWN)
    (stack.root / "pipelines" / "legacy.sql").write_text(QUERY.format(further=further), encoding="utf-8")


def change_query(stack: Stack) -> None:
    """Let batch compute by a query of the team's that leaves a carrier out, and compare."""
    _write_query(stack, "AND NOT (carrier <=> 'UA')")
    recompute(stack)
    stack.require(f"cutover reconcile {PIPELINE}", 1)


def mend_query(stack: Stack) -> None:
    """Write the query as it should be, as its owner was asked to."""
    _write_query(stack)


def change_definition(stack: Stack) -> None:
    """Name a query of the team's in the definition, and compare before batch has run by it."""
    _write_query(stack)
    stack.require(f"cutover reconcile {PIPELINE}", 2)


DRILLS = (
    Drill(
        name="PinnedVersionAtRisk",
        title="a reader holds an epoch for a month",
        inject=pin_for_too_long,
        heal=release,
        quick=True,
    ),
    Drill(
        name="ReconcilerNotRunning",
        title="no comparison runs for longer than two schedules",
        inject=nothing,
        before=compare,
        scale={"reconcile_schedules": SOON},
    ),
    Drill(
        name="BatchNotFresh",
        title="batch does not run for longer than two schedules",
        inject=nothing,
        before=recompute,
        scale={"batch_schedules": SOON},
    ),
    Drill(
        name="NotComparable",
        title="a new version of the stream is compared before batch has run for it",
        inject=compare_before_batch,
        case="batch",
        definition={"max_ahead": "2 hours"},
    ),
    Drill(
        name="SealBroken",
        title="the definition names another batch query, and batch has not run with it",
        inject=change_definition,
        case="meant",
        fresh=True,
    ),
    Drill(
        name="DivergenceUnexplained",
        title="the batch query omits a carrier",
        inject=change_query,
        heal=mend_query,
        fresh=True,
    ),
)
