"""Alerts on results: overdue batch run or comparison, a changed or wrong batch query, a pin that lasts too long."""

from datetime import timedelta

from cutover.clock import SystemClock
from cutover.infra.drills.drill import Drill, no_action
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.lake.control import pins
from cutover.lake.epochs.epoch_log import EpochLog

HOLDER = "drill"
OVERDUE_SCHEDULES = 30 / 3_600  # 30 seconds, as a fraction of the hourly schedule
TEAM_QUERY = 'Sql("legacy.sql")'
QUERY = """\
SELECT window.start AS window_start, carrier, count(*) AS flights, sum(id) AS ids, max(id) AS newest
FROM events WHERE _class = 'accepted' {condition} GROUP BY window(at, '10 seconds'), carrier
"""


def pin_for_too_long(stack: Stack) -> None:
    """Pin the latest epoch for longer than the table retains replaced files."""
    latest = EpochLog(stack.version.uri).newest()
    now = SystemClock().now()
    epoch = 0 if latest is None else latest.epoch
    pins.pin(stack.settings, stack.version, epoch, holder=HOLDER, expires_at=now + timedelta(days=30), now=now)


def release_stale_pin(stack: Stack) -> None:
    """Release the drill's pin, as its holder would when it is done."""
    now = SystemClock().now()
    for pin in pins.list_held_by_version(stack.settings, stack.version, now=now):
        if pin.holder == HOLDER:
            pins.release_pin(stack.settings, stack.version, pin.epoch, holder=HOLDER, now=now)


def compare(stack: Stack) -> None:
    """Compare both paths at the latest cut of batch, as the schedule does."""
    stack.require(f"cutover reconcile {PIPELINE}")


def recompute(stack: Stack) -> None:
    """Recompute the dirty windows, as the schedule does."""
    stack.require(f"cutover batch {PIPELINE}")


def compare_before_batch(stack: Stack) -> None:
    """Compare a new version of the stream before batch has run for it."""
    stack.require(f"cutover reconcile {PIPELINE}", 2)


def _write_query(stack: Stack, condition: str = "") -> None:
    stack.define(batch=TEAM_QUERY)
    (stack.root / "pipelines" / "legacy.sql").write_text(QUERY.format(condition=condition), encoding="utf-8")


def break_query(stack: Stack) -> None:
    """Run batch with a SQL query that drops a carrier, and compare both paths."""
    _write_query(stack, "AND NOT (carrier <=> 'UA')")
    recompute(stack)
    stack.require(f"cutover reconcile {PIPELINE}", 1)


def fix_query(stack: Stack) -> None:
    """Write the correct query, as the runbook requests from its owner."""
    _write_query(stack)


def change_definition(stack: Stack) -> None:
    """Change the definition to a SQL query, and compare both paths before batch has run with it."""
    _write_query(stack)
    stack.require(f"cutover reconcile {PIPELINE}", 2)


DRILLS = (
    Drill(
        name="PinnedVersionAtRisk",
        title="a reader pins an epoch for a month",
        inject=pin_for_too_long,
        external_repair=release_stale_pin,
        quick=True,
    ),
    Drill(
        name="ReconcilerNotRunning",
        title="no comparison runs for longer than two schedules",
        inject=no_action,
        sustain_clear=compare,
        scale={"reconcile_schedules": OVERDUE_SCHEDULES},
    ),
    Drill(
        name="BatchNotFresh",
        title="batch does not run for longer than two schedules",
        inject=no_action,
        sustain_clear=recompute,
        scale={"batch_schedules": OVERDUE_SCHEDULES},
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
        title="the definition's batch query changes, and batch has not run with it",
        inject=change_definition,
        case="meant",
        is_isolated=True,
    ),
    Drill(
        name="DivergenceUnexplained",
        title="the batch query drops a carrier",
        inject=break_query,
        external_repair=fix_query,
        is_isolated=True,
    ),
)
