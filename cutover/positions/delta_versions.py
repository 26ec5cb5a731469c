"""Versions of the Delta table that a streaming query writes, each with the batch that wrote it.

A native Delta sink marks its commits with the id of the query and the number of the batch. A MERGE or append in
foreachBatch is marked if the job sets `spark.databricks.delta.write.txnAppId` and `txnVersion`. Otherwise the time
tells: the driver's clock writes both the time at which a batch was planned and that of a commit, and one batch ends
before the next one is planned. A table has one evidence for all of its versions, the strongest that any shows; a
version that lacks it was written by someone else.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from deltalake import DeltaTable

from cutover.errors import LakeError
from cutover.lake.tables import delta, delta_log
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint

_MAINTENANCE = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "CLUSTER BY", "COMPUTE STATS"})


class Evidence(StrEnum):
    """By what a version is assigned to its batch."""

    QUERY = "query id"
    MARK = "mark of the job"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """One version of a table that changes its rows."""

    version: int
    operation: str  # `MERGE`, `STREAMING UPDATE`, ...
    committed_at: int  # microseconds
    batch: int | None  # None: an older one than the checkpoint keeps, or no batch
    evidence: Evidence | None  # None: without a batch
    is_foreign: bool  # it was not written by the query


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """What one commit that changes rows says of its writer."""

    version: int
    operation: str
    committed_at: int  # microseconds
    marks: Mapping[str, int]  # application id -> version of the transaction
    query_id: str | None  # of the streaming query that Delta's own sink names


@dataclass(slots=True)
class TableLog:
    """Commits of a table that have been read, so that a follower reads only new ones."""

    table_id: str | None = None
    commits: dict[int, _Commit | None] = field(default_factory=dict)  # version -> None: it changes no rows

    @property
    def begins_empty(self) -> bool:
        """Return whether version 0 is known to have created the table without rows."""
        return 0 in self.commits and self.commits[0] is None

    def list_commits(self, uri: str, table: DeltaTable, oldest: int) -> list[_Commit]:
        """List the commits that change rows, ascending, as far back as the table's log was kept."""
        table_id = str(table.metadata().id)
        if table_id != self.table_id:
            self.table_id, self.commits = table_id, {}
        commits = []
        for version in range(int(table.version()), oldest - 1, -1):
            if version not in self.commits:
                entry = delta_log.read_entry(uri, version)
                if entry is None:
                    break
                info = {**delta_log.info(entry), "version": version}
                self.commits[version] = _read_commit(uri, entry, info) if _changes_rows(entry, info) else None
            commit = self.commits[version]
            commits += [] if commit is None else [commit]
        return commits[::-1]


def list_table_versions(
    uri: str,
    checkpoint: SparkCheckpoint,
    table: DeltaTable | None = None,
    *,
    oldest: int = 0,
    log: TableLog | None = None,
) -> tuple[TableVersion, ...]:
    """List the versions that change rows, ascending, as far back as the table's log is kept.

    Versions of OPTIMIZE, VACUUM and other maintenance, and those that only create or alter the table, are left out.

    Args:
        uri: Of the table.
        checkpoint: Of the query that writes it.
        table: The table, opened before the checkpoint was read if the query is running; None: it is opened here.
        oldest: Version before which none is listed.
        log: What was read by earlier calls; None: everything is read.

    Raises:
        LakeError: There is no Delta table, its log cannot be read, another streaming query writes to it, it is ahead of
            the checkpoint, or the times of its commits do not ascend although only they tell the batches.
    """
    table = table or delta.open_table(uri)
    commits = (log or TableLog()).list_commits(uri, table, oldest)
    for commit in commits:
        if commit.query_id not in {None, checkpoint.query_id}:
            hint = "\nHint: the checkpoint was replaced, or it is that of another table."
            raise _reject(uri, commit, f"the query {checkpoint.query_id} as its only one, got {commit.query_id}", hint)
    return tuple(_assign_batches(uri, commits, checkpoint))


