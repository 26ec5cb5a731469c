"""History of measurements of lateness: one row for each, of which the newest under a definition counts."""

from dataclasses import replace

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.journal import Journal
from cutover.reconcile.journal_rows import AdviceRow, LatenessRow, list_result_rows
from cutover.reconcile.result.advice import Advice
from cutover.reconcile.result.timeliness import LogLateness
from cutover.settings import Settings


def record(settings: Settings, log_lateness: LogLateness, clock: Clock) -> None:
    """Append a look to the history."""
    row = LatenessRow(
        pipeline=log_lateness.pipeline,
        result_fingerprint=log_lateness.result_fingerprint,
        lateness_fingerprint=log_lateness.lateness_fingerprint,
        at=clock.now(),
        result=json_text.encode(log_lateness),
    )
    Journal(settings, log_lateness.pipeline, LatenessRow).append(row)


def newest(settings: Settings, pipeline: Pipeline) -> LogLateness | None:
    """Return the newest look under the definition in force and its settings of lateness; None: there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    lateness = lateness_fingerprint(pipeline)
    rows = list_result_rows(settings, pipeline, LatenessRow)
    results = [row.result for row in rows if row.lateness_fingerprint == lateness]
    return json_text.parse(LogLateness, results[-1]) if results else None


def record_advice(settings: Settings, advice: Advice, clock: Clock) -> None:
    """Append what was advised to the history."""
    row = AdviceRow(
        pipeline=advice.pipeline,
        result_fingerprint=advice.result_fingerprint,
        at=clock.now(),
        result=json_text.encode(advice),
    )
    Journal(settings, advice.pipeline, AdviceRow).append(row)


def find_advice(settings: Settings, pipeline: Pipeline) -> Advice | None:
    """Return the newest advice under the definition in force, whatever its lateness was; None: there is none.

    One without a proof takes that of an older one that predicted the same from the same epochs.

    Raises:
        LakeError: The history cannot be read.
    """
    mine = [json_text.parse(Advice, row.result) for row in list_result_rows(settings, pipeline, AdviceRow)]
    if not mine:
        return None
    found = mine[-1]
    place = (found.version, found.epoch, found.records)
    known = set(found.settings)
    for one in reversed(mine):
        if one.proven and (one.version, one.epoch, one.records) == place and known <= set(one.settings):
            return replace(found, settings=one.settings, proven=one.proven, proven_at=one.proven_at)
    return found
