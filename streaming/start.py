"""Where to begin and what to refuse: the newest epoch, the log and the settings must fit before anything is written."""

from collections.abc import Mapping
from dataclasses import dataclass

from cutover import spark
from cutover.definition.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.events import log as events
from cutover.lake.epochs import EpochRecord
from cutover.log import options
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where the query starts: the next offset of every partition, by the table; by the log where the table has none."""

    log: LogId
    offsets: Mapping[int, int]
    record: EpochRecord | None  # newest committed epoch; None before the first


def refuse_unsafe(settings: Settings, pipeline: Pipeline) -> None:
    """Refuse settings under which epochs could be lost, read twice or judged differently.

    Raises:
        DefinitionError: Names the key, what is expected and what was found.
    """
    options.check(settings.kafka)
    spark.configuration(settings)
    for name in ("overflow_rows", "fold_every", "reload_every"):
        if getattr(settings.stream, name) < 1:
            raise _unsafe("stream." + name, str(getattr(settings.stream, name)))
    if pipeline.max_rows_per_epoch < 1:
        raise _unsafe(pipeline.name + ".max_rows_per_epoch", str(pipeline.max_rows_per_epoch))


def begin(pipeline: Pipeline, client: LogClient, record: EpochRecord | None) -> Beginning:
    """Return where to begin, after asking the log whether it still is what the table was built from.

    Raises:
        LogError: The topic is unknown, was recreated, is compacted, or no longer holds what comes next.
    """
    topic = pipeline.source.name
    log = _described(client, topic, record)
    same_log(topic, None if record is None else record.topic_id, log.topic_id)
    _refuse_compacted(topic, client)
    earliest = client.earliest(topic)
    latest = client.latest(topic, pipeline.source.isolation)
    offsets = start_offsets(topic, record, earliest=earliest, latest=latest)
    if record is None and any(offsets.values()):
        events.warning("log_begins_after_zero", pipeline=pipeline.name, topic=topic, offsets=offsets)
    return Beginning(log=log, offsets=offsets, record=record)


def _described(client: LogClient, topic: str, record: EpochRecord | None) -> LogId:
    try:
        return client.describe(topic)
    except LogError as error:
        if record is None or error.runbook is not None:
            raise
        msg = f"Topic {topic} is not there, the epoch log was built from the one with topic id {record.topic_id}."
        raise LogError(msg, runbook="TopicIdentityChanged") from error


def same_log(topic: str, expected: str | None, found: str) -> None:
    """Refuse a topic that was deleted and made again under the same name.

    Args:
        topic: Its name, for messages.
        expected: The topic id that the newest epoch was read from; None before the first.
        found: The topic id now.

    Raises:
        LogError: They differ.
    """
    if expected in {None, found}:
        return
    msg = (
        f"Topic {topic} has topic id {found}, the epoch log was built from {expected}: it was deleted and made again.\n"
        "Hint: a recreated topic is another log. Give the new one another name, or start a new lake for it."
    )
    raise LogError(msg, runbook="TopicIdentityChanged")


def start_offsets(
    topic: str, record: EpochRecord | None, *, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> dict[int, int]:
    """Return the next offset of every partition of the topic.

    Args:
        topic: Its name, for messages.
        record: Newest committed epoch. Its `end` is the start; partitions it does not know start at 0. None: earliest.
        earliest: First offset that each partition holds.
        latest: Next offset of each partition.

    Raises:
        LogError: A partition no longer holds its start, or ends before it, or is not there.
    """
    if record is None:
        return dict(earliest)
    wanted = dict.fromkeys(earliest, 0) | dict(record.end)
    for partition, offset in sorted(wanted.items()):
        _refuse_lost(topic, partition, offset, earliest.get(partition), latest.get(partition))
    return wanted


def _refuse_lost(topic: str, partition: int, offset: int, first: int | None, end: int | None) -> None:
    if first is None or end is None:
        found = "is not there"
    elif offset < first:
        found = f"log starts at {first}: {first - offset} offsets are gone"
    elif offset > end:
        found = f"log ends at {end}: {offset - end} offsets are gone"
    else:
        return
    msg = (
        f"Topic {topic}, partition {partition}: expected offset {offset}, {found}.\n"
        "Hint: retention or a deletion removed records that were never read; nothing was written since."
    )
    raise LogError(msg, runbook="LogDataLost")


def sealed(pipeline: Pipeline, record: EpochRecord | None, *, again: bool) -> bool:
    """Return whether a version is sealed and sealing it once more (`again`) is all that is asked for.

    Raises:
        LakeError: It is sealed, and should go on.
    """
    if record is None or not record.final:
        return False
    if again:
        return True
    msg = (
        f"Stream of {pipeline.name}: expected a version that goes on, got one that was sealed by --final at epoch "
        f"{record.epoch}.\nHint: all its windows are closed. A changed lateness opens a new version beside it."
    )
    raise LakeError(msg, runbook="StreamNotRunning")


def _refuse_compacted(topic: str, client: LogClient) -> None:
    policy = client.config(topic).get("cleanup.policy", "delete")
    if "compact" in policy:
        msg = (
            f"Topic {topic}: expected cleanup.policy `delete`, got `{policy}`.\n"
            "Hint: compaction removes records that the batch path would have to read again."
        )
        raise LogError(msg, runbook="LogDataLost")


def _unsafe(key: str, found: str) -> DefinitionError:
    msg = f"`{key}`: expected 1 or more, got `{found}`."
    msg += "\nHint: change it; the stream is not started."
    return DefinitionError(msg)
