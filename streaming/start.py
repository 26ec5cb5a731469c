"""Where to begin and what to refuse: the newest epoch, the log and the settings must fit before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover import spark
from cutover.definition.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.events import log as events
from cutover.lake import losses
from cutover.lake.epochs import EpochRecord
from cutover.lake.losses import Loss
from cutover.log import options
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.log.two import log_of, topics_of
from cutover.log.two import place as place_of
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where the query starts: the next offset of every partition, by the table; by the log where the table has none."""

    log: LogId
    offsets: Mapping[int, int]
    record: EpochRecord | None  # newest committed epoch; None before the first
    accepted: tuple[Loss, ...] = ()  # recorded losses of the version


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


def begin(
    pipeline: Pipeline, client: LogClient, record: EpochRecord | None, accepted: Sequence[Loss] = ()
) -> Beginning:
    """Return where to begin, after asking the log whether it still is what the table was built from.

    Args:
        pipeline: The definition.
        client: Asks the log.
        record: Newest committed epoch of the version; None before the first.
        accepted: Recorded losses of the version.

    Raises:
        LogError: The topic is unknown, was recreated, is compacted, or no longer holds what comes next.
    """
    topic = log_of(pipeline)
    expected = expected_log(record, accepted)
    log = _described(client, topic, expected)
    same_log(pipeline, expected, log.topic_id)
    for name in topics_of(topic):
        _refuse_compacted(name, client)
    earliest = client.earliest(topic)
    latest = client.latest(topic, pipeline.source.isolation)
    wanted = continued(record, accepted, log.topic_id)
    offsets = start_offsets(pipeline, wanted, earliest=earliest, latest=latest)
    if wanted is None and any(offsets.values()):
        events.warning("log_begins_after_zero", pipeline=pipeline.name, topic=topic, offsets=offsets)
    return Beginning(log=log, offsets=offsets, record=record, accepted=tuple(accepted))


def expected_log(record: EpochRecord | None, accepted: Sequence[Loss]) -> str | None:
    """Return the topic id that the next epoch has to be read from; None: whichever the topic has."""
    if record is not None:
        return record.topic_id
    return accepted[-1].onward_topic_id if accepted else None


def continued(record: EpochRecord | None, accepted: Sequence[Loss], topic_id: str) -> dict[int, int] | None:
    """Return the offsets that the next epoch must start at; None: where the log begins.

    The end of the newest epoch, or behind the losses that were recorded for the next one. Partitions that are not named
    start at 0.
    """
    if record is None and not accepted:
        return None
    epoch, ends = (0, {}) if record is None else (record.epoch + 1, dict(record.end))
    return ends | losses.skips(accepted, epoch, topic_id)


def _described(client: LogClient, topic: str, expected: str | None) -> LogId:
    try:
        return client.describe(topic)
    except LogError as error:
        if expected is None or error.runbook is not None:
            raise
        msg = f"Topic {topic} is not there, the epoch log was built from the one with topic id {expected}."
        msg += "\nHint: perhaps the settings name another cluster; a topic made again is another log."
        raise LogError(msg, runbook="TopicIdentityChanged") from error


def same_log(pipeline: Pipeline, expected: str | None, found: str) -> None:
    """Refuse a topic that was deleted and made again under the same name.

    Args:
        pipeline: The definition, for messages.
        expected: The topic id that the newest epoch was read from; None before the first.
        found: The topic id now.

    Raises:
        LogError: They differ.
    """
    if expected in {None, found}:
        return
    msg = (
        f"Topic {log_of(pipeline)} has topic id {found}, the epoch log was built from {expected}: it was "
        "deleted and made again.\nHint: a topic made again is another log. Give the new one another name, or go on "
        f"with it by `cutover accept-loss {pipeline.name}`."
    )
    raise LogError(msg, runbook="TopicIdentityChanged")


def start_offsets(
    pipeline: Pipeline, wanted: Mapping[int, int] | None, *, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> dict[int, int]:
    """Return the next offset of every partition of the topic.

    Args:
        pipeline: The definition, for messages.
        wanted: What `continued` says; partitions that it does not name start at 0. None: earliest.
        earliest: First offset that each partition holds.
        latest: Next offset of each partition.

    Raises:
        LogError: A partition no longer holds its start, or ends before it, or is not there; names each one.
    """
    if wanted is None:
        return dict(earliest)
    found = dict.fromkeys(earliest, 0) | dict(wanted)
    gone = missing(found, earliest=earliest, latest=latest)
    if gone:
        by_topic: dict[str, list[str]] = {}
        for hole in gone:
            place = place_of(log_of(pipeline), hole.partition)
            by_topic.setdefault(str(place.topic), []).append(f"partition {place.partition}: {hole.text}")
        said = ". ".join(f"Topic {topic}, {'; '.join(texts)}" for topic, texts in by_topic.items())
        msg = (
            f"{said}.\n"
            "Hint: retention or a deletion removed records that were never read; nothing was written since. "
            f"`cutover accept-loss {pipeline.name}` shows what is lost, and how to go on."
        )
        raise LogError(msg, runbook="LogDataLost")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A partition that does not hold the offset which comes next."""

    partition: int
    expected: int  # offset
    first: int | None  # that it still holds; None: the partition is not there
    end: int | None  # its next offset

    @property
    def is_short(self) -> bool:
        """Return whether the log ends before the offset, or has no such partition: its offsets will come again."""
        return self.end is None or self.expected > self.end

    @property
    def text(self) -> str:
        """Return what was expected and what is there."""
        if self.first is None or self.end is None:
            return f"expected offset {self.expected}, is not there"
        place, gone = ("ends", self.expected - self.end) if self.is_short else ("starts", self.first - self.expected)
        at = self.end if self.is_short else self.first
        return f"expected offset {self.expected}, log {place} at {at}: {gone} offsets are gone"


def missing(wanted: Mapping[int, int], *, earliest: Mapping[int, int], latest: Mapping[int, int]) -> tuple[Hole, ...]:
    """Return the partitions that do not hold the wanted offsets, by number."""
    holes = (
        Hole(partition=p, expected=offset, first=earliest.get(p), end=latest.get(p))
        for p, offset in sorted(wanted.items())
    )
    return tuple(hole for hole in holes if hole.is_short or hole.first is None or hole.expected < hole.first)


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
