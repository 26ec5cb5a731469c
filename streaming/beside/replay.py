"""Replay: fill a new version of a stream, or a changed definition, from the log, beside the one that serves.

It is read as fast as it can be, by a driver with a lock and a heartbeat of its own, and ends where an epoch of the one
that serves does, so that both can be compared, also while records arrive. It serves nothing until a person lets it.
"""

import time

from cutover.clock import Clock
from cutover.definition.checks import change
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.probe import Probe, silent
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.beside.common_cut import find_newest, is_ahead
from cutover.streaming.beside.compare import Stream, find_stream
from cutover.streaming.process import heartbeat
from cutover.streaming.recovery import fork

PATIENCE_SECONDS, BETWEEN_SECONDS = 60.0, 0.5
"""How long a replay that came further than the one that serves waits for an epoch of it, and how often it looks."""


def replay(
    settings: Settings,
    pipeline: Pipeline,
    number: int,
    clock: Clock,
    *,
    epoch: int | None = None,
    probe: Probe = silent,
) -> Version:
    """Read the log into a version beside the one that serves: up to the log's ends as they are now, then to its epoch.

    Args:
        settings: Where the log and the lake are.
        pipeline: The definition.
        number: The next version's, or that of a replay that is to go on.
        clock: For the version's row.
        epoch: The new version begins with everything that the one in force had up to here; None: where the log does.
        probe: Told at the driver's points.

    Raises:
        DefinitionError: Another number, or another beginning than the replay that is to go on.
        CutoverError: The driver cannot begin or go on.
    """
    serving = versions.current(settings, pipeline)
    version, chosen = _open_version(settings, pipeline, number, clock, epoch), versions.looking_at(settings, number)
    again = f"cutover replay {pipeline.name} --into {number}"
    _read_on(chosen, pipeline, again, probe)
    if serving is not None and serving.number != number and _has_driver(settings, pipeline):
        meet(chosen, Stream(pipeline=pipeline, version=version), find_stream(settings, pipeline), again, probe)
    return version


def replay_definition(settings: Settings, new: Pipeline, old: Pipeline, *, probe: Probe = silent) -> Stream:
    """Read the log into a changed definition, up to an epoch of the one whose place it is to take.

    Raises:
        DefinitionError: The note does not fit, or rows of the two cannot be held against one another.
        CutoverError: The driver cannot begin or go on, another one of the new definition is at work, or the old
            definition is behind and has no driver.
    """
    change.check_pair(new, old)
    serving, again = find_stream(settings, old), f"cutover replay {new.name}"
    if versions.current(settings, new) is None:
        _read_on(settings, new, again, probe, find_newest(EpochLog(serving.version.uri)))
    meet(settings, find_stream(settings, new), serving, again, probe)
    return find_stream(settings, new)


def meet(settings: Settings, beside: Stream, serving: Stream, again: str, probe: Probe = silent) -> None:
    """Let a stream read on to where an epoch of the one that serves ends, if it is not at one.

    Args:
        settings: Under which the stream beside is looked at.
        beside: The one that reads; no driver of it is at work.
        serving: The one that is read up to.
        again: The command that goes on, for messages.
        probe: Told at the driver's points.

    Raises:
        LakeError: It is ahead of the one that serves, whose driver commits no epoch.
        CutoverError: The driver cannot begin or go on.
    """
    position = _find_newest(beside)
    aim = _await_epoch(serving, position)
    if position is None or aim.end != position.end:
        _read_on(settings, beside.pipeline, again, probe, aim)


def _await_epoch(serving: Stream, position: EpochRecord | None) -> EpochRecord:
    """Return an epoch of the one that serves which has read all that is read; its driver may commit it meanwhile.

    Raises:
        LakeError: There is none within a minute.
    """
    begun, epoch_log = time.monotonic(), EpochLog(serving.version.uri)
    while position is not None and not is_ahead(find_newest(epoch_log), position):
        if time.monotonic() > begun + PATIENCE_SECONDS:
            msg = f"{serving.text}: expected an epoch that has read what is replayed, its newest one has not."
            raise LakeError(msg + f"\nHint: let its driver read on (`cutover stream {serving.pipeline.name}`).")
        time.sleep(BETWEEN_SECONDS)
        epoch_log = EpochLog(serving.version.uri)
    return find_newest(epoch_log)


def _find_newest(stream: Stream) -> EpochRecord | None:
    records = EpochLog(stream.version.uri).records()
    return records[-1] if records else None


def _read_on(settings: Settings, pipeline: Pipeline, again: str, probe: Probe, aim: EpochRecord | None = None) -> None:
    """Read to the log's ends, or to where an epoch ends.

    Raises:
        LakeError: It was asked to stop before.
    """
    if driver.run(settings, pipeline, until="drain", ends=None if aim is None else aim.end, probe=probe) != 0:
        msg = f"Replay of `{pipeline.name}`: expected to reach its end, was asked to stop."
        raise LakeError(msg + f"\nHint: `{again}` goes on from there.")


def _has_driver(settings: Settings, pipeline: Pipeline) -> bool:
    said = heartbeat.read(settings, pipeline.name)
    return said is not None and said.alive


def _open_version(settings: Settings, pipeline: Pipeline, number: int, clock: Clock, epoch: int | None) -> Version:
    turn = versions.next_turn(settings, pipeline)
    known = versions.list_versions(settings, pipeline)
    there = next((version for version in known if version.number == number), None)
    following = known[-1].number + 1 if known else 0
    if there is None and number == following:
        if epoch is not None:
            return fork.branch(settings, pipeline, epoch, clock, beside=True)
        return versions.register(settings, pipeline, clock, turn=turn, beside=True)
    if there is None or not there.beside:
        msg = f"Replay of `{pipeline.name}`: expected the next version ({following}) or one that a replay fills, "
        got = f"{number}, which is not there" if there is None else f"{number}, which serves or has served"
        raise DefinitionError(msg + f"got {got}.")
    if epoch is not None and (there.fork is None or there.fork.epoch != epoch):
        begun = "the log's beginning" if there.fork is None else f"epoch {there.fork.epoch}"
        msg = f"Replay of `{pipeline.name}` into stream-{number}: expected to go on from {begun}, got epoch {epoch}."
        raise DefinitionError(msg + f"\nHint: a replay from elsewhere is another version: `--into {following}`.")
    return there
