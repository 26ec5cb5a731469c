"""History of measurements of lateness: one row for each, of which the newest under a definition counts."""

from dataclasses import replace

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.lake.journal import Journal
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import AdviceRow, LatenessRow, list_result_rows
from cutover.reconcile.result.parts import Advice
from cutover.reconcile.result.timeliness import LogLateness
from cutover.settings import Settings


def record_lateness(settings: Settings, log_lateness: LogLateness, clock: Clock) -> None:
    """Append a measurement of lateness to the history."""
    row = LatenessRow(
        pipeline=log_lateness.pipeline,
        result_fingerprint=log_lateness.result_fingerprint,
        lateness_fingerprint=log_lateness.lateness_fingerprint,
        at=clock.now(),
        result=json_text.encode_dataclass(log_lateness),
    )
    Journal(settings, log_lateness.pipeline, LatenessRow).append(row)


def find_newest_lateness(lake: PipelineLake) -> LogLateness | None:
    """Return the latest measurement under the current definition and its settings of lateness; None if there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    lateness = lateness_fingerprint(lake.pipeline)
    rows = list_result_rows(lake, LatenessRow)
    results = [row.result for row in rows if row.lateness_fingerprint == lateness]
    return json_text.parse_dataclass(LogLateness, results[-1]) if results else None


def record_advice(settings: Settings, advice: Advice, clock: Clock) -> None:
    """Append an advice to the history."""
    row = AdviceRow(
        pipeline=advice.pipeline,
        result_fingerprint=advice.result_fingerprint,
        at=clock.now(),
        result=json_text.encode_dataclass(advice),
    )
    Journal(settings, advice.pipeline, AdviceRow).append(row)


def find_advice(lake: PipelineLake) -> Advice | None:
    """Return the latest advice under the current definition, whatever its lateness; None if there is none.

    An advice without a proof gets that of an older one with the same predictions from the same epochs.

    Raises:
        LakeError: The history cannot be read.
    """
    history = [json_text.parse_dataclass(Advice, row.result) for row in list_result_rows(lake, AdviceRow)]
    if not history:
        return None
    latest = history[-1]
    place = (latest.version, latest.epoch, latest.records)
    settings_to_prove = set(latest.settings)
    for older in reversed(history):
        if (
            older.proven
            and (older.version, older.epoch, older.records) == place
            and settings_to_prove <= set(older.settings)
        ):
            return replace(latest, settings=older.settings, proven=older.proven, proven_at=older.proven_at)
    return latest
