"""One pipeline: a frozen value that says what, where, when and how, and is checked when it is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from cutover.definition.measures.kinds import Measure
from cutover.definition.model.joins import Join, SelfJoin
from cutover.definition.model.lateness import Lateness
from cutover.definition.model.lookups import Lookup
from cutover.definition.model.topic import Topic
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.sessions import Window

Delivery = Literal["exactly_once", "at_least_once", "at_most_once"]
HazardKind = Literal["restart", "late_burst", "peak", "schema_change", "partitions", "replay"]
"""What a stream may have to go through before a move; `partitions`: more of them, or another leader of one."""
RowChange = Literal["added", "removed"]
ClassChange = Literal["malformed", "filtered", "future"]


@dataclass(frozen=True, slots=True)
class SameDefinition:
    """The batch path computes this definition: same parser, classes and measures, no lateness."""


@dataclass(frozen=True, slots=True)
class Sql:
    """The batch path runs the SQL that a team already has.

    The file is a Spark SQL query over the view `events`: the schema's and the derived columns, and `_class`,
    `_partition`, `_offset`, `_log_time`. It returns `window_start`, the key columns and the measures.
    """

    file: str  # relative to the definition's file
    may_be_empty: bool = False  # whether a run may replace rows by none; else it is refused and publishes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """One expectation on the batch result: a Great Expectations type with its arguments, as plain data."""

    type: str  # such as `expect_column_values_to_be_between`
    arguments: Mapping[str, Any]
    severity: Literal["critical", "warning", "info"] = "critical"

    @property
    def text(self) -> str:
        """Return type and arguments in one line, as batch runs record the expectation."""
        return f"{self.type}({', '.join(f'{name}={value!r}' for name, value in sorted(self.arguments.items()))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a daily sample of windows finds in KAPPA, and how surely: it says how many windows are recomputed."""

    faults: Literal["cells", "windows"] = "cells"  # what is wrong: single (window, key) rows, or all of a window
    share: float = 0.01  # of them, in the windows that become final from some day on
    within_days: int = 7  # days of event time until one is found
    power: float = 0.95  # chance of that


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How much difference is acceptable, and how much evidence a move needs."""

    max_late_share: float = 1e-3  # late records / accepted and late records
    max_malformed_share: float = 1e-2  # malformed records / all records; only alerts
    max_future_share: float = 1e-3  # future records / all records; only alerts
    max_duplicate_share: float = 1e-2  # duplicates / all records; only alerts
    max_filtered_share: float = 0.99  # records that `where` leaves out / all records; only alerts
    max_unexplained: int = 0  # (window, key) rows
    max_dimension_rows: int = 0  # (window, key) rows that differ since the paths joined other versions of a dimension
    settles_after: str = "0 minutes"  # a difference is pending while its window began less than this before the cut
    max_divergence: float | None = None  # chance that a block of windows diverges, refuted at 95 %; None: not asked for
    runs: int = 24  # consecutive sealed runs within policy, each with a newer cut
    fresh_within: str = "1 day"  # age of the newest of these
    hazards: tuple[HazardKind, ...] = ()  # that the stream must have gone through, and agreed with batch after it
    hazards_within: str = "90 days"  # how long ago at most
    detected_within: str = "1 day"  # from a wrong result to its alert; the log must be kept for this, too
    approved_within: str = "2 days"  # from the alert to a person's word; the log must be kept for this, too
    keep_unserved: str = "30 days"  # how long tables stay that nobody is served from any more, and nobody writes
    audit: Audit | None = field(default_factory=Audit)  # of the sample in KAPPA; None: nobody draws one


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The note of a changed definition: all in which its rows may differ. Whatever else differs is a difference."""

    of: str  # name of the pipeline whose place it is to take
    why: str
    added: tuple[str, ...] = ()  # measures that only the new definition has
    removed: tuple[str, ...] = ()  # measures that only the old one has
    changed: tuple[str, ...] = ()  # measures of both whose values may differ
    rows: tuple[RowChange, ...] = ()  # (window, key) rows that only one of them may have: the new one, the old one
    classes: tuple[ClassChange, ...] = ()  # classes of records of which there may be more or fewer
    lateness: bool = False  # other records may be late: their windows close at another time
    within: str | None = None  # Spark SQL over key, `window_start` and `window_end`: where they may; None: anywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One definition, compiled to three runners: streaming, batch, and a plain-Python reference."""

    name: str
    source: Topic
    key: tuple[str, ...]  # columns of the schema, of `lookups` or of `derive`; a null key is a value
    window: Window
    measures: Mapping[str, Measure]
    where: str | None = None  # Spark SQL condition; rows for which it is not true are `filtered`
    lookups: Mapping[str, Lookup] = field(default_factory=dict)  # columns from dimensions, joined in this order
    derive: Mapping[str, str] = field(default_factory=dict)  # further columns, Spark SQL over schema and lookups
    join: Join | SelfJoin | None = None  # measures look at pairs of rows, not at rows
    lateness: Lateness = field(default_factory=Lateness)
    trigger: Trigger | None = None  # when panes of a window come out; None: none do, and nothing is kept for them
    accumulation: Accumulation = Accumulation.ACCUMULATING  # how panes of one window relate
    changelog: str | None = None  # a topic that panes go to as well, one transaction an epoch
    delivery: Delivery = "exactly_once"  # of the stream's results; the others may double or lose a range, and say so
    batch: SameDefinition | Sql = field(default_factory=SameDefinition)
    contract: tuple[Expect, ...] = ()
    policy: Policy = field(default_factory=Policy)
    change: Change | None = None  # the pipeline whose place this one is to take, and in what their rows may differ
    max_rows_per_epoch: int = 50_000  # records; bounds the work of one epoch and how late a replay judges
    schedule: str = "@hourly"  # cron of the batch recompute
    file: Path | None = field(default=None, compare=False)  # where the definition was read from

    def __post_init__(self) -> None:
        for name in ("lookups", "derive", "measures"):
            given = getattr(self, name)
            if isinstance(given, Mapping):  # anything else is refused by the checks, which name the field
                object.__setattr__(self, name, MappingProxyType(dict(given)))

    def __hash__(self) -> int:
        """Equal definitions have equal names; mappings, which most of the rest is, have no hash."""
        return hash(self.name)
