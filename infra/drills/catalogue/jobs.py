"""Alerts on jobs that Cutover did not write: a stopped or broken streaming job, a table without its position."""

import os
from pathlib import Path

from deltalake import CommitProperties, write_deltalake

from cutover.engine import queries
from cutover.infra.drills.catalogue.results import compare, recompute
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.lake.tables import delta

FEW_RECORDS = 6
ROWS = "SELECT window_start, carrier, flights, ids, newest FROM computed"


def run_job(stack: Stack) -> None:
    """Send records, and run the streaming job over them, as its owners would start it again."""
    stack.records.send(FEW_RECORDS)
    stack.run_job()


def send_unread(stack: Stack) -> None:
    """Send records while the streaming job does not run."""
    stack.records.send(FEW_RECORDS)


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


DRILLS = (
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
