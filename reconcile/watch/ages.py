"""Ages of the latest batch run, comparison and audit, by the clocks of all hosts that recorded them.

The latest one is that of the highest sequence. Its recorded time is accepted as far as it agrees with the order of the
records and with what must have come before it: the epoch of its cut, the run that was compared, the stream's version.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from croniter import croniter

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Audit, Stage
from cutover.definition.windows.window_fn import AlignedWindowFn, list_windows
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.control.served import current_stage, find_stage_start, list_moves
from cutover.lake.control.versions import Registration, Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verdict import history, statistics
from cutover.reconcile.verdict.history import WindowAudit
from cutover.reconcile.watch.facts import Freshness, Problem, seconds_since
from cutover.recorded_times import RecordAge, bound_age, estimate_now, make_monotonic, measure_lag
from cutover.records.watermark import find_closed_end
from cutover.settings import Settings

_MOST_MOMENTS = 100


def compute_period(schedule: str, latest: datetime, schedules: float) -> timedelta:
    """Compute the mean time between moments of a cron schedule after the latest result.

    The mean covers as many moments as may pass without a new result, so that a night or a weekend without any does not
    count as a missing result.

    Args:
        schedule: Of the definition.
        latest: When the latest result was produced.
        schedules: Moments that may pass; of more than a hundred, the first hundred are used.
    """
    count = min(max(1, math.ceil(schedules)), _MOST_MOMENTS)
    previous: datetime = croniter(schedule, latest + timedelta(seconds=1)).get_prev(datetime)
    moments: Iterator[datetime] = croniter(schedule, latest).all_next(datetime)
    *_, end = islice(moments, count)
    return (end - previous) / count


def find_batch_age(lake: PipelineLake, epochs: Sequence[EpochRecord], now: datetime) -> RecordAge | None:
    """Find the age of the latest batch run; before the first, that of the version; None: the batch path does not run.

    Raises:
        LakeError: Versions, stages or runs cannot be read.
    """
    registrations = [r for r in versions.read_registrations(lake.settings, lake.name) if not r.deleted]
    if not registrations or current_stage(lake) is Stage.KAPPA:
        return None
    runs = batch_runs.read_effective_runs(lake)
    end_times = _settle_end_times(runs)
    full_runs = [run for run in runs if run.repair is None and run.undoes is None]  # the others compute a few windows
    if not full_runs:
        return bound_age(registrations[-1].at, (), now)
    run, version = full_runs[-1], versions.find_current_version(lake)
    earlier = [
        *_list_registration_times(registrations, run.result_fingerprint, run.stream_version),
        *_list_epoch_times(epochs, version, run.stream_version, run.epoch),
    ]
    end_time = end_times[run.run_id]
    commit_times = [_list_epoch_times(epochs, version, r.stream_version, r.epoch) for r in runs]
    # A foreign writer may have written a run twice.
    run_ends = [end_times[r.run_id] for r in runs]
    lag = measure_lag(run_ends, commit_times, tolerated=_get_tolerated_lag(lake.settings))
    return bound_age(end_time, earlier, estimate_now(now, [end_time, *list_newest_time(epochs)]), lag=lag)


def find_verdict_age(lake: PipelineLake, epochs: Sequence[EpochRecord], now: datetime) -> RecordAge | None:
    """Find the age of the current comparison; before the first, that of the first batch run.

    Returns:
        None in KAPPA, and before there was anything to compare.

    Raises:
        LakeError: Versions, stages, runs or the history cannot be read.
    """
    if current_stage(lake) is Stage.KAPPA:
        return None
    comparison = history.find_current_comparison(lake)
    end_times = _settle_end_times(batch_runs.read_effective_runs(lake))
    if comparison is None:
        return bound_age(next(iter(end_times.values())), (), now) if end_times else None
    compared = end_times.get(str(comparison.result.get("tables", {}).get("batch_run")))
    version = versions.find_current_version(lake)
    registrations = versions.read_registrations(lake.settings, lake.name)
    earlier = [
        *([] if compared is None else [compared]),
        *_list_registration_times(registrations, comparison.fingerprint, comparison.version),
        *_list_epoch_times(epochs, version, comparison.version, comparison.epoch),
    ]
    lines = sorted(history.read_current_lines(lake)[0], key=lambda line: line.first_sequence)
    commit_times = [_list_epoch_times(epochs, version, line.version, line.epoch) for line in lines]
    recorded = make_monotonic([line.first_recorded for line in lines])
    lag = measure_lag(recorded, commit_times, tolerated=_get_tolerated_lag(lake.settings))
    now = estimate_now(now, [comparison.settled, *list_newest_time(epochs)])
    return bound_age(comparison.settled, earlier, now, lag=lag)


def _get_tolerated_lag(settings: Settings) -> timedelta:
    return timedelta(seconds=settings.alerts.skew_seconds)


def list_newest_time(epochs: Sequence[EpochRecord]) -> list[datetime]:
    """List the time of the newest epoch, if it has one."""
    return [datetime.fromisoformat(epoch.processing_time) for epoch in epochs[-1:] if epoch.processing_time]


def make_age_problem(subject: str) -> Problem:
    """Build the problem of a result that may be too old, but whose age the clocks do not show."""
    text = (
        f"the age of {subject} is unknown: its time is in the future or earlier than that of its input, or that of"
        " another one was"
    )
    return Problem(runbook="ClockSkew", text=text)


def _settle_end_times(runs: Sequence[BatchRun]) -> dict[str, datetime]:
    """Return when each run ended, in their order."""
    settled = make_monotonic([datetime.fromisoformat(run.finished) for run in runs])
    return dict(zip((run.run_id for run in runs), settled, strict=True))


def _list_registration_times(
    registrations: Iterable[Registration], fingerprint: str, number: int | None
) -> list[datetime]:
    """List when a version of the stream was first registered."""
    return [r.at for r in registrations if (r.fingerprint, r.number) == (fingerprint, number)][:1]


def _list_epoch_times(
    epochs: Sequence[EpochRecord], version: Version | None, number: int | None, epoch: int
) -> Iterator[datetime]:
    """Yield when an epoch of a version was committed, if it is one of the newest of the current version."""
    if version is not None and version.number == number:
        yield from _list_commit_times(epochs, epoch)


def _list_commit_times(epochs: Sequence[EpochRecord], epoch: int) -> list[datetime]:
    """List when an epoch was committed, if it is one of the newest."""
    return [datetime.fromisoformat(e.processing_time) for e in epochs if e.epoch == epoch and e.processing_time]


def find_audit_age(lake: PipelineLake, epochs: Sequence[EpochRecord], clock: Clock) -> Freshness | None:
    """Find when the latest conclusive audit ended; before that, when the stage or the version began.

    None where no audit is required: outside KAPPA; where a policy without an audit was approved with the move (the only
    way to KAPPA for sessions and windows over all of time); and where no window has become final that an audit could
    have covered in time. A policy that has changed since then does not count: audits under it are ignored.

    Raises:
        LakeError: Stages, versions or audits cannot be read.
    """
    moved_at, version = find_stage_start(lake), versions.find_current_version(lake)
    if moved_at is None or version is None or current_stage(lake) is not Stage.KAPPA:
        return None
    approved = _read_approved_audit(lake)
    if approved == statistics.describe_requirement(None):
        return None
    all_audits = history.list_audits(lake)
    conclusive = history.list_judged(all_audits, version.number)
    audits, now = (
        [audit for audit in conclusive if statistics.describe_requirement(audit.audit) == approved],
        clock.now(),
    )
    allowed = history.EVERY * lake.settings.alerts.audit_schedules
    if not epochs or not _has_unaudited_window(lake.pipeline, epochs[-1], audits, allowed, now):
        return None
    began = max(moved_at, _find_served_since(lake, version.number))
    if not audits:
        age = bound_age(began, (), now)
        return Freshness(latest=age.not_before, schedule=history.EVERY, uncertainty=age.uncertainty)
    settled = make_monotonic([datetime.fromisoformat(audit.at) for audit in all_audits])
    latest = settled[all_audits.index(audits[-1])]
    now = estimate_now(now, [latest, *list_newest_time(epochs)])
    age = bound_age(latest, _list_commit_times(epochs, audits[-1].epoch), now)
    return Freshness(
        latest=max(age.not_before, began) if began <= now else age.not_before,
        schedule=history.EVERY,
        uncertainty=age.uncertainty,
    )


def _has_unaudited_window(
    pipeline: Pipeline, newest: EpochRecord, audits: Sequence[WindowAudit], allowed: timedelta, now: datetime
) -> bool:
    """Return whether a window that no audit covered has been final for longer than allowed, by event time.

    If nothing was read for that long, the watermark has not moved, so the windows that it closed have waited as long.
    """
    if not isinstance(pipeline.window, AlignedWindowFn) or pipeline.window.reach is None:
        return False
    if newest.watermark_after is None:
        return False
    is_quiet = (seconds_since(newest.processing_time, now) or 0.0) > allowed.total_seconds()
    watermark = newest.watermark_after - (0 if is_quiet else round(allowed.total_seconds() * 1e6))
    closed_end = find_closed_end(pipeline, watermark)
    if closed_end is None or not audits:
        return closed_end is not None
    return next(list_windows(pipeline.window, audits[-1].until, closed_end), None) is not None


def _read_approved_audit(lake: PipelineLake) -> str:
    """Read the audit that was approved with the latest move; that of the policy, if the move did not record it."""
    moves = list_moves(lake.settings, lake.name)
    evidence = json.loads(moves[-1].evidence) if moves else {}
    return str(evidence.get("audit", statistics.describe_requirement(lake.pipeline.policy.audit or Audit())))


def _find_served_since(lake: PipelineLake, number: int) -> datetime:
    """Find when a version was last registered or started to serve."""
    place = (result_fingerprint(lake.pipeline), number)
    events = [event for event in versions.read_version_events(lake.settings, lake.name) if event.registers]
    return [event.at for event in events if (event.result_fingerprint, event.stream_version) == place][-1]
