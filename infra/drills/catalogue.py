"""All drills: of results, tables, jobs and a pipeline in KAPPA, and those of `log_drills`.

Results: overdue batch run or comparison, a changed or wrong batch query, a pin that lasts too long. Tables: a foreign
write, a missing file, a restored version, a violated check. Jobs that Cutover did not write: a stopped or broken
streaming job, a table without its position. KAPPA: an audit is overdue, or an audit finds wrong windows. A drill shares
a pipeline with others unless it is isolated.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, write_deltalake

from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.engine import queries
from cutover.infra.demo.retirement import plant_defect
from cutover.infra.drills.log_drills import INPUT_DRILLS, LOG_DRILLS
from cutover.infra.drills.stack import PIPELINE, Drill, Stack, no_action
from cutover.lake.control import pins
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import GateEvent
from cutover.lake.tables import delta

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


RESULT_DRILLS = (
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


def open_batch_table(stack: Stack) -> DeltaTable:
    """Open the batch table at its latest version."""
    return DeltaTable(stack.lake.batch_uri())


def delete_rows(stack: Stack) -> None:
    """Delete rows of the batch table, as a notebook could."""
    open_batch_table(stack).delete("carrier = 'AA'")


def delete_rows_and_verify(stack: Stack) -> None:
    """Delete rows of the batch table, and run the checks."""
    delete_rows(stack)
    stack.require(f"cutover verify {PIPELINE}", 1)


def restore_table(stack: Stack) -> None:
    """Restore an earlier version of the stream's table, as a user could to get yesterday's rows."""
    stack.stop_driver()
    table = DeltaTable(stack.version.uri)
    table.restore(table.version() - 2)


def remove_file(stack: Stack) -> None:
    """Remove a file of the batch table, as a cleanup job could, and compare both paths."""
    Path(min(open_batch_table(stack).file_uris()).removeprefix("file://")).unlink()
    stack.require(f"cutover reconcile {PIPELINE}", 2)


LAKE_DRILLS = (
    Drill(
        name="ForeignWrite",
        title="a foreign job deletes rows of the batch table",
        inject=delete_rows,
        case="batch",
    ),
    Drill(
        name="TableUnreadable",
        title="a file of the batch table is removed",
        inject=remove_file,
        case="batch",
    ),
    Drill(
        name="EpochHistoryBroken",
        title="an earlier version of the stream's table is restored",
        inject=restore_table,
        is_isolated=True,
    ),
    Drill(
        name="InvariantBroken",
        title="rows of the batch table are deleted, and the checks run",
        inject=delete_rows_and_verify,
        case="batch",
    ),
)


UNREAD_RECORDS = 6
ROWS = "SELECT window_start, carrier, flights, ids, newest FROM computed"


def run_job(stack: Stack) -> None:
    """Send records, and run the streaming job over them, as its owners would start it again."""
    stack.records.send(UNREAD_RECORDS)
    stack.run_job()


def send_unread(stack: Stack) -> None:
    """Send records while the streaming job does not run."""
    stack.records.send(UNREAD_RECORDS)


def _get_checkpoint(stack: Stack) -> Path:
    return stack.job_folder / "checkpoint"


def remove_checkpoint(stack: Stack) -> None:
    """Move the checkpoint of the streaming job away, as a cleanup job could."""
    _get_checkpoint(stack).rename(stack.job_folder / "backup")


def restore_checkpoint(stack: Stack) -> None:
    """Restore the checkpoint, as its owners do from a backup, and start the job again."""
    (stack.job_folder / "backup").rename(_get_checkpoint(stack))
    run_job(stack)


def write_nightly(stack: Stack, position: str = "") -> None:
    """Replace the table of a batch job by the figures of the log, with a position in the commit if there is one."""
    with queries.open_duckdb() as connection:
        delta.relation(connection, "computed", stack.lake.batch_uri())
        rows = queries.query_table(connection, ROWS)
    properties = CommitProperties(custom_metadata={"userMetadata": position}) if position else None
    write_deltalake(os.fspath(stack.home / "nightly"), rows, mode="overwrite", commit_properties=properties)


def begin_nightly(stack: Stack) -> None:
    """Run the batch job with its cut for the first time, and compare."""
    write_nightly_at_cut(stack)
    recompute(stack)
    compare(stack)


def write_nightly_at_cut(stack: Stack) -> None:
    """Run the batch job with its cut, as the runbook requests from its owners."""
    recompute(stack)
    write_nightly(stack, stack.require(f"cutover cut {PIPELINE}").printed.strip())


def write_nightly_without_cut(stack: Stack) -> None:
    """Run the batch job without its cut, as someone could by hand, and compare."""
    write_nightly(stack)
    stack.require(f"cutover reconcile {PIPELINE}", 2)


JOB_DRILLS = (
    Drill(
        name="JobTableUnusable",
        title="a batch job runs without its cut",
        inject=write_nightly_without_cut,
        external_repair=write_nightly_at_cut,
        prepare=begin_nightly,
        definition={"batch": 'BatchJob(table=Delta("{home}/nightly"))'},
        is_isolated=True,
    ),
    Drill(
        name="FollowedJobStopped",
        title="a streaming job does not run while records arrive",
        prepare=run_job,
        inject=send_unread,
        external_repair=run_job,
        definition={"follows_job": "yes", "job_reads_within": "5 seconds"},
        is_isolated=True,
    ),
    Drill(
        name="FollowedJobBroken",
        title="the checkpoint of a streaming job is removed",
        prepare=run_job,
        inject=remove_checkpoint,
        external_repair=restore_checkpoint,
        definition={"follows_job": "yes"},
        is_isolated=True,
    ),
)


OVERDUE_AUDIT_SCHEDULES = 30 / 86_400  # 30 seconds, as a fraction of the daily schedule


def retire_batch(stack: Stack) -> None:
    """Write the move to KAPPA without the day of evidence and the approvals that it usually requires."""
    event = GateEvent(
        pipeline=PIPELINE,
        at=SystemClock().now(),
        event="advanced",
        stage=Stage.KAPPA,
        result_fingerprint=result_fingerprint(stack.lake.pipeline),
        stream_version=stack.version.number,
        who="drill",
        why="drill",
        next_comparison=0,
    )
    Journal(stack.settings, PIPELINE, GateEvent).append(event)


def run_audit(stack: Stack) -> None:
    """Audit a sample of windows, as `flights_audit` does each day."""
    stack.require(f"cutover audit windows {PIPELINE}")


def cause_regression(stack: Stack) -> None:
    """Retire batch, corrupt rows of all final windows, and audit them."""
    retire_batch(stack)
    plant_defect(stack.lake, column="ids", share=1.0)
    stack.require(f"cutover audit windows {PIPELINE}", 1)


def replay_stream(stack: Stack) -> None:
    """Replay the log into a new version of the stream and serve it, as the runbook says; then run batch."""
    stack.stop_driver()
    stack.require(f"cutover replay {PIPELINE} --into 1")
    stack.require(f'cutover serve {PIPELINE} --version 1 --uncompared --why "the rows of version 0 are wrong"')
    stack.start_driver()
    stack.await_read()
    stack.require(f"cutover batch {PIPELINE}")


RETIREMENT_DRILLS = (
    Drill(
        name="AuditNotFresh",
        title="batch is retired, and no audit runs",
        inject=retire_batch,
        external_repair=run_audit,
        scale={"audit_schedules": OVERDUE_AUDIT_SCHEDULES},
        is_isolated=True,
    ),
    Drill(
        name="RetirementRegression",
        title="batch is retired, rows of final windows are corrupted, and an audit detects them",
        inject=cause_regression,
        external_repair=replay_stream,
        case="by-hand",
        is_isolated=True,
    ),
)

ALL = (*RESULT_DRILLS, *LAKE_DRILLS, *INPUT_DRILLS, *LOG_DRILLS, *JOB_DRILLS, *RETIREMENT_DRILLS)
"""All drills in the order in which they run."""

DRILLS: Mapping[str, Drill] = {drill.name: drill for drill in ALL}
