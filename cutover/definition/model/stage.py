"""Stage of a pipeline: the path from which people are served."""

from enum import StrEnum


class Stage(StrEnum):
    """Stage of a pipeline on its way from two paths to one."""

    LAMBDA = "LAMBDA"  # batch is served up to its horizon, the stream after it
    SHADOW = "SHADOW"  # the stream is served, batch audits
    KAPPA = "KAPPA"  # the stream is served, batch does not run
