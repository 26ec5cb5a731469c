"""Hazards that a stream has survived, detected in recorded data and never declared by hand.

Epoch records name their driver's run, the partitions and their leaders, late records and fields that the schema does
not name; the history of versions names replays. A hazard counts once a comparison at its cut or a
newer one is within policy: a path whose results are wrong after the hazard has not covered it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple, get_args

from cutover.definition.model.policy import HazardKind, Policy
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import VersionEvent
from cutover.log.topic_partitions import format_partition_number
from cutover.reconcile.gate.decide import HOURS_AT_LEAST, LATE_AT_LEAST, PEAK
from cutover.reconcile.gate.gate_values import RecordedHazard
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.recorded_times import CLOCKS_APART, find_earliest_times
from cutover.records.classes import Class
from cutover.timestamps import parse_micros

_PROMPT = timedelta(minutes=10)  # maximum delay of a prompt read: a catch-up epoch contains records of many hours
_EPOCHS_AT_LEAST = 10  # minimum number of epochs of a run that show how far its driver's clock is off
_HOUR = 3_600_000_000
_MICROSECOND = timedelta(microseconds=1)


def find_hazards(records: Sequence[EpochRecord], policy: Policy, now: datetime) -> tuple[RecordedHazard, ...]:
    """Find the latest occurrence of each hazard in the epochs of a version.

    Args:
        records: In the order of their numbers.
        policy: Its `max_late_share` decides which epochs are bursts.
        now: By the clock of this host. An epoch dated later gets the time of the latest epoch before it that is not.
    """
    sightings = (
        *_find_changes(records),
        *(_Sighting("late_burst", record, _describe_late(record)) for record in records if _is_burst(record, policy)),
        *_find_peaks(records),
    )
    latest: dict[HazardKind, _Sighting] = {}
    for sighting in sightings:
        if sighting.kind not in latest or latest[sighting.kind].record.epoch <= sighting.record.epoch:
            latest[sighting.kind] = sighting
    commit_times = [
        datetime.fromisoformat(record.processing_time) if record.processing_time else None for record in records
    ]
    times = dict(zip((record.epoch for record in records), find_earliest_times(commit_times, now), strict=True))
    ordered = (latest[kind] for kind in get_args(HazardKind) if kind in latest)
    return tuple(
        RecordedHazard(kind=kind, epoch=record.epoch, at=times[record.epoch], text=text)
        for kind, record, text in ordered
    )


class _Sighting(NamedTuple):
    """Occurrence of a hazard in an epoch."""

    kind: HazardKind
    record: EpochRecord
    text: str


def find_replay(
    events: Sequence[VersionEvent], comparisons: Sequence[RecordedComparison], now: datetime
) -> RecordedHazard | None:
    """Find the latest comparison in which a replayed version agreed with batch.

    Args:
        events: History of versions.
        comparisons: Comparisons under the current definition.
        now: By the clock of this host.
    """
    replayed = {(event.result_fingerprint, event.stream_version) for event in events if event.parallel}
    ordered = sorted(comparisons, key=lambda comparison: comparison.sequence)
    agreeing = [
        comparison
        for comparison in ordered
        if (comparison.fingerprint, comparison.version) in replayed and _agrees(comparison)
    ]
    if not agreeing:
        return None
    latest = agreeing[-1]
    times = find_earliest_times([comparison.last_recorded for comparison in ordered], now)
    at = times[ordered.index(latest)]
    text = f"stream-{latest.version} was replayed and is within policy"
    return RecordedHazard(kind="replay", epoch=0, at=at, text=text)


def find_change_of_settings(records: Sequence[EpochRecord]) -> int:
    """Find the first epoch that ran with the settings of the latest epoch; -1: no recorded setting changed."""
    with_settings = [record for record in records if record.in_force is not None]
    changes = [record.epoch for previous, record in pairwise(with_settings) if previous.in_force != record.in_force]
    return changes[-1] if changes else -1


def _find_changes(records: Sequence[EpochRecord]) -> Iterator[_Sighting]:
    """Yield the hazards that are visible in the difference between an epoch and the earlier ones."""
    leaders: dict[int, int] = {}
    had_only_known_fields = False
    previous: EpochRecord | None = None
    for record in records:
        epoch = record.epoch
        if previous is not None and previous.run_id != record.run_id:
            yield _Sighting("restart", record, f"a driver began with epoch {epoch}")
        changed_leaders = sorted(p for p, leader in record.leaders.items() if leaders.get(p, leader) != leader)
        added = [] if previous is None else sorted(set(record.end) - set(previous.end))
        if added or changed_leaders:
            numbers = ", ".join(map(format_partition_number, added or changed_leaders))
            is_one = len(added or changed_leaders) == 1
            partitions = f"partition {numbers} {'is' if added else 'has'}"
            if not is_one:
                partitions = f"partitions {numbers} {'are' if added else 'have'}"
            change = "new" if added else "another leader"
            yield _Sighting("partitions", record, f"{partitions} {change} in epoch {epoch}")
        if record.unknown and had_only_known_fields:
            has = "has" if record.unknown == 1 else "have"
            text = f"{count_noun(record.unknown, 'record')} of epoch {epoch} {has} unknown fields"
            yield _Sighting("schema_change", record, text)
        leaders |= record.leaders
        had_only_known_fields = not record.unknown if record.records else had_only_known_fields
        previous = record


def _is_burst(record: EpochRecord, policy: Policy) -> bool:
    late, accepted = record.counts.get(Class.LATE, 0), record.counts.get(Class.ACCEPTED, 0)
    return late >= LATE_AT_LEAST and late > policy.max_late_share * (late + accepted)


def _describe_late(record: EpochRecord) -> str:
    return f"{count_noun(record.counts.get(Class.LATE, 0), 'late record')} in epoch {record.epoch}"


def _find_peaks(records: Sequence[EpochRecord]) -> Iterator[_Sighting]:
    """Yield hours of the log with far more records than the median hour, counted in epochs that read promptly."""
    hours: Counter[int] = Counter()
    latest: dict[int, EpochRecord] = {}
    for record in _list_prompt(records):
        hour = (record.oldest_log_time or 0) // _HOUR
        hours[hour] += record.records
        latest[hour] = record
    if len(hours) < HOURS_AT_LEAST:
        return
    usual = median(hours.values())
    for hour, count in hours.items():
        if count >= PEAK * usual:
            yield _Sighting(
                "peak", latest[hour], f"{count_noun(count, 'record')} in an hour, the median hour has {usual:,.0f}"
            )


def _list_prompt(records: Sequence[EpochRecord]) -> Iterator[EpochRecord]:
    """Yield the epochs that read their records soon after they were appended, whatever the clock of their driver.

    A driver's clock is ahead of the log's by the delay of its most prompt epochs. A driver with few epochs may have
    read none promptly, so its clock is taken for that of the driver before it.
    """
    offset = 0
    dated = [record for record in records if record.records and record.oldest_log_time and record.processing_time]
    for _, epochs_of_run in groupby(dated, key=lambda record: record.run_id):
        delays = [
            (record, parse_micros(record.processing_time) - (record.oldest_log_time or 0)) for record in epochs_of_run
        ]
        if len(delays) >= _EPOCHS_AT_LEAST:
            fastest = sorted(delay for _, delay in delays)[len(delays) // 10]
            offset = fastest if fastest <= (CLOCKS_APART + _PROMPT) / _MICROSECOND else 0
        yield from (record for record, delay in delays if abs(delay - offset) <= _PROMPT / _MICROSECOND)


def _agrees(comparison: RecordedComparison) -> bool:
    return comparison.covers_all_windows and comparison.has_no_open_difference and comparison.exit_code == 0
