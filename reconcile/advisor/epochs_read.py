"""Epochs that have read records, and the part of these records that the log retains."""

from collections.abc import Iterator, Mapping, Sequence

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.pipeline_lake import PipelineLake
from cutover.records.reading.scan import Offsets

CHUNK = 500_000
"""Offsets that are read together; an epoch is never split."""


def list_reading_epochs(lake: PipelineLake, version: Version | None) -> list[EpochRecord]:
    """Return the epochs of a version that read records of the topic that its newest one read, in order.

    Raises:
        LakeError: There are none, or they were read under several settings of lateness.
    """
    records = [] if version is None else [record for record in EpochLog(version.uri).records() if record.records]
    if not records:
        raise no_epochs(lake.pipeline)
    if len({record.lateness_fingerprint for record in records}) > 1:
        msg = f"`{lake.name}`: expected epochs under one setting of lateness, got several."
        replay = f"`cutover replay {lake.name} --into {versions.read_next_version_number(lake)}`"
        raise LakeError(msg + f"\nHint: {replay} reads the log again under the one in force.")
    return [record for record in records if record.topic_id == records[-1].topic_id]


def no_epochs(pipeline: Pipeline) -> LakeError:
    """Make the error for a pipeline that has read nothing yet, with the command that reads."""
    msg = f"`{pipeline.name}`: expected epochs that have read records, found none."
    return LakeError(msg + f"\nHint: `cutover stream {pipeline.name} --drain` reads what the log holds.")


def list_epochs_between(version: Version, first_epoch: int, last_epoch: int) -> list[EpochRecord]:
    """List the epochs of a version in a range, including those without records, but not one that closes all windows."""
    return [
        record
        for record in EpochLog(version.uri).records()
        if first_epoch <= record.epoch <= last_epoch and not record.final
    ]


Chunk = list[tuple[EpochRecord, Offsets]]


def split_epochs(records: Sequence[EpochRecord], earliest: Mapping[int, int]) -> Iterator[Chunk]:
    """Yield epochs with the offsets that the log still holds, in groups that fit in memory."""
    chunk, size = Chunk(), 0
    for record in records:
        starts = {p: max(start, earliest.get(p, start)) for p, start in record.start.items()}
        offsets = {p: (starts[p], end) for p, end in record.end.items() if starts.get(p, end) < end}
        if not offsets:
            continue
        chunk.append((record, offsets))
        size += sum(end - start for start, end in offsets.values())
        if size >= CHUNK:
            yield chunk
            chunk, size = Chunk(), 0
    if chunk:
        yield chunk


def join_reads(chunk: Chunk) -> tuple[Offsets, ...]:
    """Merge the offsets of a chunk into as few reads as possible: adjacent ranges of epochs become one."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for _, offsets in chunk:
        for partition, (start, end) in offsets.items():
            partition_spans = spans.setdefault(partition, [])
            if partition_spans and partition_spans[-1][1] == start:
                partition_spans[-1] = (partition_spans[-1][0], end)
            else:
                partition_spans.append((start, end))
    count = max(map(len, spans.values()), default=0)
    return tuple(
        {p: partition_spans[turn] for p, partition_spans in sorted(spans.items()) if turn < len(partition_spans)}
        for turn in range(count)
    )
