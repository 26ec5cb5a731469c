"""Hazards that a stream has survived, detected in recorded data and never declared by hand.

Epoch records name their driver's run, the partitions and their leaders, late records and fields that the schema does
not name; the history of versions names replays. A hazard counts once both paths were compared at its cut or a newer
one and agreed: a path that went through it and is wrong since has not covered it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import NamedTuple, get_args

from cutover.definition.model.pipeline import HazardKind, Policy
from cutover.durations import parse_duration
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import VersionEvent
from cutover.log.topic_partitions import format_number
from cutover.reconcile.gate.gate_values import AT_LEAST, Condition, EvidenceRun, SeenHazard
from cutover.reconcile.result.text import duration
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.recorded_times import find_earliest_times
from cutover.records.classes import Class
from cutover.timestamps import parse_micros

LATE_AT_LEAST = 10
"""Minimum number of late records in an epoch for a burst, whatever their share."""

PEAK = 2.0
"""Ratio to the median hour from which an hour is a peak."""

HOURS_AT_LEAST = 24
"""Minimum number of hours with records for a peak."""

_PROMPT = timedelta(minutes=10)  # read this soon after it was sent: an epoch that caught up holds many hours' records
_HOUR = 3_600_000_000
_MICROSECOND = timedelta(microseconds=1)

_HOW: Mapping[HazardKind, str] = {
    "restart": "`cutover stream P --stop`, `cutover stream P --detach`",
    "late_burst": f"an epoch with {LATE_AT_LEAST} late records and more than the policy's late share",
    "peak": f"an hour with {PEAK:g} times the records of the median hour, of {HOURS_AT_LEAST} hours at least",
    "schema_change": "records with a field that the schema does not name, behind some without",
    "partitions": "more partitions (`kafka-topics --alter`), or another leader of one",
    "replay": '`cutover replay P --into N`, and `cutover serve P --version N --why "..."` once it agrees',
}


def find_hazards(records: Sequence[EpochRecord], policy: Policy, now: datetime) -> tuple[SeenHazard, ...]:
    """Find the latest occurrence of each hazard in the epochs of a version.

    Args:
        records: By their numbers.
        policy: For the share of late records that is no burst.
        now: By the clock of this host. An epoch dated later has the time of the newest epoch before it that is not.
    """
    sightings = (
        *_find_between(records),
        *(_Sighting("late_burst", one, _describe_late(one)) for one in records if _is_burst(one, policy)),
        *_find_peaks(records),
    )
    newest: dict[HazardKind, _Sighting] = {}
    for seen in sightings:
        if seen.kind not in newest or newest[seen.kind].record.epoch <= seen.record.epoch:
            newest[seen.kind] = seen
    recorded = [datetime.fromisoformat(one.processing_time) if one.processing_time else None for one in records]
    times = dict(zip((one.epoch for one in records), find_earliest_times(recorded, now), strict=True))
    ordered = (newest[kind] for kind in get_args(HazardKind) if kind in newest)
    return tuple(
        SeenHazard(kind=last.kind, epoch=last.record.epoch, at=times[last.record.epoch], text=last.text)
        for last in ordered
    )


class _Sighting(NamedTuple):
    """Occurrence of a hazard in an epoch."""

    kind: HazardKind
    record: EpochRecord
    text: str


def find_replay(
    events: Sequence[VersionEvent], lines: Sequence[RecordedComparison], now: datetime
) -> SeenHazard | None:
    """Find the latest comparison in which a version that a replay filled agreed with batch.

    Args:
        events: History of versions.
        lines: Comparisons under the definition in force.
        now: By the clock of this host.
    """
    replayed = {(event.result_fingerprint, event.stream_version) for event in events if event.parallel}
    agreed = [one for one in lines if (one.fingerprint, one.version) in replayed and _agrees(one)]
    if not agreed:
        return None
    last = max(agreed, key=lambda one: one.sequence)
    ordered = sorted(lines, key=lambda one: one.sequence)
    at = find_earliest_times([one.last for one in ordered], now)[ordered.index(last)]
    return SeenHazard(kind="replay", epoch=0, at=at, text=f"stream-{last.version} was replayed and agreed")


def find_change_of_settings(records: Sequence[EpochRecord]) -> int:
    """Find the first epoch with the settings of the latest ones; -1: no recorded setting changed."""
    known = [one for one in records if one.in_force is not None]
    changed = [now.epoch for before, now in pairwise(known) if before.in_force != now.in_force]
    return changed[-1] if changed else -1


def evaluate_hazards(
    seen: tuple[SeenHazard, ...], runs: tuple[EvidenceRun, ...], policy: Policy, now: datetime
) -> tuple[Condition, ...]:
    """Evaluate each hazard that the policy requires; without any, return one condition that lists the recorded ones."""
    by_kind = {one.kind: one for one in seen}
    if not policy.hazards:
        text = ", ".join(name for name in by_kind) or "none"
        return (
            Condition(name="hazards", met=True, found=f"the policy asks for none; seen: {text}", number=0, threshold=0),
        )
    within = timedelta(microseconds=parse_duration(policy.hazards_within, of="policy.hazards_within"))
    return tuple(_evaluate_hazard(kind, by_kind.get(kind), runs, within, now) for kind in dict.fromkeys(policy.hazards))


def _evaluate_hazard(
    kind: HazardKind, seen: SeenHazard | None, runs: tuple[EvidenceRun, ...], within: timedelta, now: datetime
) -> Condition:
    at = None if seen is None else find_earliest_times([seen.at], now)[0]
    fresh = at is not None and now - at <= within
    agreed = [run for run in runs if seen is not None and run.within and run.whole and run.epoch >= seen.epoch]
    met = fresh and bool(agreed)
    asked = f"asked for within {duration(within.total_seconds())}"
    if seen is None:
        found, need = f"never recorded of this version; {asked}", _HOW[kind]
    else:
        when = "at a time that no clock tells" if seen.at is None else f"{seen.at:%Y-%m-%d %H:%M} UTC"
        found, need = f"{when}: {seen.text}; {asked}", _HOW[kind]
        if fresh:
            found += f"; {len(agreed)} runs at its cut or a newer one agreed"
            need = "a run within policy at a newer cut: `cutover batch P`, `cutover reconcile P`"
    return Condition(
        name=f"hazard {kind}",
        met=met,
        found=found,
        number=len(agreed) if fresh else 0,
        threshold=1,
        sense=AT_LEAST,
        unit="runs behind it",
        to_pass="" if met else need,
    )


def _find_between(records: Sequence[EpochRecord]) -> Iterator[_Sighting]:
    """Yield hazards that show in the difference between an epoch and the earlier ones."""
    leaders: dict[int, int] = {}
    known_fields = False
    before: EpochRecord | None = None
    for now in records:
        if before is not None and before.run_id != now.run_id:
            yield _Sighting("restart", now, f"a driver began with epoch {now.epoch}")
        moved = sorted(p for p, leader in now.leaders.items() if leaders.get(p, leader) != leader)
        added = [] if before is None else sorted(set(now.end) - set(before.end))
        if added or moved:
            listed = ", ".join(map(format_number, added or moved))
            what = f"partitions {listed} are new" if added else f"partitions {listed} have another leader"
            yield _Sighting("partitions", now, f"{what} in epoch {now.epoch}")
        if now.unknown and known_fields:
            yield _Sighting("schema_change", now, f"{now.unknown:,} records of epoch {now.epoch} have unknown fields")
        leaders |= now.leaders
        known_fields = known_fields if not now.records else not now.unknown
        before = now


def _is_burst(one: EpochRecord, policy: Policy) -> bool:
    late, accepted = one.counts.get(Class.LATE, 0), one.counts.get(Class.ACCEPTED, 0)
    return late >= LATE_AT_LEAST and late > policy.max_late_share * (late + accepted)


def _describe_late(one: EpochRecord) -> str:
    return f"{one.counts.get(Class.LATE, 0):,} late records in epoch {one.epoch}"


def _find_peaks(records: Sequence[EpochRecord]) -> Iterator[_Sighting]:
    """Yield hours of the log with far more records than the median hour, counted in epochs that read promptly."""
    hours: Counter[int] = Counter()
    last: dict[int, EpochRecord] = {}
    for one in records:
        if one.records and one.oldest_log_time is not None and _is_prompt(one, one.oldest_log_time):
            hour = one.oldest_log_time // _HOUR
            hours[hour] += one.records
            last[hour] = one
    if len(hours) < HOURS_AT_LEAST:
        return
    usual = median(hours.values())
    for hour, count in hours.items():
        if count >= PEAK * usual:
            yield _Sighting("peak", last[hour], f"{count:,} records in an hour, the median hour has {usual:,.0f}")


def _is_prompt(one: EpochRecord, sent: int) -> bool:
    return bool(one.processing_time) and abs(parse_micros(one.processing_time) - sent) <= _PROMPT / _MICROSECOND


def _agrees(one: RecordedComparison) -> bool:
    return one.whole and one.agrees and one.exit_code == 0
