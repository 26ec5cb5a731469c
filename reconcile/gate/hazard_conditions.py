"""Conditions on hazards: what a stream must have survived before a move, and with which result."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from cutover.definition.model.policy import HazardKind, Policy
from cutover.durations import parse_duration
from cutover.reconcile.gate.criteria import describe_next_run
from cutover.reconcile.gate.gate_values import AT_LEAST, Condition, EvidenceRun, RecordedHazard, find_latest_run
from cutover.reconcile.result.text import count_noun, duration
from cutover.recorded_times import find_earliest_times

LATE_AT_LEAST = 10
"""Minimum number of late records in a burst, regardless of their share of the epoch."""


PEAK = 2.0
"""Ratio to the median hour from which an hour is a peak."""


HOURS_AT_LEAST = 24
"""Minimum number of hours with records for a peak."""


_REMEDIES: Mapping[HazardKind, str] = {
    "restart": "`cutover stream P --stop`, `cutover stream P --detach`",
    "late_burst": f"an epoch with {LATE_AT_LEAST} late records and more than the policy's late share",
    "peak": f"an hour with {PEAK:g} times the records of the median hour, of {HOURS_AT_LEAST} hours at least",
    "schema_change": "records with a field that the schema does not name, after some without it",
    "partitions": "more partitions (`kafka-topics --alter`), or another leader of one",
    "replay": '`cutover replay P --into N`, and `cutover serve P --version N --why "..."` once it agrees',
}


def evaluate_hazards(
    hazards: tuple[RecordedHazard, ...], runs: tuple[EvidenceRun, ...], policy: Policy, now: datetime
) -> tuple[Condition, ...]:
    """Evaluate each hazard that the policy requires; without any, return one condition that lists the recorded ones."""
    by_kind = {hazard.kind: hazard for hazard in hazards}
    if not policy.hazards:
        text = f"the policy requires none; recorded: {', '.join(by_kind) or 'none'}"
        return (Condition(name="hazards", is_met=True, detail=text, number=0, threshold=0),)
    period = timedelta(microseconds=parse_duration(policy.hazards_within, of="policy.hazards_within"))
    return tuple(_evaluate_hazard(kind, by_kind.get(kind), runs, period, now) for kind in dict.fromkeys(policy.hazards))


def _evaluate_hazard(
    kind: HazardKind, hazard: RecordedHazard | None, runs: tuple[EvidenceRun, ...], period: timedelta, now: datetime
) -> Condition:
    """Require an occurrence within a period, and a run within policy at its cut or a newer one."""
    at = None if hazard is None else find_earliest_times([hazard.at], now)[0]
    is_recent = at is not None and now - at <= period
    agreeing = [
        run
        for run in runs
        if hazard is not None and run.is_within_policy and run.covers_all_windows and run.epoch >= hazard.epoch
    ]
    is_met = is_recent and bool(agreeing)
    requirement = f"required within {duration(period.total_seconds())}"
    remedy = _REMEDIES[kind]
    if hazard is None:
        detail = f"never recorded of this version; {requirement}"
    else:
        recorded_at = "at an unknown time" if hazard.at is None else f"{hazard.at:%Y-%m-%d %H:%M} UTC"
        detail = f"{recorded_at}: {hazard.text}; {requirement}"
        if is_recent:
            detail += f"; {count_noun(len(agreeing), 'run')} at its cut or a newer one within policy"
            remedy = f"a run within policy at a newer cut: {describe_next_run(find_latest_run(runs))}"
    return Condition(
        name=f"hazard {kind}",
        is_met=is_met,
        detail=detail,
        number=len(agreeing) if is_recent else 0,
        threshold=1,
        sense=AT_LEAST,
        unit="runs behind it",
        to_pass="" if is_met else remedy,
    )
