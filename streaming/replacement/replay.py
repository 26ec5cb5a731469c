"""Replay: fill a new version of a stream, or a changed definition, from the log, in parallel with the serving one.

A driver with a separate lock and heartbeat reads the log at full speed and ends at an epoch boundary of the serving
stream, so that both can be compared even while records arrive. The result serves nothing until a person switches to it.
"""

import time

from cutover.clock import Clock
from cutover.definition.checks import change
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import pins, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import delta
from cutover.probe import Probe, silent
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process import heartbeat
from cutover.streaming.recovery import fork
from cutover.streaming.replacement.common_cut import drop_zeros, has_read_as_much, read_newest_epoch
from cutover.streaming.replacement.stream import Stream, find_stream

PATIENCE_SECONDS, BETWEEN_SECONDS = 60.0, 0.5
"""Time that a replay which is ahead of the serving stream waits for an epoch of it, and the polling interval."""


def replay(
    settings: Settings,
    pipeline: Pipeline,
    number: int,
    clock: Clock,
    *,
    epoch: int | None = None,
    probe: Probe = silent,
) -> tuple[Version, bool]:
    """Read the log into another version: up to the current ends of the log, then to an epoch of the serving one.

    Args:
        settings: Where the log and the lake are.
        pipeline: The definition.
        number: Number of the next version, or of a replay to continue.
        clock: For the version's row and for pins.
        epoch: The new version begins with everything that the one in force had up to here; None: where the log does.
        probe: Called at the driver's probe points.

    Returns:
        The version, and whether it ends where an epoch of the one that serves does; False: that one has read less, and
        commits no epoch that has read as much.

    Raises:
        DefinitionError: The number is neither, or the replay to continue begins elsewhere.
        CutoverError: The driver cannot start or continue.
    """
    serving = versions.current(versions.looking_at_served(settings), pipeline)
    version, version_settings = (
        _open_version(settings, pipeline, number, clock, epoch),
        versions.select_stream_version(settings, number),
    )
    _read_on(version_settings, pipeline, f"cutover replay {pipeline.name} --into {number}", probe)
    if serving is not None and serving.number != number and _has_driver(settings, pipeline):
        stream = Stream(pipeline=pipeline, version=version)
        return version, _meet(version_settings, stream, Stream(pipeline=pipeline, version=serving), clock, probe)
    return version, True


def replay_definition(
    settings: Settings, new: Pipeline, old: Pipeline, clock: Clock, *, probe: Probe = silent
) -> Stream:
    """Read the log into a changed definition, up to an epoch of the one whose place it is to take.

    Raises:
        DefinitionError: The note does not fit, or rows of the two cannot be held against one another.
        LakeError: The new definition came further than the old one, whose driver commits no epoch that has read as
            much.
        CutoverError: The driver cannot start or continue, or another driver of the new definition is running.
    """
    change.check_pair(new, old)
    version_settings = versions.looking_at_served(settings)
    serving, version = find_stream(version_settings, old), versions.current(version_settings, new)
    if version is None or not delta.exists(version.uri):
        aim = read_newest_epoch(serving.epoch_log)
        _pin_epoch(version_settings, serving, aim, new.name, clock)
        _read_on(version_settings, new, f"cutover replay {new.name}", probe, aim)
    stream = find_stream(version_settings, new)
    if not _meet(version_settings, stream, serving, clock, probe):
        msg = f"{serving.text}: expected an epoch that has read what {stream.text} has, its newest one has not."
        raise LakeError(msg + f"\nHint: let its driver continue (`cutover stream {old.name} --detach`), and try again.")
    return stream


