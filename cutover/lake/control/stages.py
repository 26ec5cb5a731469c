"""The stage of a pipeline: which path people are served from. The newest row of its history is the truth."""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.control import control_tables, versions
from cutover.settings import Settings

WITHDRAWN = "withdrawn"
"""Event of a row that takes the turn of a proposed move, which nobody can make any more then."""


class Stage(StrEnum):
    """Where a pipeline stands on its way from two paths to one."""

    LAMBDA = "LAMBDA"  # batch is served up to its horizon, the stream after it
    SHADOW = "SHADOW"  # the stream is served, batch audits
    KAPPA = "KAPPA"  # the stream is served, batch does not run


def current_stage(settings: Settings, pipeline: Pipeline, *, way_back: bool = False) -> Stage:
    """Return the stage that the newest row of the gate's history names.

    LAMBDA before the first, and under a definition that is not the one that was moved: its evidence proves nothing
    about another truth, or whose tables were deleted since.

    Args:
        settings: Where the lake is.
        pipeline: Its definition.
        way_back: The history of the gate has to do, where that of versions cannot be read.

    Raises:
        LakeError: One of both cannot be read, or rows of it are gone.
    """
    return Stage.LAMBDA if (move := _newest_move(settings, pipeline, way_back)) is None else Stage(move["stage"])


def stage_since(settings: Settings, pipeline: Pipeline) -> datetime | None:
    """Return when the newest move under the definition in force was made; None before the first."""
    move = _newest_move(settings, pipeline, way_back=False)
    return None if move is None else move["at"]


def list_moves(settings: Settings, name: str) -> list[dict[str, Any]]:
    """Return the moves in the gate's history of a pipeline, the oldest first; what was withdrawn was no move.

    Raises:
        LakeError: The table cannot be read, or rows of it are gone.
    """
    return [row for row in control_tables.read(settings, "gate", name) if row["event"] != WITHDRAWN]


def _newest_move(settings: Settings, pipeline: Pipeline, way_back: bool) -> Mapping[str, Any] | None:
    rows, own = list_moves(settings, pipeline.name), result_fingerprint(pipeline)
    if not rows or rows[-1]["result_fingerprint"] != own:
        return None
    deleted = None
    with contextlib.suppress(*[LakeError] if way_back else []):
        deleted = versions.find_deletion(settings, pipeline.name, own, versions.BATCH)
    is_of_now = deleted is None or deleted.is_before("gate", rows[-1])
    return rows[-1] if is_of_now else None  # its tables are gone: it begins anew
