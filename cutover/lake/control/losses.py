"""What the log lost and a person accepted: offsets by partition, and the windows that may miss their records.

A loss is recorded by an explicit step (`cutover accept-loss`) before the stream goes on behind it. Its windows read
`incomplete(lost)` from then on, in that version of the stream and in every later one: the log cannot give them again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal, Self

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.lake.control import control_tables
from cutover.lake.control.versions import Version
from cutover.settings import Settings
from cutover.timestamps import from_micros, to_micros

Kind = Literal["gap", "anew", "inside"]
Starts = tuple[int, int]  # window starts [from, to), microseconds

REASON = "lost"
_TIMES = ("windows_from", "windows_to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The offsets of one partition that a version of the stream will never read, or reads `again`, with other records.

    Of kind `gap` the version goes on behind them: epoch `epoch` starts at `next` of these partitions, and nowhere else
    than where the epoch before ended of all others. Of kind `anew` the version was opened because of the loss, and
    reads what the log `onward_topic_id` still holds, from its first epoch on. Of kind `inside` some records between
    `first` and `next` are gone, as compaction removes them; the version goes on and reads what is left of the range.
    """

    pipeline: str
    result_fingerprint: str
    stream_version: int  # the version that goes on
    epoch: int  # its first epoch after the loss
    kind: Kind
    topic: str
    topic_id: str  # of the log that lost them
    partition: int
    first: int  # offset, inclusive
    next: int | None  # offset, exclusive; None: nobody knows how far that log went
    onward_topic_id: str  # of the log that the version reads on
    windows_from: int | None  # start of the first window touched, microseconds; None: no window is
    windows_to: int | None  # exclusive
    who: str
    why: str
    at: datetime
    again: bool = False  # the log gives these offsets once more: what was read of them is gone, what comes is another
    sequence: int = -1  # of the recorded step, counted for each pipeline; set by the table

    @property
    def windows(self) -> Starts | None:
        """Return the touched windows by their starts, `[from, to)`; None: no window is touched."""
        if self.windows_from is None or self.windows_to is None:
            return None
        return self.windows_from, self.windows_to

    def to_row(self) -> dict[str, Any]:
        """Columns of the table `losses`, times as timestamps in UTC."""
        return asdict(self) | {name: _moment(getattr(self, name)) for name in _TIMES}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Self:
        """Parse what `to_row` wrote; times become microseconds."""
        return cls(**row | {name: _micros(row[name]) for name in _TIMES})


def losses(settings: Settings, version: Version) -> tuple[Loss, ...]:
    """Return what was recorded for one version of the stream, oldest first."""
    found = _read(settings, version.pipeline, version.result_fingerprint)
    return tuple(loss for loss in found if loss.stream_version == version.number)


def up_to(settings: Settings, version: Version) -> tuple[Loss, ...]:
    """Return what was recorded for a version and for those before it: what the log lost, no later one can read."""
    found = _read(settings, version.pipeline, version.result_fingerprint)
    return tuple(loss for loss in found if loss.stream_version <= version.number)


def list_losses(settings: Settings, pipeline: Pipeline) -> tuple[Loss, ...]:
    """Return what was recorded for all versions under the definition's result fingerprint, oldest first."""
    return _read(settings, pipeline.name, result_fingerprint(pipeline))


def record(settings: Settings, rows: Sequence[Loss], *, turn: int) -> tuple[Loss, ...]:
    """Record one step, in one commit.

    Args:
        settings: Where the lake lies.
        rows: Of one pipeline.
        turn: `control.next_turn` of `losses`, as it was before the step was decided.

    Raises:
        LakeError: Another step was recorded meanwhile; nothing was written.
    """
    sequence = control_tables.append(settings, "losses", [row.to_row() for row in rows], turn=turn)
    return tuple(replace(row, sequence=sequence) for row in rows)


def skips(found: Iterable[Loss], epoch: int, topic_id: str) -> dict[int, int]:
    """Return where an epoch starts behind recorded losses of a log: partition -> offset. The newest record counts."""
    mine = (loss for loss in list_ends(found) if loss.epoch == epoch and loss.topic_id == topic_id)
    return {loss.partition: loss.next for loss in mine if loss.next is not None and not loss.again}


def list_ends(found: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return the losses of whole ranges at an end of a log; those inside it move no offset at which an epoch starts."""
    return tuple(loss for loss in found if loss.kind != "inside")


def find_incomplete_ranges(found: Iterable[Loss], topic_id: str) -> dict[int, list[tuple[int, int]]]:
    """Return the offset ranges `[first, next)` of a log that are recorded as having lost some records, by partition."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for loss in found:
        if loss.kind == "inside" and loss.topic_id == topic_id and loss.next is not None:
            ranges.setdefault(loss.partition, []).append((loss.first, loss.next))
    return ranges


def find_touched_windows(found: Iterable[Loss]) -> tuple[Starts, ...]:
    """Return the touched windows by their starts, as ranges `[from, to)` that do not meet, ascending."""
    return merge_intervals(Interval(*loss.windows) for loss in found if loss.windows is not None)


def is_touched(start: int, ranges: Iterable[Starts]) -> bool:
    """Return whether the window that starts there (microseconds) is one of those touched."""
    return any(first <= start < end for first, end in ranges)


def _read(settings: Settings, pipeline: str, fingerprint: str) -> tuple[Loss, ...]:
    rows = control_tables.read(settings, "losses", pipeline)
    return tuple(Loss.from_row(row) for row in rows if row["result_fingerprint"] == fingerprint)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
