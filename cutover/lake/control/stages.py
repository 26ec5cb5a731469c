"""Stage of a pipeline: the path from which people are served. The latest row of the gate's history decides."""

import contextlib
from datetime import datetime

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import GateEvent
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

WITHDRAWN = "withdrawn"
"""Event of a row that takes the sequence of a proposed move, so that the move can no longer be made."""


def read_gate_events(settings: Settings, name: str) -> list[GateEvent]:
    """Read the gate's history of a pipeline, withdrawals included, oldest first.

    Raises:
        LakeError: The table cannot be read, or rows are missing.
    """
    return Journal(settings, name, GateEvent).read()


def current_stage(lake: PipelineLake, *, way_back: bool = False) -> Stage:
    """Return the stage that the latest row of the gate's history names.

    LAMBDA before the first row, under a definition other than the one that was moved (its evidence proves nothing about
    another result), and after its tables were deleted.

    Args:
        lake: Pipeline under its current definition: a stage belongs to one.
        way_back: Decide by the gate's history alone if the history of versions cannot be read.

    Raises:
        LakeError: One of the two histories cannot be read, or rows are missing.
    """
    latest = _find_latest_move(lake, way_back=way_back)
    return Stage.LAMBDA if latest is None else Stage(latest.stage)


def find_stage_start(lake: PipelineLake) -> datetime | None:
    """Return the time of the latest move under the current definition; None before the first."""
    latest = _find_latest_move(lake, way_back=False)
    return None if latest is None else latest.at


def list_moves(settings: Settings, name: str) -> list[GateEvent]:
    """List the moves of a pipeline, oldest first, without those that were withdrawn.

    Raises:
        LakeError: The table cannot be read, or rows are missing.
    """
    return [event for event in read_gate_events(settings, name) if event.event != WITHDRAWN]


def _find_latest_move(lake: PipelineLake, *, way_back: bool) -> GateEvent | None:
    moves, fingerprint = list_moves(lake.settings, lake.name), result_fingerprint(lake.pipeline)
    if not moves or moves[-1].result_fingerprint != fingerprint:
        return None
    deletion = None
    with contextlib.suppress(*[LakeError] if way_back else []):
        deletion = versions.find_deletion(lake.settings, lake.name, fingerprint, versions.BATCH)
    was_deleted_since = deletion is not None and not deletion.is_before(moves[-1])
    return None if was_deleted_since else moves[-1]
