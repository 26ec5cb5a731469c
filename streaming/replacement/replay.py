"""Replay: fill a new version of a stream, or a changed definition, from the log, in parallel with the serving one.

A driver with a separate lock and heartbeat reads the log at full speed and ends at an epoch boundary of the serving
stream, so that both can be compared even while records arrive. The result serves nothing until a person has agreed to
the differences of a comparison and switches to it.
"""

import time
from dataclasses import dataclass

from cutover.changes import check_reason
from cutover.clock import Clock, Probe, silent
from cutover.counts import choose_form, count_noun
from cutover.definition.checks import change
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import pins, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord, has_read_as_much, read_newest_epoch
from cutover.lake.serving import serving_table
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process import heartbeat
from cutover.streaming.recovery import fork
from cutover.streaming.replacement.compare import (
    Stream,
    StreamComparison,
    compare_versions,
    drop_zeros,
    find_stream,
)

PATIENCE_SECONDS, BETWEEN_SECONDS = 60.0, 0.5
"""Time that a replay which is ahead of the serving stream waits for an epoch of it, and the polling interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Differences to which a person agrees before a stream serves for the first time."""

    differences: int = 0  # (window, key) rows that differ from the one that serves, as the comparison counted them
    uncompared: bool = False  # serve without a comparison, for instance because no cut is common


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Result of a switch to another version."""

    version: Version
    comparison: StreamComparison | None  # None: not compared
    stale_pipelines: tuple[str, ...]  # names whose serving table could not be published yet


def replay_log(
    lake: PipelineLake,
    number: int,
    clock: Clock,
    *,
    epoch: int | None = None,
    probe: Probe = silent,
) -> tuple[Version, bool]:
    """Read the log into another version: up to the current ends of the log, then to an epoch of the serving one.

    Args:
        lake: Pipeline whose log is read.
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
    pipeline = lake.pipeline
    serving = versions.find_current_version(lake.with_settings(stream_version=None))
    version = _open_version(lake, number, clock, epoch)
    version_lake = lake.with_settings(stream_version=number)
    _read_on(version_lake, f"cutover replay {pipeline.name} --into {number}", probe)
    if serving is not None and serving.number != number and _has_driver(lake):
        stream = Stream(pipeline=pipeline, version=version)
        return version, _meet(version_lake, stream, Stream(pipeline=pipeline, version=serving), clock, probe)
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
    version_settings = versions.select_served_version(settings)
    lake = PipelineLake(version_settings, new)
    serving, version = find_stream(PipelineLake(version_settings, old)), versions.find_current_version(lake)
    if version is None or not delta.exists(version.uri):
        aim = read_newest_epoch(serving.epoch_log)
        _pin_epoch(version_settings, serving, aim, new.name, clock)
        _read_on(lake, f"cutover replay {new.name}", probe, aim)
    stream = find_stream(lake)
    if not _meet(lake, stream, serving, clock, probe):
        msg = f"{serving.text}: expected an epoch that has read what {stream.text} has, its newest one has not."
        raise LakeError(msg + f"\nHint: let its driver continue (`cutover stream {old.name} --detach`), and try again.")
    return stream


def _meet(lake: PipelineLake, stream: Stream, serving: Stream, clock: Clock, probe: Probe) -> bool:
    """Read on to an epoch boundary of the serving stream, and pin the epochs of both for a day.

    Args:
        lake: The pipeline at the version that reads.
        stream: The one that reads; none of its drivers is running.
        serving: The one that is read up to.
        clock: For the pins.
        probe: Called at the driver's probe points.

    Returns:
        True if they met; otherwise the serving stream has read less, and commits no epoch that has read as much.

    Raises:
        CutoverError: The driver cannot start or continue.
    """
    settings, name = lake.settings, lake.name
    position = next(iter(reversed(stream.epoch_log.records())), None)
    aim = _await_epoch(settings, serving, position)
    if aim is None:
        return False
    _pin_epoch(settings, serving, aim, name, clock)
    if position is None or drop_zeros(aim.end) != drop_zeros(position.end):
        into = "" if settings.stream_version is None else f" --into {settings.stream_version}"
        _read_on(lake, f"cutover replay {name}{into}", probe, aim)
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
        if newest.topic_id != position.topic_id or is_over or not _has_driver(PipelineLake(settings, serving.pipeline)):
            return None
        time.sleep(BETWEEN_SECONDS)


def _pin_epoch(settings: Settings, stream: Stream, record: EpochRecord, by: str, clock: Clock) -> None:
    """Keep an epoch from being folded into later ones for a day, so that a person can compare."""
    now = clock.now()
    pins.pin(settings, stream.version, record.epoch, holder=f"beside/{by}", expires_at=now + pins.LONGEST, now=now)


def _read_on(lake: PipelineLake, repeat_command: str, probe: Probe, aim: EpochRecord | None = None) -> None:
    """Read to the log's ends, or to where an epoch ends.

    Raises:
        LakeError: A stop was requested earlier.
    """
    if driver.run_driver(lake, until="drain", aim=None if aim is None else aim.cut, probe=probe) != 0:
        msg = f"Replay of `{lake.name}`: expected to reach its end, a stop was requested."
        raise LakeError(msg + f"\nHint: `{repeat_command}` continues from there.")


