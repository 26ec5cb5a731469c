"""Epochs that have read records: what the log retains of them, and the event time reached at each append.

A stream that is never behind would have known the event time of each append. The epochs of a replayed log do not show
it: time moves from one to the next, and an epoch of a replay holds hours. The log timestamps do. A record is appended
at the latest log timestamp of its partition so far, since producers may set timestamps that go back; records that were
appended at once do not judge one another.

Source: Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; the rule itself: `cutover/records/watermark.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.read_speed import ReadSpeed
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.advisor.predict import Micros
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
    return LakeError(msg + f"\nHint: `{pipeline.driver_command} --drain` reads what the log holds.")


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


UNKNOWN = -(1 << 62)
"""Event time where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Records in the order of partition and offset; microseconds."""

    partitions: Micros
    log_times: Micros
    events: Micros  # UNKNOWN: the record has none that moves the watermark


def compute_watermarks(records: Appended, idle_after: int) -> Micros:
    """Find the watermark just before each record was appended, for an out-of-orderness of 0.

    Args:
        records: Records of a log, in the order of partition and offset.
        idle_after: Time for which a partition without new records holds the watermark, microseconds.

    Returns:
        Microseconds in the order of the records; UNKNOWN where no event time had been seen.
    """
    if not len(records.partitions):
        return np.array([], np.int64)
    appended = find_append_times(records)
    times, steps = np.unique(appended, return_inverse=True)
    next_times = np.append(times[1:], times[-1])  # a state lasts until the next records come
    # The partitions with the latest append always hold the watermark, so it stays where it is once all are idle.
    latest = np.full(len(times), UNKNOWN, np.int64)
    for newest, last_append in _trace(records, appended, steps):
        latest = np.where(newest > UNKNOWN, np.maximum(latest, last_append), latest)
    low = np.full(len(times), -UNKNOWN, np.int64)
    for newest, last_append in _trace(records, appended, steps):
        is_active = (newest > UNKNOWN) & ((next_times - last_append < idle_after) | (last_append == latest))
        low = np.where(is_active, np.minimum(low, newest), low)
    event_times = np.maximum.accumulate(np.where(low == -UNKNOWN, UNKNOWN, low))
    previous_times = np.append(np.array([UNKNOWN], np.int64), event_times[:-1])
    micros: Micros = previous_times[steps]
    return micros


def _trace(records: Appended, appended: Micros, steps: Micros) -> Iterator[tuple[Micros, Micros]]:
    """Yield for each partition its newest event time and its last append after each step."""
    size = int(steps.max()) + 1
    for partition in np.unique(records.partitions):
        is_in_partition = records.partitions == partition
        newest, last_append = np.full(size, UNKNOWN, np.int64), np.full(size, UNKNOWN, np.int64)
        np.maximum.at(newest, steps[is_in_partition], records.events[is_in_partition])
        last_append[steps[is_in_partition]] = appended[is_in_partition]
        yield np.maximum.accumulate(newest), np.maximum.accumulate(last_append)


def find_append_times(records: Appended) -> Micros:
    """Find when each record was appended: no earlier than any previous one in its partition."""
    appended = records.log_times.copy()
    for partition in np.unique(records.partitions):
        is_in_partition = records.partitions == partition
        appended[is_in_partition] = np.maximum.accumulate(appended[is_in_partition])
    return appended


def find_pace(read_speed: ReadSpeed, records: Appended) -> float | None:
    """Find the pace of event time by log time: that of the epochs, by which all commands decide, else of the records.

    Args:
        read_speed: Of the epochs that read the records.
        records: Records of the log.
    """
    return compute_pace(records) if read_speed.pace is None else read_speed.pace


def compute_pace(records: Appended) -> float | None:
    """Compute how far the newest event time advanced per log time; None if log time did not advance.

    The first and last hundredth of the records are ignored, so that one wrong clock does not change the result.
    """
    has_event = records.events > UNKNOWN
    if not has_event.any():
        return None
    appended = find_append_times(records)[has_event]
    order = np.argsort(appended, kind="stable")
    logged, lived = (
        np.subtract(*np.quantile(times, [0.99, 0.01], method="inverted_cdf"))
        for times in (appended[order], np.maximum.accumulate(records.events[has_event][order]))
    )
    return float(lived / logged) if logged > 0 else None
