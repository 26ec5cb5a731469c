"""Records as their producer knows them: written outside the system, one JSON object a line, flushed to disk.

A line that a kill cut short is no line. Of an id with several lines the last one counts: sent, then its outcome.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

Outcome = Literal["acked", "failed", "unknown", "aborted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRecord:
    """One record that a producer has sent."""

    id: int
    outcome: Outcome
    topic_id: str
    partition: int
    offset: int | None  # None: the log did not say
    intended: str  # accepted (which may turn out late), malformed, filtered, future
    window_start: int | None = None  # microseconds; the cell it belongs to, None where it has none
    key: tuple[object, ...] = ()

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """Take a line's JSON object; the key becomes a tuple."""
        return cls(**{**raw, "key": tuple(raw["key"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """Records that a producer has sent."""

    records: tuple[OracleRecord, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what a file holds; none if it is not there."""
        if not path.exists():
            return cls(records=())
        complete_lines, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
        lines = (OracleRecord.from_json(json.loads(line)) for line in complete_lines.split("\n") if line)
        return cls(records=tuple({line.id: line for line in lines}.values()))


def append(path: Path, oracle_records: Iterable[OracleRecord]) -> None:
    """Add lines to a file; they are on the disk when this returns."""
    lines = "".join(json.dumps(asdict(record)) + "\n" for record in oracle_records)
    with path.open("a", encoding="utf-8") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
