"""Cuts that two streams have in common: epochs of both that end at the same offsets of the same log.

A stream is a version and the definition that it runs: the subject of comparisons, replays and switches.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import table_weights
from cutover.pipeline_lake import PipelineLake

_NEWEST = 20
"""Newest common cuts that are tried although no reader has pinned them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A version of a stream, and the definition that it runs."""

    pipeline: Pipeline
    version: Version

    @property
    def text(self) -> str:
        """Return how messages name it: `flights stream-0`."""
        return f"{self.pipeline.name} stream-{self.version.number}"

    @property
    def epoch_log(self) -> EpochLog:
        """Open its current epoch log."""
        return EpochLog(self.version.uri)


def list_common_cuts(epoch_records: Sequence[EpochRecord], second: Sequence[EpochRecord]) -> Iterator[tuple[int, int]]:
    """Yield the epochs of two streams that end at the same offsets of the same log, the newest of the second first."""
    ends = {_key(record): record.epoch for record in epoch_records}
    positions = set()
    for epoch_record in reversed(second):
        if _key(epoch_record) in ends and _key(epoch_record) not in positions:
            positions.add(_key(epoch_record))
            yield ends[_key(epoch_record)], epoch_record.epoch


def find_readable_cut(
    epoch_log: EpochLog, second: EpochLog, *, after_epoch: int = -1, pinned_cuts: Container[tuple[int, int]] = ()
) -> tuple[int, int] | None:
    """Return the newest common cut whose epochs were not merged into later ones; None if there is none.

    Args:
        epoch_log: One stream.
        second: The other stream, which is to replace it.
        after_epoch: Epoch at which the second stream was forked: an earlier cut compares the first with itself.
        pinned_cuts: Cuts that readers have pinned, as a replay does where both met. They are tried however old they
            are; of the others only the newest few are, since older epochs are folded.
    """
    records_of_both = (epoch_log.records(), second.records())
    cuts = [cut for cut in list_common_cuts(*records_of_both) if cut[1] > after_epoch]
    for place, cut in enumerate(cuts):
        if place < _NEWEST or cut in pinned_cuts:
            parts = zip((epoch_log, second), records_of_both, cut, strict=True)
            if not any(_is_folded(log, records, epoch) for log, records, epoch in parts):
                return cut
    return None


def has_read_as_much(record: EpochRecord, other: EpochRecord) -> bool:
    """Return whether an epoch has read all that another one has, of the same log, in every partition."""
    return record.topic_id == other.topic_id and all(record.end.get(p, 0) >= end for p, end in other.end.items())


def drop_zeros(offsets: Mapping[int, int]) -> dict[int, int]:
    """Return offsets without partitions of which nothing was read: an older epoch does not name those added since."""
    return {partition: offset for partition, offset in offsets.items() if offset}


def read_newest_epoch(epoch_log: EpochLog) -> EpochRecord:
    """Return the newest epoch.

    Raises:
        LakeError: There is none.
    """
    records = epoch_log.records()
    if not records:
        msg = f"Epoch log `{epoch_log.table.table_uri}`: expected an epoch, it has none yet."
        raise LakeError(msg + "\nHint: its driver is to commit one first.")
    return records[-1]


def _key(record: EpochRecord) -> tuple[object, ...]:
    return (record.topic_id, *sorted(drop_zeros(record.end).items()))


def _is_folded(log: EpochLog, records: Sequence[EpochRecord], epoch: int) -> bool:
    return bool(delivery.find_folded_classes(log, [record for record in records if record.epoch <= epoch]))


def find_stream(lake: PipelineLake, number: int | None = None) -> Stream:
    """Return the version of a pipeline that serves, or one by number, with its existing epoch log.

    Raises:
        DefinitionError: There is no such version.
        LakeError: It has no epoch log yet, or the epoch log was deleted.
    """
    selected = lake.with_settings(stream_version=number)
    return Stream(
        pipeline=lake.pipeline, version=table_weights.check_epoch_log(selected, versions.find_current_version(selected))
    )
