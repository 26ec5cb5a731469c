"""Start of a stream: newest epoch, log and settings must fit before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import spark
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.events import log as events
from cutover.lake.epochs.delivery import find_offset_gaps, format_gaps, next_offsets
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records, same_log
from cutover.lake.integrity.same_log import History
from cutover.lake.journal_rows import Loss
from cutover.log import options
from cutover.log.cut import Cut, LogId
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log, name_offsets
from cutover.pipeline_lake import PipelineLake


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOffsets:
    """Start of the query: the next offset of every partition, from the table, else from the log."""

    log: LogId
    offsets: Mapping[int, int]
    record: EpochRecord | None  # newest committed epoch; None before the first
    accepted: tuple[Loss, ...] = ()  # recorded losses of the version


def reject_unsafe(lake: PipelineLake) -> None:
    """Check settings under which epochs could be lost, read twice or classified differently.

    Raises:
        DefinitionError: A setting is unsafe; the message names the key, the expected and the actual value.
    """
    settings = lake.settings
    options.check_client_settings(settings.kafka)
    spark.make_spark_conf(settings)
    for name in ("overflow_rows", "fold_every", "reload_every"):
        if getattr(settings.stream, name) < 1:
            raise _make_unsafe_error("stream." + name, str(getattr(settings.stream, name)))
    if lake.pipeline.max_rows_per_epoch < 1:
        raise _make_unsafe_error(lake.name + ".max_rows_per_epoch", str(lake.pipeline.max_rows_per_epoch))


def find_start(
    pipeline: Pipeline,
    client: LogClient,
    record: EpochRecord | None,
    accepted: Sequence[Loss] = (),
    history: History = tuple,
) -> StartOffsets:
    """Find the start offsets, after checking that the log is the one that the table was built from.

    Args:
        pipeline: The definition.
        client: Client of the log.
        record: Newest committed epoch of the version; None before the first.
        accepted: Recorded losses of the version.
        history: Loads the records of all its epochs.

    Raises:
        LogError: The topic is unknown, was recreated, is compacted, no longer holds the next records, or holds other
            records than those that were read.
    """
    topic = name_log(pipeline)
    expected = find_expected_log(record, accepted)
    log = _describe_topic(client, topic, expected)
    reject_other(pipeline, expected, log.topic_id)
    lost_records.check_not_compacted(client, topic)
    earliest = client.earliest(topic)
    latest = client.latest(topic, pipeline.source.isolation)
    next_wanted = next_offsets(record, accepted, log.topic_id)
    if record is not None:
        same_log.check_log_unchanged(pipeline.name, client, record, history)
    offsets = start_offsets(pipeline, next_wanted, earliest=earliest, latest=latest)
    if next_wanted is None and any(offsets.values()):
        events.warning("log_begins_after_zero", pipeline=pipeline.name, topic=topic, offsets=name_offsets(offsets))
    return StartOffsets(log=log, offsets=offsets, record=record, accepted=tuple(accepted))


def find_expected_log(record: EpochRecord | None, accepted: Sequence[Loss]) -> str | None:
    """Return the topic id that the next epoch has to be read from; None: whichever the topic has."""
    if record is not None:
        return record.topic_id
    return accepted[-1].onward_topic_id if accepted else None


def _describe_topic(client: LogClient, topic: str, expected: str | None) -> LogId:
    try:
        return client.describe(topic)
    except LogError as error:
        if expected is None or error.runbook is not None:
            raise
        msg = f"Topic {topic} is not there, the epoch log was built from the one with topic id {expected}."
        msg += "\nHint: perhaps the settings name another cluster; a recreated topic is another log."
        raise LogError(msg, runbook="TopicIdentityChanged") from error


def reject_other(pipeline: Pipeline, expected: str | None, actual: str) -> None:
    """Check that a topic was not deleted and recreated under the same name.

    Args:
        pipeline: The definition, for messages.
        expected: The topic id that the newest epoch was read from; None before the first.
        actual: The topic id now.

    Raises:
        LogError: They differ.
    """
    if expected in {None, actual}:
        return
    msg = (
        f"Topic {name_log(pipeline)} has topic id {actual}, the epoch log was built from {expected}: it was "
        "deleted and recreated.\nHint: a recreated topic is another log. Give the new one another name, or continue "
        f"with it by `cutover accept-loss {pipeline.name}`."
    )
    raise LogError(msg, runbook="TopicIdentityChanged")


def start_offsets(
    pipeline: Pipeline, next_wanted: Mapping[int, int] | None, *, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> dict[int, int]:
    """Return the next offset of every partition of the topic.

    Args:
        pipeline: The definition, for messages.
        next_wanted: What `next_offsets` says; partitions that it does not name start at 0. None: earliest.
        earliest: First offset that each partition holds.
        latest: Next offset of each partition.

    Raises:
        LogError: A partition no longer holds its start, or ends before it, or is not there; names each one.
    """
    if next_wanted is None:
        return dict(earliest)
    start = dict.fromkeys(earliest, 0) | dict(next_wanted)
    missing = find_offset_gaps(start, earliest=earliest, latest=latest)
    if missing:
        gaps = format_gaps(name_log(pipeline), missing)
        msg = (
            f"{gaps}.\n"
            "Hint: retention or a deletion removed records that were never read; nothing was written since. "
            f"`cutover accept-loss {pipeline.name}` shows what is lost, and how to continue."
        )
        raise LogError(msg, runbook="LogDataLost")
    return start


def check_aim(pipeline: Pipeline, beginning: StartOffsets, aim: Cut, latest: Mapping[int, int]) -> Mapping[int, int]:
    """Return the offsets of a cut that a driver is to stop at, if it can come there.

    Raises:
        LogError: The cut is of another log, or lies behind a partition's end.
        LakeError: The driver begins behind it.
    """
    reject_other(pipeline, aim.log.topic_id, beginning.log.topic_id)
    for partition in sorted({*aim.offsets, *beginning.offsets}):
        end = aim.offsets.get(partition, 0)
        place = f"Partition {partition} of {beginning.log.topic}"
        if latest.get(partition, 0) < end:
            msg = f"{place}: expected records up to offset {end:,}, it ends at {latest.get(partition, 0):,}."
            hint = "\nHint: an open transaction may hold its end, or records that were read were deleted."
            raise LogError(msg + hint, runbook="OpenTransactionHoldsLog")
        if beginning.offsets.get(partition, 0) > end:
            msg = f"{place}: expected to read up to offset {end:,}, the stream begins at "
            msg += f"{beginning.offsets[partition]:,}."
            raise LakeError(msg + "\nHint: retention may have removed what lies before; nothing was written.")
    return aim.offsets


def is_sealed(pipeline: Pipeline, record: EpochRecord | None, *, is_repeated: bool) -> bool:
    """Return whether a version is sealed and only sealing it again (`is_repeated`) was requested.

    Raises:
        LakeError: It is sealed, and was to continue.
    """
    if record is None or not record.final:
        return False
    if is_repeated:
        return True
    msg = (
        f"Stream of {pipeline.name}: expected a version that is not sealed, got one sealed by --final at epoch "
        f"{record.epoch}.\nHint: all its windows are closed. A changed lateness starts a new version."
    )
    raise LakeError(msg, runbook="StreamNotRunning")


def _make_unsafe_error(key: str, actual: str) -> DefinitionError:
    msg = f"`{key}`: expected 1 or more, got `{actual}`."
    msg += "\nHint: change it; the stream is not started."
    return DefinitionError(msg)
