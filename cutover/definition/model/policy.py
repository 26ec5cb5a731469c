"""Policy of a pipeline: what a verdict tolerates, and what the gate requires before a move."""

from dataclasses import dataclass, field
from typing import Literal

HazardKind = Literal["restart", "late_burst", "peak", "schema_change", "partitions", "replay"]
"""Events that a stream can be required to have survived before a move; `partitions`: more of them, or a new leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Faults that the daily sample of windows in KAPPA must find, and how surely; decides the size of the sample."""

    faults: Literal["cells", "windows"] = "cells"  # what is wrong: single (window, key) rows, or all rows of a window
    share: float = 0.01  # of cells or windows that are wrong, in the windows that become final from some day on
    within_days: int = 7  # days of event time until one is found
    power: float = 0.95  # probability of finding one


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits on differences, and the evidence that a move requires."""

    max_late_share: float = 1e-3  # late records / accepted and late records
    max_malformed_share: float = 1e-2  # malformed records / all records; only alerts
    max_future_share: float = 1e-3  # future records / all records; only alerts
    max_duplicate_share: float = 1e-2  # duplicates / all records; only alerts
    max_filtered_share: float = 0.99  # records that `where` filters / all records; only alerts
    max_unexplained: int = 0  # (window, key) rows
    max_dimension_rows: int = 0  # (window, key) rows that differ because the paths joined other versions of a dimension
    settles_after: str = "0 minutes"  # a difference is pending while its window began less than this before the cut
    max_divergence: float | None = None  # probability that a block of windows diverges, rejected at 95 %
    runs: int = 24  # consecutive sealed runs within policy, each at a later cut
    fresh_within: str = "1 day"  # maximum age of the latest of these runs
    hazards: tuple[HazardKind, ...] = ()  # that the stream must have survived, and agreed with batch afterwards
    hazards_within: str = "90 days"  # maximum age of a hazard
    detected_within: str = "1 day"  # from a wrong result to its alert; log retention must cover it
    approved_within: str = "2 days"  # from the alert to a person's decision; log retention must cover it, too
    keep_unserved: str = "30 days"  # how long tables are retained that no one is served from and no one writes
    audit: Audit | None = field(default_factory=Audit)  # sample of windows in KAPPA; None: no sample
