"""Log of a comparison: whether it is still the one that the epochs were read from, and the losses recorded of it.

Intact tables prove nothing if the log was restored from a copy: the records that batch and stream read can then no
longer be read again. While the stream does not continue for that reason, no window is compared, not even a closed one.
A report lists the ranges that were lost, has a sentence on them in its head, and notes what a comparison cannot show.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState, read_driver_state
from cutover.errors import LakeError, LogError
from cutover.lake.batch_runs import LOST
from cutover.lake.control import losses, versions
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import lost_records, same_log
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, Loss
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.preconditions.seal import make_damage_breach
from cutover.reconcile.result.finding import LostRange, SealBreach
from cutover.timestamps import format_micros

STOPPING = frozenset({"LogDataLost", "TopicIdentityChanged"})
"""Runbooks of problems after which a stream does not continue without a person."""

UNREACHABLE = frozenset({"KafkaUnreachable", "KafkaRefused"})
"""Runbooks of a driver that ended because the log did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """Result of checking the log that the stream reads."""

    breach: SealBreach | None = None  # it is another log, or lacks the next records
    note: str | None = None  # reason why it could not be checked


def evaluate_log(lake: PipelineLake, *, count: bool = False) -> LogCheck:
    """Check whether the stream could continue with the log; if it does not answer, use the driver's last heartbeat.

    With `count` the records of epochs are counted again in the log; those of a long log in turns.
    """
    settings, pipeline = lake.settings, lake.pipeline
    version = versions.find_current_version(lake)
    try:
        newest = EpochLog(version.uri).newest() if version is not None and delta.exists(version.uri) else None
    except LakeError:
        return LogCheck()  # the seal reports it
    if version is None or newest is None:
        return LogCheck()
    accepted = losses.list_of_version(settings, version)
    history = same_log.recorded_history(version.uri)
    try:
        client = LogClient(settings)
        _check_topic(pipeline, client, newest, accepted, history)
        lost_records.check_not_compacted(client, newest.topic)
        if count:
            turn = Journal(settings, pipeline.name, ComparisonRow).next_sequence()
            accepted_losses = losses.list_up_to(settings, version)
            lost_records.check_none_lost(pipeline.name, client, history(), accepted_losses, pipeline.window, turn=turn)
    except LogError as error:
        if error.runbook in STOPPING:
            return LogCheck(breach=_breach(error.text, str(error.runbook)))
        return _check_driver(lake, accepted, str(error).splitlines()[0])
    return LogCheck()


def _check_topic(
    pipeline: Pipeline, client: LogClient, newest: EpochRecord, accepted: tuple[Loss, ...], history: same_log.History
) -> None:
    """Raise the error of the log with which a driver would stop."""
    topic = newest.topic
    try:
        topic_id = client.topic_id(topic)
    except LogError as error:
        if error.runbook is None:
            raise LogError(str(error).splitlines()[0], runbook="TopicIdentityChanged") from error
        raise
    if topic_id != newest.topic_id:
        msg = f"Topic {topic} has topic id {topic_id}, the epoch log was built from {newest.topic_id}."
        raise LogError(msg, runbook="TopicIdentityChanged")
    same_log.check_log_unchanged(pipeline.name, client, newest, history)
    next_offsets = delivery.next_offsets(newest, accepted, newest.topic_id) or {}
    latest = client.latest(topic, newest.isolation)
    missing = delivery.find_offset_gaps(next_offsets, earliest=client.earliest(topic), latest=latest)
    if missing:
        msg = f"{delivery.format_gaps(topic, missing)}."
        raise LogError(msg, runbook="LogDataLost")


