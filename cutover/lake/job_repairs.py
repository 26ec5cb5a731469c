"""Draft of SQL that would correct the table of a team's own job, and the function that drafts it.

The reconciler compares such tables, and registers the function by entry point, so that no package imports it. The group
is `cutover.job_repairs`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Literal, cast

from cutover.errors import LakeError
from cutover.pipeline_lake import PipelineLake

GROUP, NAME = "cutover.job_repairs", "draft"

CHANGED, MISSING, EXTRA, REPEATED, LEFT_OUT = "changed", "missing", "extra", "repeated", "left out"
"""Rows that are updated, inserted, deleted, and deleted and inserted; and those for which the job has to run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRepair:
    """SQL that makes the rows of a job's table those that the definition says; Cutover never runs it."""

    job: Literal["streaming", "batch"]
    dialect: Literal["spark", "postgres"]
    table: str  # without secrets
    state: str  # of the table, for which it was drafted
    rows: Mapping[str, int]  # what is done with them -> (window, key) rows
    doubts: tuple[str, ...]  # what else than the job may have made rows differ: sentences
    next_step: str  # what to do with the statements: a sentence
    statements: tuple[str, ...]  # each without a semicolon; empty: nothing differs


DraftJobRepair = Callable[[PipelineLake, str], JobRepair]


def find_job_repair() -> DraftJobRepair:
    """Load the function that drafts SQL for the table of a pipeline's `streaming` or `batch` job.

    Raises:
        LakeError: This installation has none.
    """
    entries = entry_points(group=GROUP)
    if NAME not in entries.names:
        msg = f"Entry points `{GROUP}`: expected `{NAME}`, found none."
        raise LakeError(msg + "\nHint: `make setup` installs what this release registers.")
    return cast("DraftJobRepair", entries[NAME].load())
