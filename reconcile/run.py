"""One reconciliation, top to bottom: seal, digests, diff, causes, verdict, report, record."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import duckdb

from cutover.clock import Clock, SystemClock
from cutover.definition.fingerprint import result_fingerprint
from cutover.definition.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.probe import Probe, silent
from cutover.settings import Settings
from reconcile import causes, damage, history, seal, sides, verdict
from reconcile.compare import compare
from reconcile.report import files
from reconcile.result import Cause, Reconciliation, Seal, SealBreach


def reconcile(  # noqa: PLR0913 -- a range, a cut, and what a test hands in
    settings: Settings,
    pipeline: Pipeline,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    epoch: int | None = None,
    probe: Probe = silent,
    clock: Clock | None = None,
) -> Reconciliation:
    """Compare both sides of a pipeline at the cut of a batch run, write the report, record the run.

    Args:
        settings: Where lake, log and reports are.
        pipeline: The definition.
        start: First window start to compare, inclusive; None: all.
        end: Window starts before this one only.
        epoch: The batch run at this epoch's cut; None: the newest.
        probe: Told `report.rendered` and `verdict.recorded`.
        clock: The wall clock.

    Returns:
        The comparison: `.verdict`, `.exit_code`, `.report_path` (relative to the reports folder).
    """
    clock = clock or SystemClock()
    at, began = clock.now(), clock.monotonic()
    found = _judge(settings, pipeline, start, end, epoch)
    run_id = f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
    stem = f"{pipeline.name}/{run_id}"
    result = replace(
        found,
        run_id=run_id,
        at=at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        from_=_iso(start),
        to=_iso(end),
        seconds=round(clock.monotonic() - began, 3),
        report=f"{stem}.json",
        page=f"{stem}.html",
    )
    files.write(settings, result, probe=probe)
    history.record(settings, result, fingerprint=result_fingerprint(pipeline), at=at)
    probe("verdict.recorded", -1 if result.seal.epoch is None else result.seal.epoch)
    _log(result)
    return result


def _judge(
    settings: Settings, pipeline: Pipeline, start: datetime | None, end: datetime | None, epoch: int | None
) -> Reconciliation:
    """Return the comparison, or why there is none; a file that cannot be read is never a verdict on the data."""
    examined = seal.examine(settings, pipeline, epoch=epoch)
    if examined.evidence is None:
        return _refused(pipeline, examined.seal)
    try:
        with sides.opened(pipeline, examined.evidence, start, end) as opened:
            return compare(settings, pipeline, examined.evidence, examined.seal, opened)
    except LakeError as error:
        return _refused(pipeline, _broken(examined.seal, damage.unreadable(str(error))))
    except duckdb.Error:
        breach = damage.damaged((examined.evidence.epoch_log.table, examined.evidence.batch))
        if breach is None:
            raise
        return _refused(pipeline, _broken(examined.seal, breach))


def _broken(found: Seal, breach: SealBreach) -> Seal:
    return replace(found, holds=False, breaches=(breach,))


def _refused(pipeline: Pipeline, found: Seal) -> Reconciliation:
    decision = verdict.broken(found, pipeline.policy)
    return Reconciliation(
        pipeline=pipeline.name,
        run_id="",
        at="",
        verdict=decision.verdict,
        exit_code=decision.exit_code,
        sentence=verdict.sentence_broken(found),
        seal=found,
        causes={name: Cause() for name in (*map(str, causes.NAMES), causes.UNEXPLAINED)},
        policy=decision.policy,
        runbook=decision.runbook,
    )


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _log(result: Reconciliation) -> None:
    log.info(
        "reconciled",
        pipeline=result.pipeline,
        run_id=result.run_id,
        verdict=result.verdict.value,
        exit_code=result.exit_code,
        epoch=result.seal.epoch,
        windows=result.windows.compared,
        windows_different=result.windows.different,
        windows_open=result.windows.open,
        rows=result.rows.compared,
        causes={name: cause.rows for name, cause in result.causes.items()},
        late_share=round(result.policy.late_share, 9),
        report=result.report_path,
        runbook=result.runbook,
        seconds=result.seconds,
    )
