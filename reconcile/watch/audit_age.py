"""In KAPPA somebody must look whether what is served is right: since when nobody has, though there was something."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Audit, Pipeline
from cutover.definition.windows.window_fn import AlignedWindowFn, list_windows
from cutover.lake.control import control_tables, versions
from cutover.lake.control.stages import Stage, current_stage, list_moves, stage_since
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.judgement.audits import audit_record, power
from cutover.reconcile.judgement.audits.audit_record import WindowAudit
from cutover.reconcile.watch.facts import Freshness, seconds_since
from cutover.reconcile.watch.freshness import list_newest_time
from cutover.recorded_times import bound_age, settle_now, settle_times
from cutover.records.closing import find_closed_end
from cutover.settings import Settings


def find_audit_age(
    settings: Settings, pipeline: Pipeline, records: Sequence[EpochRecord], clock: Clock
) -> Freshness | None:
    """Return when somebody looked last; before that, when the pipeline or its version came to where it is.

    None where nobody has to: not in KAPPA, where a policy without an audit was approved with the move (the only way to
    KAPPA for sessions and windows over all of time), and where no window became final that an audit could have looked
    at in time. A policy that asks for something else since then is no excuse: audits under it do not count.

    Raises:
        LakeError: Stages, versions or audits cannot be read.
    """
    moved, version = stage_since(settings, pipeline), versions.current(settings, pipeline)
    if moved is None or version is None or current_stage(settings, pipeline) is not Stage.KAPPA:
        return None
    agreed = _read_agreed(settings, pipeline)
    if agreed == power.describe(None):
        return None
    every = audit_record.list_audits(settings, pipeline)
    judged = audit_record.list_judged(every, version.number)
    known, now = [one for one in judged if power.describe(one.audit) == agreed], clock.now()
    allowed = audit_record.EVERY * settings.alerts.audit_schedules
    if not records or not _waits(pipeline, records[-1], known, allowed, now):
        return None
    began = max(moved, _find_served_since(settings, pipeline, version.number))
    if not known:
        age = bound_age(began, (), now)
        return Freshness(newest=age.since, schedule=audit_record.EVERY, doubt=age.doubt)
    settled = settle_times([datetime.fromisoformat(one.at) for one in every])
    newest = settled[every.index(known[-1])]
    now = settle_now(now, [newest, *list_newest_time(records)])
    age = bound_age(newest, _list_times(records, known[-1].epoch), now)
    return Freshness(
        newest=max(age.since, began) if began <= now else age.since, schedule=audit_record.EVERY, doubt=age.doubt
    )


def _list_times(records: Sequence[EpochRecord], epoch: int) -> list[datetime]:
    """Return when an epoch was committed, if it is one of the newest."""
    return [datetime.fromisoformat(r.processing_time) for r in records if r.epoch == epoch and r.processing_time]


def _waits(
    pipeline: Pipeline, newest: EpochRecord, known: Sequence[WindowAudit], allowed: timedelta, now: datetime
) -> bool:
    """Return whether a window that no audit looked at has been final for longer than allowed, by event time.

    Where nothing was read for so long the watermark stood, so what it closed has waited as long.
    """
    if not isinstance(pipeline.window, AlignedWindowFn) or pipeline.window.reach is None:
        return False
    if newest.watermark_after is None:
        return False
    stood = (seconds_since(newest.processing_time, now) or 0.0) > allowed.total_seconds()
    watermark = newest.watermark_after - (0 if stood else round(allowed.total_seconds() * 1e6))
    closed = find_closed_end(pipeline, watermark)
    if closed is None or not known:
        return closed is not None
    return next(list_windows(pipeline.window, known[-1].until, closed), None) is not None


def _read_agreed(settings: Settings, pipeline: Pipeline) -> str:
    """Return what the samples were asked for when the newest move was decided; that of now, where it was not kept."""
    moves = list_moves(settings, pipeline.name)
    kept = json.loads(moves[-1]["evidence"] or "{}") if moves else {}
    return str(kept.get("audit", power.describe(pipeline.policy.audit or Audit())))


def _find_served_since(settings: Settings, pipeline: Pipeline, number: int) -> datetime:
    """Return when a version was registered or let serve last."""
    rows = control_tables.read(settings, "versions", pipeline.name)
    own = result_fingerprint(pipeline)
    mine = [row for row in rows if row["result_fingerprint"] == own and versions.is_registration(row)]
    found: datetime = [row["created_at"] for row in mine if row["stream_version"] == number][-1]
    return found
