"""Streaming job that Cutover did not write: a Structured Streaming query, described by its checkpoint and its table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

OutputMode = Literal["append", "complete", "update"]

WINDOW_START = "window_start"
"""Name under which `SparkStream.columns` says where a row's window starts."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Delta table of a job; Cutover reads it and never writes it."""

    path: str  # absolute, or a URI


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStream:
    """Structured Streaming query of a team, one row a window and key; `cutover follow` repeats its micro-batches."""

    table: Delta
    checkpoint: str  # `checkpointLocation` of the query: an absolute path, or a URI
    output_mode: OutputMode
    """As the query has it: `append` writes a window once it is closed; `update` and `complete` write open ones, too."""
    single_watermark: bool = False
    """Whether the job judges a batch by the batch's own watermark, as Spark before 3.4 does, and later versions with
    `spark.sql.streaming.statefulOperator.allowMultiple=false`; its checkpoint does not show it."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Name in the definition (`window_start`, a column of the key, a measure) -> the table's column, `a.b` in a struct.
    Others have the same name; without `window_start` the table's `window.start` counts."""

    def __post_init__(self) -> None:
        if isinstance(self.columns, Mapping):  # the checks reject anything else, and name the field
            object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __hash__(self) -> int:
        """Hash the checkpoint: mappings have no hash."""
        return hash(self.checkpoint)