def _has_driver(lake: PipelineLake) -> bool:
    """Return whether a driver of the serving version is running, by its heartbeat."""
    last_heartbeat = heartbeat.read_heartbeat(versions.select_served_version(lake.settings), lake.name)
    return last_heartbeat is not None and last_heartbeat.alive


def _open_version(lake: PipelineLake, number: int, clock: Clock, epoch: int | None) -> Version:
    sequence = versions.read_next_version_sequence(lake)
    all_versions = versions.list_stream_versions(lake)
    existing = next((version for version in all_versions if version.number == number), None)
    following = versions.read_next_version_number(lake)
    if existing is None and number == following:
        if epoch is not None:
            return fork.register_fork(lake, epoch, clock, parallel=True)
        return versions.register(lake, clock, expected_sequence=sequence, parallel=True)
    if existing is None or not existing.parallel:
        msg = f"Replay of `{lake.name}`: expected the next version ({following}) or one that a replay fills, "
        actual = f"{number}, which does not exist" if existing is None else f"{number}, which serves or has served"
        raise DefinitionError(msg + f"got {actual}.")
    if epoch is not None and (existing.fork is None or existing.fork.epoch != epoch):
        beginning = "the log's beginning" if existing.fork is None else f"epoch {existing.fork.epoch}"
        msg = f"Replay of `{lake.name}` into stream-{number}: expected to continue from {beginning}, "
        msg += f"got epoch {epoch}."
        raise DefinitionError(msg + f"\nHint: a replay from elsewhere is another version: `--into {following}`.")
    return existing


def serve_version(lake: PipelineLake, number: int, *, reason: str, agreed: Agreed, clock: Clock) -> Served:
    """Make a version serve, in one commit; one that never served is compared first, the result is recorded in `reason`.

    A version that has served before serves again at once.

    Raises:
        DefinitionError: There is no such version, it serves already, or its differences were not agreed to.
        LakeError: The two have no cut in common, a table cannot be read, or another process was quicker.
    """
    check_reason(reason, of="Version")  # rejected here, before a comparison that takes minutes
    turn, is_new = versions.read_next_version_sequence(lake), _never_served(lake, number)
    comparison: StreamComparison | None = None
    if is_new and not agreed.uncompared:
        comparison = compare_versions(lake, number)
        reject_others(comparison, agreed, f"cutover replay {lake.name} --compare {number}")
    elif agreed.differences:
        msg = f"Version {number} of `{lake.name}`: expected no `--differences` where nothing is compared"
        raise DefinitionError(msg + (", got it together with `--uncompared`." if is_new else ": it has served before."))
    comparison_text = f" ({describe_comparison(comparison)})" if is_new else ""
    served = versions.promote_version(
        lake, number, why=reason, finding=comparison_text, clock=clock, expected_sequence=turn
    )
    return Served(version=served, comparison=comparison, stale_pipelines=serving_table.update_tables(lake))


def _never_served(lake: PipelineLake, number: int) -> bool:
    other_versions = [version for version in versions.list_stream_versions(lake) if version.number == number]
    return any(version.parallel for version in other_versions)


def reject_others(comparison: StreamComparison, agreed: Agreed, command: str) -> None:
    """Check that a stream differs in as many rows as a person has agreed to.

    Args:
        comparison: The comparison with the serving stream.
        agreed: The differences agreed to.
        command: The command that shows some of them.

    Raises:
        DefinitionError: It differs otherwise, it has more or fewer records of a class, or it has no row at all.
    """
    if comparison.is_emptied:
        msg = f"{comparison.candidate}: expected rows in place of the {comparison.rows:,} of {comparison.serving}"
        msg += ", got none."
        hint = f"`{command}` shows what differs; `--uncompared` serves it without a comparison"
        raise DefinitionError(msg + f"\nHint: {hint}.")
    for kind, (count_before, count_after) in comparison.classes.items():
        msg = f"{comparison.candidate}: expected {count_before:,} {kind} records, as {comparison.serving} has"
        msg += f", got {count_after:,}."
        hint = "a change note names the classes that may differ (`classes`); `--uncompared` skips the comparison"
        raise DefinitionError(msg + f"\nHint: {hint}.")
    if comparison.differing == agreed.differences:
        return
    count = agreed.differences
    expected = f"{count_noun(count, 'row')} that {choose_form(count, 'differs', 'differ')}"
    msg = f"{comparison.candidate}: expected {expected} from {comparison.serving}, "
    msg += f"got {comparison.differing:,} of {comparison.rows:,}."
    raise DefinitionError(
        msg + f"\nHint: `{command}` shows some of them; `--differences {comparison.differing}` agrees to them."
    )


def describe_comparison(comparison: StreamComparison | None) -> str:
    """Return the summary of a comparison for the history; `not compared` without one."""
    return "not compared" if comparison is None else comparison.summary
