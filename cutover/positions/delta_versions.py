"""Versions of the Delta table that a streaming query writes, each with the batch that wrote it.

A native Delta sink marks its commits with the id of the query and the number of the batch. A MERGE or append in
foreachBatch is marked if the job sets `spark.databricks.delta.write.txnAppId` and `txnVersion`. Otherwise the time
tells: the driver's clock writes both the time at which a batch was planned and that of a commit, and one batch ends
before the next one is planned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
    batch: int | None  # None: no batch that the checkpoint keeps can have written it
    evidence: Evidence | None  # None: without a batch


def list_versions(uri: str, checkpoint: SparkCheckpoint) -> tuple[TableVersion, ...]:
    """List the versions that change rows, ascending, as far back as the table's log is kept.

    Versions of OPTIMIZE, VACUUM and other maintenance, and those that only create or alter the table, are left out.

    Raises:
        LakeError: There is no Delta table, or another streaming query writes to it.
    """
    table = delta.open_table(uri)
    versions = []
    for info in delta.history(table):
        entry = delta_log.read(uri, int(info["version"])) or []
        if _changes_rows(entry, info):
            versions.append(_assign_batch(uri, entry, info, checkpoint))
    return tuple(reversed(versions))


def _changes_rows(entry: delta_log.Entry, info: Mapping[str, Any]) -> bool:
    if str(info.get("operation", "")) in _MAINTENANCE:
        return False
    has_mark = any("txn" in action for action in entry)
    changes = (action.get("add") or action.get("remove") for action in entry)
    return has_mark or any(change is not None and change.get("dataChange", True) for change in changes)


def _assign_batch(
    uri: str, entry: delta_log.Entry, info: Mapping[str, Any], checkpoint: SparkCheckpoint
) -> TableVersion:
    committed_at = int(info.get("timestamp", 0)) * 1_000
    batch, evidence = next(_find_batches(uri, entry, info, checkpoint), (None, None))
    return TableVersion(
        version=int(info["version"]),
        operation=str(info.get("operation", "")),
        committed_at=committed_at,
        batch=batch,
        evidence=evidence,
    )


def _find_batches(
    uri: str, entry: delta_log.Entry, info: Mapping[str, Any], checkpoint: SparkCheckpoint
) -> Iterator[tuple[int, Evidence]]:
    """Yield the batches that a version may belong to, that with the strongest evidence first."""
    marks = {str(action["txn"]["appId"]): int(action["txn"]["version"]) for action in entry if "txn" in action}
    if checkpoint.query_id in marks:
        yield marks[checkpoint.query_id], Evidence.QUERY
    query_id = (info.get("operationParameters") or {}).get("queryId")
    if query_id is not None and query_id != checkpoint.query_id:
        msg = (
            f"Table `{uri}`, version {info['version']}: expected the streaming query {checkpoint.query_id} of the"
            f" checkpoint as its only one, got a commit of {query_id}."
        )
        raise LakeError(msg + "\nHint: the checkpoint was replaced, or it is that of another table.")
    by_time = _find_planned(checkpoint, int(info.get("timestamp", 0)) * 1_000)
    if len(marks) == 1 and by_time is not None and by_time.number in marks.values():
        yield by_time.number, Evidence.MARK
    if by_time is not None and not marks:
        yield by_time.number, Evidence.TIME


def _find_planned(checkpoint: SparkCheckpoint, moment: int) -> Batch | None:
    """Find the batch that was the newest planned one at a moment, microseconds; None: an older one than are kept."""
    return next((batch for batch in reversed(checkpoint.batches) if batch.planned_at <= moment), None)