def _meet(settings: Settings, stream: Stream, serving: Stream, clock: Clock, probe: Probe) -> bool:
    """Read on to an epoch boundary of the serving stream, and pin the epochs of both for a day.

    Args:
        settings: Settings that select the stream that reads.
        stream: The one that reads; none of its drivers is running.
        serving: The one that is read up to.
        clock: For the pins.
        probe: Called at the driver's probe points.

    Returns:
        True if they met; otherwise the serving stream has read less, and commits no epoch that has read as much.

    Raises:
        CutoverError: The driver cannot start or continue.
    """
    name = stream.pipeline.name
    position = next(iter(reversed(stream.epoch_log.records())), None)
    aim = _await_epoch(settings, serving, position)
    if aim is None:
        return False
    _pin_epoch(settings, serving, aim, name, clock)
    if position is None or drop_zeros(aim.end) != drop_zeros(position.end):
        into = "" if settings.stream_version is None else f" --into {settings.stream_version}"
        _read_on(settings, stream.pipeline, f"cutover replay {name}{into}", probe, aim)
    _pin_epoch(settings, stream, read_newest_epoch(stream.epoch_log), name, clock)
    return True


def _await_epoch(settings: Settings, serving: Stream, position: EpochRecord | None) -> EpochRecord | None:
    """Return an epoch of the one that serves which has read all that is read; None: its driver commits none soon."""
    started = time.monotonic()
    while True:
        newest = read_newest_epoch(serving.epoch_log)
        if position is None or has_read_as_much(newest, position):
            return newest
        is_over = time.monotonic() > started + PATIENCE_SECONDS
        if newest.topic_id != position.topic_id or is_over or not _has_driver(settings, serving.pipeline):
            return None
        time.sleep(BETWEEN_SECONDS)


def _pin_epoch(settings: Settings, stream: Stream, record: EpochRecord, by: str, clock: Clock) -> None:
    """Keep an epoch from being folded into later ones for a day, so that a person can compare."""
    now = clock.now()
    pins.pin(settings, stream.version, record.epoch, holder=f"beside/{by}", expires_at=now + pins.LONGEST, now=now)


def _read_on(
    settings: Settings, pipeline: Pipeline, repeat_command: str, probe: Probe, aim: EpochRecord | None = None
) -> None:
    """Read to the log's ends, or to where an epoch ends.

    Raises:
        LakeError: A stop was requested earlier.
    """
    if driver.run(settings, pipeline, until="drain", aim=None if aim is None else aim.cut, probe=probe) != 0:
        msg = f"Replay of `{pipeline.name}`: expected to reach its end, a stop was requested."
        raise LakeError(msg + f"\nHint: `{repeat_command}` continues from there.")


def _has_driver(settings: Settings, pipeline: Pipeline) -> bool:
    """Return whether a driver of the serving version is running, by its heartbeat."""
    last_heartbeat = heartbeat.read_heartbeat(versions.looking_at_served(settings), pipeline.name)
    return last_heartbeat is not None and last_heartbeat.alive


def _open_version(settings: Settings, pipeline: Pipeline, number: int, clock: Clock, epoch: int | None) -> Version:
    sequence = versions.next_sequence(settings, pipeline)
    all_versions = versions.list_versions(settings, pipeline)
    existing = next((version for version in all_versions if version.number == number), None)
    following = versions.next_number(settings, pipeline)
    if existing is None and number == following:
        if epoch is not None:
            return fork.register_fork(settings, pipeline, epoch, clock, parallel=True)
        return versions.register(settings, pipeline, clock, expected_sequence=sequence, beside=True)
    if existing is None or not existing.beside:
        msg = f"Replay of `{pipeline.name}`: expected the next version ({following}) or one that a replay fills, "
        actual = f"{number}, which does not exist" if existing is None else f"{number}, which serves or has served"
        raise DefinitionError(msg + f"got {actual}.")
    if epoch is not None and (existing.fork is None or existing.fork.epoch != epoch):
        beginning = "the log's beginning" if existing.fork is None else f"epoch {existing.fork.epoch}"
        msg = f"Replay of `{pipeline.name}` into stream-{number}: expected to continue from {beginning}, "
        msg += f"got epoch {epoch}."
        raise DefinitionError(msg + f"\nHint: a replay from elsewhere is another version: `--into {following}`.")
    return existing
