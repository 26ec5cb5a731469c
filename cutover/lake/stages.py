"""The stage of a pipeline: which path people are served from. The newest row of its history is the truth."""

from enum import StrEnum

from cutover.lake import control
from cutover.settings import Settings


class Stage(StrEnum):
    """Where a pipeline stands on its way from two paths to one."""

    LAMBDA = "LAMBDA"  # batch is served up to its horizon, the stream after it
    SHADOW = "SHADOW"  # the stream is served, batch audits
    KAPPA = "KAPPA"  # the stream is served, batch does not run


def current_stage(settings: Settings, pipeline: str) -> Stage:
    """Return the stage that the newest row of the gate's history names; LAMBDA before the first."""
    rows = control.read(settings, "gate", pipeline)
    return Stage(rows[-1]["stage"]) if rows else Stage.LAMBDA
