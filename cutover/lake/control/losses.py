"""Accepted losses of the log: offsets by partition, and the windows that may miss their records.

A loss is recorded by an explicit step (`cutover accept-loss`) before the stream continues after it. From then on its
windows read `incomplete(lost)`, in that version of the stream and in every later one: the log has lost their records.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.lake.control.versions import Version
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import Loss
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

Starts = tuple[int, int]  # window starts [from, to), microseconds

REASON = "lost"


def list_of_version(settings: Settings, version: Version) -> tuple[Loss, ...]:
    """List the losses that were recorded for one version of the stream, oldest first."""
    rows = _read(settings, version.pipeline, version.result_fingerprint)
    return tuple(loss for loss in rows if loss.stream_version == version.number)


def list_up_to(settings: Settings, version: Version) -> tuple[Loss, ...]:
    """List the losses of a version and of those before it: no later version can read what the log lost."""
    rows = _read(settings, version.pipeline, version.result_fingerprint)
    return tuple(loss for loss in rows if loss.stream_version <= version.number)


def list_losses(lake: PipelineLake) -> tuple[Loss, ...]:
    """List the losses of all versions under the definition's result fingerprint, oldest first."""
    return _read(lake.settings, lake.name, result_fingerprint(lake.pipeline))


def read_next_loss_sequence(settings: Settings, pipeline: str) -> int:
    """Return the sequence of the next recorded step; read it before the facts on which that is decided."""
    return Journal(settings, pipeline, Loss).next_sequence()


def record(settings: Settings, rows: Sequence[Loss], *, expected_sequence: int) -> tuple[Loss, ...]:
    """Record one step in one commit.

    Args:
        settings: Location of the lake.
        rows: Losses of one pipeline.
        expected_sequence: Of `read_next_loss_sequence`, read before the step was decided.

    Raises:
        LakeError: Another step was recorded in the meantime; nothing was written.
    """
    journal = Journal(settings, rows[0].pipeline, Loss)
    sequence = journal.append(*rows, expected_sequence=expected_sequence)
    return tuple(replace(row, sequence=sequence) for row in rows)


def find_start_offsets(rows: Iterable[Loss], epoch: int, topic_id: str) -> dict[int, int]:
    """Return the offset at which an epoch starts after the latest recorded loss of a log, by partition."""
    at_ends = (loss for loss in list_ends(rows) if loss.epoch == epoch and loss.topic_id == topic_id)
    return {loss.partition: loss.next for loss in at_ends if loss.next is not None and not loss.again}


def list_ends(rows: Iterable[Loss]) -> tuple[Loss, ...]:
    """Select the losses of whole ranges at an end of a log; those inside it move no offset at which an epoch starts."""
    return tuple(loss for loss in rows if loss.kind != "inside")


def find_incomplete_ranges(rows: Iterable[Loss], topic_id: str) -> dict[int, list[tuple[int, int]]]:
    """Return the offset ranges `[first, next)` of a log that are recorded as incomplete, by partition."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for loss in rows:
        if loss.kind == "inside" and loss.topic_id == topic_id and loss.next is not None:
            ranges.setdefault(loss.partition, []).append((loss.first, loss.next))
    return ranges


def find_touched_windows(rows: Iterable[Loss]) -> tuple[Starts, ...]:
    """Return the affected windows by their starts, as disjoint ranges `[from, to)`, ascending."""
    return merge_intervals(Interval(*loss.windows) for loss in rows if loss.windows is not None)


def is_touched(start: int, ranges: Iterable[Starts]) -> bool:
    """Return whether the window with this start (microseconds) is affected."""
    return any(range_start <= start < range_end for range_start, range_end in ranges)


def _read(settings: Settings, pipeline: str, fingerprint: str) -> tuple[Loss, ...]:
    rows = Journal(settings, pipeline, Loss).read()
    return tuple(loss for loss in rows if loss.result_fingerprint == fingerprint)