def _changes_rows(entry: delta_log.Entry, info: Mapping[str, Any]) -> bool:
    if str(info.get("operation", "")) in _MAINTENANCE:
        return False
    changes = [action.get("add") or action.get("remove") for action in entry]
    changes_rows = any(isinstance(change, dict) and change.get("dataChange", True) for change in changes)
    return changes_rows or any("txn" in action for action in entry)


def _read_commit(uri: str, entry: delta_log.Entry, info: Mapping[str, Any]) -> _Commit:
    version = int(info["version"])
    parameters = info.get("operationParameters")
    query_id = parameters.get("queryId") if isinstance(parameters, dict) else None
    try:
        return _Commit(
            version=version,
            operation=str(info.get("operation", "")),
            committed_at=int(info["timestamp"]) * 1_000,
            marks={str(action["txn"]["appId"]): int(action["txn"]["version"]) for action in entry if "txn" in action},
            query_id=None if query_id is None else str(query_id),
        )
    except (KeyError, TypeError, ValueError):
        msg = f"Table `{uri}`, version {version}: expected a time and whole numbers of transactions in its commit."
        raise LakeError(msg) from None


def _assign_batches(uri: str, commits: Sequence[_Commit], checkpoint: SparkCheckpoint) -> Iterator[TableVersion]:
    app_id, evidence = _find_evidence(commits, checkpoint)
    if app_id is None and any(later.committed_at < commit.committed_at for commit, later in pairwise(commits)):
        msg = (
            f"Table `{uri}`: expected commits whose times ascend, since only times tell their batches; a clock was set."
        )
        raise LakeError(msg)
    usual = Counter(commit.operation for commit in commits).most_common(1)
    is_begun = False  # rows that are older than the query's first version are not its own
    for commit in commits:
        planned_batch = _find_planned(checkpoint, commit.committed_at)
        batch = None if planned_batch is None else planned_batch.number
        is_foreign = False
        if app_id is not None:
            batch = commit.marks.get(app_id)
            is_begun |= batch is not None
            is_foreign = is_begun and batch is None
            if batch is not None and not 0 <= batch <= checkpoint.batches[-1].number:
                expected = f"a batch up to {checkpoint.batches[-1].number}, the newest of the checkpoint, got {batch}"
                raise _reject(uri, commit, expected, "\nHint: the query runs, or its checkpoint is an older copy.")
        elif commit.operation != usual[0][0] and planned_batch is not None and commit.version > 0:
            batch, is_foreign = None, True
        yield TableVersion(
            version=commit.version,
            operation=commit.operation,
            committed_at=commit.committed_at,
            batch=batch,
            evidence=None if batch is None else evidence,
            is_foreign=is_foreign,
        )


def _find_evidence(commits: Sequence[_Commit], checkpoint: SparkCheckpoint) -> tuple[str | None, Evidence]:
    """Find the application id of the query's commits, if they carry one that numbers batches."""
    if any(checkpoint.query_id in commit.marks for commit in commits):
        return checkpoint.query_id, Evidence.QUERY
    numbered = {app_id: True for commit in commits for app_id in commit.marks}
    assigned = set[str]()
    for commit in commits:
        planned_batch = _find_planned(checkpoint, commit.committed_at)
        for app_id, number in commit.marks.items():
            if planned_batch is not None:
                numbered[app_id] &= number == planned_batch.number
                assigned.add(app_id)
    candidates = [app_id for app_id in assigned if numbered[app_id]]
    return (candidates[0], Evidence.MARK) if len(candidates) == 1 else (None, Evidence.TIME)


def _find_planned(checkpoint: SparkCheckpoint, moment: int) -> Batch | None:
    """Find the batch that was the newest planned one at a moment, microseconds; None: an older one than are kept."""
    return next((batch for batch in reversed(checkpoint.batches) if batch.planned_at <= moment), None)


def _reject(uri: str, commit: _Commit, expected: str, hint: str) -> LakeError:
    return LakeError(f"Table `{uri}`, version {commit.version}: expected {expected}.{hint}")
