"""Cut of a run: a committed epoch of the streaming path, pinned and checked against its log."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LogError
from cutover.lake.control import pins, versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import table_weights
from cutover.lake.tables import delta
from cutover.log.cut import LogId
from cutover.log.topic_partitions import format_partition
from cutover.pipeline_lake import PipelineLake


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCut:
    """Cut of a run; batch uses nothing else of the stream's tables."""

    version: versions.Version
    record: EpochRecord
    newest: EpochRecord


@contextmanager
def pin_cut(lake: PipelineLake, epoch: int | None, *, holder: str, clock: Clock) -> Iterator[BatchCut]:
    """Pin an epoch, by default the newest, until the run is compared; release it at once if the run fails.

    Raises:
        LakeError: A person or a tool removed the epoch log.
        LogError: No epoch is committed under this definition, or the named one is ahead of the newest.
    """
    pipeline = lake.pipeline
    version = versions.find_current_version(lake)
    if version is None:
        raise _no_epoch(pipeline)
    table_weights.check_not_removed(lake, version)
    if not delta.exists(version.uri):
        raise _no_epoch(pipeline)
    newest = EpochLog(version.uri).newest()
    if newest is None:
        raise _no_epoch(pipeline)
    number = newest.epoch if epoch is None else epoch
    if not 0 <= number <= newest.epoch:
        msg = f"Cut of `{pipeline.name}` is ahead of the log: expected an epoch from 0 to {newest.epoch}, got {number}."
        raise LogError(msg)
    with pins.pin_for_reader(lake.settings, version, number, holder=holder, clock=clock):
        yield BatchCut(version=version, record=_record(version, number), newest=newest)


def check_same_topic(pipeline: Pipeline, record: EpochRecord, log: LogId) -> None:
    """Check that the topic is the one that the epoch was read from.

    Raises:
        LogError: The topic was deleted and created again, or the cluster is another one.
    """
    expected, actual = (record.cluster_id, record.topic_id), (log.cluster_id, log.topic_id)
    if expected != actual:
        msg = (
            f"Topic `{log.topic}` of `{pipeline.name}`: expected cluster and topic id {expected[0]}, {expected[1]} "
            f"as of epoch {record.epoch}, got {actual[0]}, {actual[1]}."
            "\nHint: the topic was created again and is another log."
        )
        raise LogError(msg, runbook="TopicIdentityChanged")


def check_offsets(pipeline: Pipeline, record: EpochRecord, earliest: dict[int, int], latest: dict[int, int]) -> None:
    """Check that the log reaches the cut and still holds it.

    Raises:
        LogError: Names the partition, the offset and the bound.
    """
    for partition, offset in sorted(record.end.items()):
        place = f"Cut of `{pipeline.name}` is not in the log: {format_partition(record.topic, partition)}: "
        if offset > latest.get(partition, 0):
            msg = place + f"expected offset <= {latest.get(partition, 0)}, got {offset}.\nHint: the log was cut short."
            raise LogError(msg, runbook="LogDataLost")
        if offset < earliest.get(partition, 0):
            msg = place + f"expected offset >= {earliest[partition]}, got {offset}."
            raise LogError(msg + "\nHint: retention removed it; choose a later cut.", runbook="LogDataLost")


def _record(version: versions.Version, number: int) -> EpochRecord:
    # Read after the pin, so no fold can remove the epoch in between.
    for record in EpochLog(version.uri).records(after=number - 1):
        if record.epoch == number:
            return record
    msg = f"Epoch {number} of `{version.app_id}`: expected its record in the epoch log, found none."
    raise LogError(msg, runbook="EpochHistoryBroken")


def _no_epoch(pipeline: Pipeline) -> LogError:
    msg = f"Cut of `{pipeline.name}`: expected a committed epoch under this definition, found none."
    return LogError(msg + f"\nHint: `{pipeline.driver_command} --drain` commits one.")
