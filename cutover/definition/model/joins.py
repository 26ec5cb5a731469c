"""Windowed joins: rows of one window whose columns are equal make pairs, and measures look at pairs.

A pair is a left row and a right row of one window and key; a null key matches nothing. `left` also keeps each left row
that has no partner in its window, `full` each row of either side: the other side's columns are null then. Late rows of
either side are late as all others are; pairs are made where a result is, of all rows that have come by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from cutover.definition.model.topic import Topic

How = Literal["inner", "left", "full"]

RIGHT = 1_000_000
"""Added to the number of a partition of the right topic, wherever positions of both topics stand side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Rows of the pipeline's source on the left, rows of another topic on the right."""

    right: Topic
    on: Mapping[str, str]  # column of the left -> column of the right; the key of the pipeline, under the left's names
    how: How = "inner"
    prefix: str = "right_"  # before the names of the right's columns, so that no two names are equal
    where: str | None = None  # of the right's rows; the pipeline's `where` and `derive` are the left's
    derive: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("on", "derive"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfJoin:
    """Rows of one topic on both sides: each is on those sides whose condition it fulfils; of neither: filtered."""

    on: tuple[str, ...]  # columns that are equal in a pair: the key of the pipeline
    left: str  # Spark SQL condition over the schema's and the derived columns
    right: str
    how: How = "inner"
    prefix: str = "right_"  # before the names of the right row's columns
