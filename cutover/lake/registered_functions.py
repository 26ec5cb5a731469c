"""Functions that paths and reconciler register by entry point, so that no package imports them.

Group `cutover.repeats`: a repeat is a function of settings, a definition, epochs and a progress callback. It yields the
location of a temporary epoch log, which serves no reader and is deleted afterwards. A recompute is a function of
settings, a definition, windows and a clock: it yields settings under which the batch tables are temporary, too.

Group `cutover.job_repairs`: the function that drafts SQL which would correct the table of a team's own job.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Literal, cast

from cutover.clock import Clock
from cutover.errors import LakeError
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

if TYPE_CHECKING:
    from cutover.lake.epochs.epoch_log import EpochRecord

EpochDone = Callable[[int, int], None]  # number of finished epochs, number of all epochs
Repeat = Callable[[PipelineLake, Sequence["EpochRecord"], EpochDone], AbstractContextManager[str]]
Recompute = Callable[[PipelineLake, Sequence[tuple[int, int]], Clock], AbstractContextManager[Settings]]

REPEATS, STREAMING, BATCH = "cutover.repeats", "streaming", "batch"
JOB_REPAIRS, DRAFT = "cutover.job_repairs", "draft"

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
    return cast("DraftJobRepair", _load(JOB_REPAIRS, DRAFT))


def find_repeat() -> Repeat:
    """Load the repeat of the streaming path.

    Raises:
        LakeError: This installation has none.
    """
    return cast("Repeat", _load(REPEATS, STREAMING))


def find_recompute() -> Recompute:
    """Load the function that recomputes windows by the batch path, without changing its tables.

    Raises:
        LakeError: This installation has none.
    """
    return cast("Recompute", _load(REPEATS, BATCH))


def _load(group: str, name: str) -> object:
    entries = entry_points(group=group)
    if name not in entries.names:
        msg = f"Entry points `{group}`: expected `{name}`, found none."
        raise LakeError(msg + "\nHint: `make setup` installs what this release registers.")
    return entries[name].load()
