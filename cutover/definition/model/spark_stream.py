"""Streaming job that Cutover did not write: a Structured Streaming query, described by its checkpoint and its table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

OutputMode = Literal["append", "complete", "update"]

WINDOW_START = "window_start"
"""Name under which `SparkStream.columns` says where a row's window starts."""

WINDOW_END = "window_end"
"""Name under which `SparkStream.columns` says where a row's session ends: rows decide it, so that it is compared."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Delta table of a job; Cutover reads it and never writes it."""

    path: str  # absolute, or a URI


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStream:
    """Structured Streaming query of a team, whose micro-batches `cutover follow` repeats.

    Its table has a row per window and key, or per record, or per pair of records of two topics that it joins.
    """

    table: Delta
    checkpoint: str  # `checkpointLocation` of the query: an absolute path, or a URI
    output_mode: OutputMode
    """As the query has it: `append` writes a window once it is closed; `update` and `complete` write open ones, too."""
    single_watermark: bool = False
    """Whether the job judges a batch by the batch's own watermark, as Spark before 3.4 does, and later versions with
    `spark.sql.streaming.statefulOperator.allowMultiple=false`; its checkpoint does not show it."""
    row_per_record: bool = False
    """Whether the query has no grouping, so that its table has a row per record, or per pair of a join: the measures
    are computed over its rows, which belong to the windows of their event times."""
    latest_by: str | None = None
    """Column of the table that orders the rows of a window and key, if `foreachBatch` appends what it gets in update
    mode: such as the number of the batch. The row with the largest value counts."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Name in the definition -> the table's column, `a.b` in a struct. Names are those of the key, of the measures, and
    `window_start`, without which the table's `window.start` counts; of sessions `window_end`, too, without which its
    `session_window.start` and `session_window.end` count; with `row_per_record` the event time instead, of a pair that
    of its earlier row and the ids of both, and no `Count`, which counts rows. Columns that are left out have the same
    name."""

    def __post_init__(self) -> None:
        if isinstance(self.columns, Mapping):  # the checks reject anything else, and name the field
            object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __hash__(self) -> int:
        """Hash the checkpoint: mappings have no hash."""
        return hash(self.checkpoint)
