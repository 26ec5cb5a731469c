"""Replay: fill a new version of the stream from the log, beside the one that serves, as fast as the log is read.

The version begins where the log does, or behind an epoch of the version that serves, and has a driver, a lock and a
heartbeat of its own. It serves nothing until a person lets it.
"""

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.probe import Probe, silent
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.recovery import fork


def replay(
    settings: Settings,
    pipeline: Pipeline,
    number: int,
    clock: Clock,
    *,
    epoch: int | None = None,
    probe: Probe = silent,
) -> Version:
    """Read the log into a version beside the one that serves, up to the log's ends as they are now.

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
    version = _open_version(settings, pipeline, number, clock, epoch)
    if driver.run(versions.looking_at(settings, number), pipeline, until="drain", probe=probe) != 0:
        msg = f"Replay of `{pipeline.name}` into stream-{number}: expected to reach the log's end, was asked to stop."
        raise LakeError(msg + f"\nHint: `cutover replay {pipeline.name} --into {number}` goes on from there.")
    return version


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
