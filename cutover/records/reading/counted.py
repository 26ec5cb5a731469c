"""Reads of the log that count their records, so that a caller can tell whether every offset is accounted for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutover.records.columns import observe
from cutover.records.reading.scan import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRead:
    """Offset ranges, and the observation that counts their records when the frame is first evaluated."""

    reads: tuple[Offsets, ...]
    seen: "Observation"

    @property
    def records(self) -> int | None:
        """Return the number of records; None: the frame was not evaluated.

        An executor that dies behind its map task counts twice.
        """
        java: Any = self.seen._jo  # noqa: SLF001 -- `get` alone would wait for ever for what was not evaluated
        return int(self.seen.get[_RECORDS]) if java is not None and java.future().isCompleted() else None


def count_records(frame: "DataFrame", reads: tuple[Offsets, ...]) -> "tuple[DataFrame, CountedRead]":
    """Return a frame of records that counts them as they pass by.

    Args:
        frame: Records as `scan.read_records` returns them.
        reads: The ranges that it reads.
    """
    from pyspark.sql import Observation  # noqa: PLC0415 -- only what reads by Spark needs it

    observation = Observation()
    return observe(frame, observation, (f"count(1) AS {_RECORDS}",)), CountedRead(reads=reads, seen=observation)