def _check_driver(lake: PipelineLake, accepted: tuple[Loss, ...], silent: str) -> LogCheck:
    """Evaluate the driver's last heartbeat: a breach if it failed because of the log, otherwise a note.

    Without a heartbeat it is unknown whether the log is the one that both sides read, so nothing is compared.
    """
    pipeline = lake.pipeline
    version = lake.settings.stream_version
    try:
        driver_state = read_driver_state(
            lake.settings, pipeline.name if version is None else f"{pipeline.name}.stream-{version}"
        )
    except LakeError as error:
        return LogCheck(breach=make_damage_breach(error))
    last_seen = driver_state.losses_seen
    is_accepted = last_seen is not None and any(loss.sequence >= last_seen for loss in accepted)
    if driver_state.state == "FAILED" and driver_state.runbook in STOPPING and not is_accepted:
        return LogCheck(breach=_breach(str(driver_state.error), str(driver_state.runbook)))
    mute = _explain_silence(driver_state)
    if mute is not None:
        option = versions.format_option(version)
        msg = f"Log of `{pipeline.name}`: expected it or its driver to confirm that it is the log that both sides read,"
        msg += f" got neither: {silent} {mute} Hint: compare again once it answers: "
        msg += f"`cutover reconcile {pipeline.name}{option}`."
        return LogCheck(breach=SealBreach(code="log_silent", message=msg, runbook="NotComparable"))
    return LogCheck(note=f"The log could not confirm that it is the log that both sides read: {silent}")


def _explain_silence(driver_state: DriverState) -> str | None:
    """Explain why a driver's last heartbeat does not confirm the log; None if it does."""
    if driver_state.at is None:
        return "No driver has written a heartbeat here."
    if driver_state.state == "DIED":
        return "The driver died without an error."
    if driver_state.silent_since is not None or driver_state.runbook in UNREACHABLE:
        return "The driver got no answer from it either."
    return None


def _breach(text: str, runbook: str) -> SealBreach:
    return SealBreach(code="log_changed", message=re.split("\n(?:Hint|Runbook):", text, maxsplit=1)[0], runbook=runbook)


_MAX_RANGES = 3  # in the sentence


def list_ranges(losses: Sequence[Loss]) -> tuple[LostRange, ...]:
    """Return the ranges of losses for a report, in the order in which they were accepted."""
    return tuple(
        LostRange(
            topic=loss.topic,
            topic_id=loss.topic_id,
            partition=loss.partition,
            first=loss.first,
            next=loss.next,
            windows_from=format_micros(loss.windows_from),
            windows_to=format_micros(loss.windows_to),
            stream_version=loss.stream_version,
            epoch=loss.epoch,
            kind=loss.kind,
            who=loss.who,
            why=loss.why,
            at=loss.at.isoformat().replace("+00:00", "Z"),
        )
        for loss in losses
    )


def describe_losses(losses: Sequence[Loss], incomplete: Mapping[str, int]) -> str | None:
    """Describe the effect of losses on closed windows; None if they affect no window.

    Args:
        losses: Losses of this version and of earlier ones.
        incomplete: Reason -> number of closed windows at this cut that are not compared.
    """
    touching = [loss for loss in losses if loss.windows is not None]
    if not touching:
        return None
    windows = incomplete.get(LOST, 0)
    range_texts = "; ".join(_describe_range(loss) for loss in touching[:_MAX_RANGES])
    more = f"; and {len(touching) - _MAX_RANGES} more" if len(touching) > _MAX_RANGES else ""
    consequence = (
        f"{windows:,} closed window{'' if windows == 1 else 's'} may miss some of them: incomplete(lost), not compared"
    )
    return f"The log lost records ({range_texts}{more}). {consequence}."


def describe_touching(losses: Sequence[Loss]) -> str | None:
    """Describe losses that affect one window; None if there is none."""
    if not losses:
        return None
    range_texts = "; ".join(map(_describe_range, losses))
    return (
        f"The log lost records ({range_texts}), and the window may miss some of them: incomplete(lost), not compared."
    )


def list_loss_notes(losses: Sequence[Loss]) -> tuple[str, ...]:
    """Return notes on windows whose lost records no comparison can detect."""
    gaps = [loss.windows_from for loss in losses if loss.kind != "anew" and loss.windows_from is not None]
    if not gaps:
        return ()
    gap_end = format_micros(min(gaps))
    text = f"Among the lost records may have been late ones of windows before {gap_end}, which were final by then."
    return (text + " Neither side has them: a comparison cannot show what both miss.",)


def _describe_range(loss: Loss) -> str:
    place = f"{format_partition(loss.topic, loss.partition)}: "
    if loss.next is None:
        return place + f"offset {loss.first} and all after it of topic id {loss.topic_id}"
    return place + f"offsets {loss.first} to {loss.next - 1}"
