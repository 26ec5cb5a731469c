"""Epochs that have read records, and the part of these records that the log retains."""

from collections.abc import Iterator, Mapping, Sequence

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.records.reading.scan import Offsets
from cutover.settings import Settings

CHUNK = 500_000
"""Offsets that are read at once; an epoch is read whole."""


def list_reading_epochs(settings: Settings, pipeline: Pipeline, version: Version | None) -> list[EpochRecord]:
    """Return the epochs of a version that read records of the topic that its newest one read, in order.

    Raises:
        LakeError: There are none, or they were judged under several settings of lateness.
    """
    records = [] if version is None else [one for one in EpochLog(version.uri).records() if one.records]
    if not records:
        raise no_epochs(pipeline)
    if len({record.lateness_fingerprint for record in records}) > 1:
        msg = f"`{pipeline.name}`: expected epochs under one setting of lateness, got several."
        replay = f"`cutover replay {pipeline.name} --into {versions.next_number(settings, pipeline)}`"
        raise LakeError(msg + f"\nHint: {replay} reads the log again under the one in force.")
    return [record for record in records if record.topic_id == records[-1].topic_id]


def no_epochs(pipeline: Pipeline) -> LakeError:
    """Return the error that says that nothing was read yet, and which command reads."""
    msg = f"`{pipeline.name}`: expected epochs that have read records, found none."
    return LakeError(msg + f"\nHint: `cutover stream {pipeline.name} --drain` reads what the log holds.")


def list_epochs_between(version: Version, first: int, last: int) -> list[EpochRecord]:
    """Return the epochs of a version from one number to another, also those without records; none that closes all."""
    return [one for one in EpochLog(version.uri).records() if first <= one.epoch <= last and not one.final]


Chunk = list[tuple[EpochRecord, Offsets]]


def split_epochs(records: Sequence[EpochRecord], earliest: Mapping[int, int]) -> Iterator[Chunk]:
    """Yield epochs with those of their offsets that the log still holds, in groups that fit in memory."""
    chunk, size = Chunk(), 0
    for record in records:
        first = {p: max(start, earliest.get(p, start)) for p, start in record.start.items()}
        offsets = {p: (first[p], end) for p, end in record.end.items() if first.get(p, end) < end}
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
    """Return the offsets of a chunk in as few reads as there are: those of epochs that follow one another are one."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for _, offsets in chunk:
        for partition, (first, end) in offsets.items():
            mine = spans.setdefault(partition, [])
            if mine and mine[-1][1] == first:
                mine[-1] = (mine[-1][0], end)
            else:
                mine.append((first, end))
    most = max(map(len, spans.values()), default=0)
    return tuple({p: mine[turn] for p, mine in sorted(spans.items()) if turn < len(mine)} for turn in range(most))
