"""Conditions under which two streams can be compared at a cut.

Differences that come from epoch boundaries, from the time at which a dimension was read, or from unread records,
are not differences of the definitions. Where the two kinds cannot be distinguished, the comparison is rejected.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cutover.errors import LakeError
from cutover.lake.control import losses
from cutover.lake.epochs.delivery import EXACTLY_ONCE
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition
from cutover.records.classes import Class
from cutover.settings import Settings
from cutover.streaming.replacement.common_cut import drop_zeros
from cutover.streaming.replacement.stream import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Records of the epochs that a stream has read up to a cut."""

    stream: Stream
    records: Sequence[EpochRecord]  # up to the cut, at least one
    losses: Sequence[Loss] = ()  # recorded of its version

    def count(self, kind: Class) -> int:
        """Count (record, window) pairs of a class."""
        return sum(record.counts.get(kind, 0) for record in self.records)


def find_coverage(settings: Settings, stream: Stream, epoch: int) -> Coverage:
    """Read the epochs and losses of a stream up to an epoch.

    Raises:
        LakeError: Its records or its losses cannot be read.
    """
    records = [record for record in stream.epoch_log.records() if record.epoch <= epoch]
    return Coverage(stream=stream, records=records, losses=losses.list_of_version(settings, stream.version))


def reject_unfair(serving: Coverage, coverage: Coverage) -> None:
    """Check that a comparison of two streams can neither report false differences nor hide real ones.

    Raises:
        LakeError: They cannot be compared; the message names the condition.
    """
    reason = next((text for evaluate in _CONDITIONS for text in evaluate(serving, coverage)), None)
    if reason is None:
        return
    msg = f"{coverage.stream.text} and {serving.stream.text}: expected two streams that can be compared, {reason}."
    names = dict.fromkeys((coverage.stream.pipeline.name, serving.stream.pipeline.name))
    commands = " and ".join(f"`cutover reconcile {name}`" for name in names)
    raise LakeError(
        msg + f"\nHint: compare each with its own batch path ({commands}); `--uncompared` lets it serve then."
    )


def _evaluate_deliveries(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    for side in (serving, coverage):
        for kind in sorted({side.stream.pipeline.delivery, *(record.delivery for record in side.records)}):
            if kind != EXACTLY_ONCE:
                yield f"{side.stream.text} delivers {kind}: what it doubled or lost is no difference of the definitions"


def _evaluate_losses(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    for side in (serving, coverage):
        if side.losses:
            yield f"{side.stream.text} continues after a recorded loss, which the other one may not have"


def _evaluate_beginnings(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    """Yield where one of them begins behind what the other one has read: retention may have removed it meanwhile."""
    starts = [drop_zeros(side.records[0].start) for side in (serving, coverage)]
    if starts[0] != starts[1]:
        partition = min(p for p in {*starts[0], *starts[1]} if starts[0].get(p, 0) != starts[1].get(p, 0))
        place, offsets = format_partition(serving.records[0].topic, partition), [s.get(partition, 0) for s in starts]
        yield (
            f"{place} is read from offset {offsets[1]:,} by {coverage.stream.text} and from {offsets[0]:,} "
            f"by {serving.stream.text}: windows would be missing"
        )


def _evaluate_ids(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    """Yield streams with ids that judged records late: whether such a record is a duplicate was known to one alone."""
    for side in (serving, coverage):
        if side.stream.pipeline.source.record_id is not None and (late := side.count(Class.LATE)):
            yield f"{side.stream.text} has {late:,} late rows of records with ids, of which some may be duplicates"


def _evaluate_dimensions(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    """Yield tables that were joined at other versions, or at several, under whichever name of a lookup."""
    joined: dict[str, set[tuple[str | None, int]]] = {}
    sides = [{lookup.table for lookup in side.stream.pipeline.lookups.values()} for side in (serving, coverage)]
    for side in (serving, coverage):
        for name, lookup in side.stream.pipeline.lookups.items():
            joined_versions = joined.setdefault(lookup.table, set())
            joined_versions |= {
                (r.dimension_ids.get(name), r.dimensions[name]) for r in side.records if name in r.dimensions
            }
    for table in sorted(sides[0] & sides[1]):
        if len(joined[table]) > 1:
            yield f"the table of the lookup `{table}` was joined at {len(joined[table])} versions"


_CONDITIONS: tuple[Callable[[Coverage, Coverage], Iterator[str]], ...] = (
    _evaluate_deliveries,
    _evaluate_losses,
    _evaluate_beginnings,
    _evaluate_ids,
    _evaluate_dimensions,
)
