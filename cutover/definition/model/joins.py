"""Joins: with a dimension (`Lookup`), with another topic (`Join`) and of a topic with itself (`SelfJoin`).

A lookup adds columns to a row before anything else is computed from it. A windowed join makes pairs: a left row and a
right row of one window whose keys are equal; a null key matches nothing, and measures aggregate pairs. `left` also
keeps each left row that has no partner in its window, `full` each such row of either side: the columns of the other
side are null there. A late row of either side is late as in any other pipeline; pairs are built when a result is
computed, from all rows that have arrived by then.

An interval join (`Join(between=...)`) pairs rows whose event times differ by an allowed distance instead. A pair
belongs to the window of its earlier row; the pipeline's windows end later by the longest distance, so that each holds
the later rows, too, and a later row is in the windows of all its possible partners.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from cutover.definition.model.topic import Topic
from cutover.timestamps import parse_duration

How = Literal["inner", "left", "full"]

RIGHT_PARTITION_BASE = 1_000_000
"""Added to partition numbers of the right topic where positions of both topics are listed together."""

DIMENSIONS_FOLDER, CONTROL_FOLDER = "dimensions", "_control"
"""Folders of the lake that hold its own dimensions and its history: no pipeline may have such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Join of the pipeline's source (left) with another topic (right)."""

    right: Topic
    on: Mapping[str, str]  # left column -> right column; the pipeline's key, by the names of the left
    how: How = "inner"
    prefix: str = "right_"  # of the names of the right columns, so that all names differ
    where: str | None = None  # condition on right rows; the pipeline's `where` and `derive` apply to left rows
    derive: Mapping[str, str] = field(default_factory=dict)
    between: tuple[str, str] | None = None
    """Interval join: the least and the greatest distance of the right event time after the left one, both allowed, such
    as `("0 seconds", "1 hour")` or `("-10 minutes", "10 minutes")`. None: the rows of a window are paired."""
    ids: tuple[str, str] | None = None
    """Column of the left and column of the right that identify the rows of a pair of an interval join."""

    def __post_init__(self) -> None:
        for name in ("on", "derive"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Least and greatest distance of the right event time after the left one, in microseconds; None: no interval.

        Raises:
            DefinitionError: A bound is not a duration.
        """
        if self.between is None:
            return None
        lower, upper = map(_parse_bound, self.between)
        return lower, upper

    @property
    def right_time(self) -> str:
        """Name of the right event time in a pair."""
        return f"{self.prefix}{self.right.event_time}"

    @property
    def pair_ids(self) -> tuple[str, ...]:
        """Names in a pair of the columns that identify its rows; empty without `ids`."""
        return () if self.ids is None else (self.ids[0], f"{self.prefix}{self.ids[1]}")


def _parse_bound(text: object) -> int:
    """Parse a duration that may be negative into microseconds."""
    stripped = str(text).strip()
    micros = parse_duration(stripped.removeprefix("-") if isinstance(text, str) else text, of="join.between")
    return -micros if stripped.startswith("-") else micros


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfJoin:
    """Join of a topic with itself: a row is on each side whose condition it meets, and filtered if it meets neither."""

    on: tuple[str, ...]  # columns that are equal in a pair: the pipeline's key
    left: str  # Spark SQL condition over schema columns and derived columns
    right: str
    how: How = "inner"
    prefix: str = "right_"  # of the names of the right row's columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Columns from a dimension: a Delta table with one row for each key.

    A row without a match gets nulls, and a null matches nothing; `where="... IS NOT NULL"` filters such rows. Each
    epoch is joined with one version of the table and records it; the batch path joins the same records with the same
    version.
    """

    table: str  # a name under `<lake>/dimensions/`, or the absolute path or URI of any Delta table
    on: Mapping[str, str]  # column of the row -> column of the dimension
    columns: Mapping[str, str]  # column of the dimension to add -> its Spark type

    def __post_init__(self) -> None:
        for name in ("on", "columns"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def is_named(self) -> bool:
        """Return whether the table is one of the lake's own dimensions."""
        return "/" not in self.table
