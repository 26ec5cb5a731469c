"""The log behind both sides: whether it still is the one that the epochs were read from.

A table that is whole says nothing of a log that was put back from a copy: what batch and stream read of it then, nobody
can read again. While a stream refuses to go on for that, nothing is said of its windows, closed ones included.
"""

import re
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState, read_driver_state
from cutover.errors import LakeError, LogError
from cutover.lake.control import losses, versions
from cutover.lake.epochs import offset_gaps
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import lost_records, same_log
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, Loss
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.reconcile.preconditions.damage import breach_of
from cutover.reconcile.result.seal import SealBreach
from cutover.settings import Settings

STANDS = frozenset({"LogDataLost", "TopicIdentityChanged"})
"""Runbooks of problems after which a stream does not continue without a person."""

UNHEARD = frozenset({"KafkaUnreachable", "KafkaRefused"})
"""Runbooks of a driver that ended because the log did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswer:
    """Result of checking the log that the stream reads."""

    breach: SealBreach | None = None  # it is another one, or lacks what comes next
    note: str | None = None  # why it could not be asked


def ask(settings: Settings, pipeline: Pipeline, *, count: bool = False) -> LogAnswer:
    """Check whether the stream could continue with the log; if it does not answer, use the driver's last heartbeat.

    With `count` the records of epochs are counted again in the log; those of a long log in turns.
    """
    version = versions.current(settings, pipeline)
    try:
        newest = EpochLog(version.uri).newest() if version is not None and delta.exists(version.uri) else None
    except LakeError:
        return LogAnswer()  # the seal says it
    if version is None or newest is None:
        return LogAnswer()
    accepted = losses.list_of_version(settings, version)
    history = same_log.recorded_history(version.uri)
    try:
        client = LogClient(settings)
        _reject(pipeline, client, newest, accepted, history)
        lost_records.check_not_compacted(client, newest.topic)
        if count:
            turn = Journal(settings, pipeline.name, ComparisonRow).next_sequence()
            lost = losses.list_up_to(settings, version)
            lost_records.check_none_lost(pipeline.name, client, history(), lost, pipeline.window, turn=turn)
    except LogError as error:
        if error.runbook in STANDS:
            return LogAnswer(breach=_breach(error.text, str(error.runbook)))
        return _of_driver(settings, pipeline, accepted, str(error).splitlines()[0])
    return LogAnswer()


def _reject(
    pipeline: Pipeline, client: LogClient, newest: EpochRecord, accepted: tuple[Loss, ...], history: same_log.History
) -> None:
    """Raise what a driver would be refused by, as far as the log goes."""
    topic = newest.topic
    try:
        found = client.topic_id(topic)
    except LogError as error:
        if error.runbook is None:
            raise LogError(str(error).splitlines()[0], runbook="TopicIdentityChanged") from error
        raise
    if found != newest.topic_id:
        msg = f"Topic {topic} has topic id {found}, the epoch log was built from {newest.topic_id}."
        raise LogError(msg, runbook="TopicIdentityChanged")
    same_log.check_unchanged(pipeline.name, client, newest, history)
    wanted = offset_gaps.next_offsets(newest, accepted, newest.topic_id) or {}
    latest = client.latest(topic, newest.isolation)
    missing = offset_gaps.find_missing(wanted, earliest=client.earliest(topic), latest=latest)
    if missing:
        msg = f"{offset_gaps.format_gaps(topic, missing)}."
        raise LogError(msg, runbook="LogDataLost")


def _of_driver(settings: Settings, pipeline: Pipeline, accepted: tuple[Loss, ...], silent: str) -> LogAnswer:
    """Return what the driver's last words say of the log: why it ended, if that was for the log and stands, or a note.

    Without one it is unknown whether the log still is the one that both sides read, so nothing is compared.
    """
    version = settings.stream_version
    try:
        driver_state = read_driver_state(
            settings, pipeline.name if version is None else f"{pipeline.name}.stream-{version}"
        )
    except LakeError as error:
        return LogAnswer(breach=breach_of(error))
    seen = driver_state.losses_seen
    is_accepted = seen is not None and any(loss.sequence >= seen for loss in accepted)
    if driver_state.state == "FAILED" and driver_state.runbook in STANDS and not is_accepted:
        return LogAnswer(breach=_breach(str(driver_state.error), str(driver_state.runbook)))
    mute = _explain_silence(driver_state)
    if mute is not None:
        option = versions.format_option(version)
        msg = f"Log of `{pipeline.name}`: expected it or its driver to tell that it still is what both sides read, got "
        msg += f"neither: {silent} {mute} Hint: compare again once it answers: "
        msg += f"`cutover reconcile {pipeline.name}{option}`."
        return LogAnswer(breach=SealBreach(code="log_silent", message=msg, runbook="NotComparable"))
    return LogAnswer(note=f"The log could not be asked whether it still is what both sides read: {silent}")


def _explain_silence(driver_state: DriverState) -> str | None:
    """Return why a driver's last words say nothing of the log; None: they do."""
    if driver_state.at is None:
        return "No driver has left word here."
    if driver_state.state == "DIED":
        return "The driver died without a word."
    if driver_state.silent_since is not None or driver_state.runbook in UNHEARD:
        return "The driver got no answer from it either."
    return None


def _breach(text: str, runbook: str) -> SealBreach:
    return SealBreach(code="log_changed", message=re.split("\n(?:Hint|Runbook):", text, maxsplit=1)[0], runbook=runbook)
