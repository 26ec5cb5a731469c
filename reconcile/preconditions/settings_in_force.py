"""Settings in force on both sides and here: what judged the records has to be the same, item by item."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import readback
from cutover.engine.effective_settings import EffectiveSettings, ReportedSettings, find_drifts
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control.versions import format_option
from cutover.lake.epochs import epoch_log
from cutover.lake.epochs.epoch_log import EpochRecord

_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOfSides:
    """Recorded settings of both sides, and those of this process."""

    pipeline: str
    by_digest: Mapping[str, EffectiveSettings]  # digest -> settings, as epochs have recorded them
    batch: str  # id of the run whose table is compared
    by_batch: EffectiveSettings | None  # what judged its records; None: nothing is recorded
    of_process: EffectiveSettings  # what this comparison folds and judges with
    version: int = 0  # of the stream that is compared


def read_settings(
    pipeline: Pipeline, records: Sequence[EpochRecord], runs: Sequence[BatchRun], run: BatchRun
) -> SettingsOfSides:
    """Return what both paths recorded of their settings, and those of this process.

    Args:
        pipeline: The definition.
        records: All epochs of the version.
        runs: All batch runs under its result fingerprint.
        run: The one that is compared; the runs that it reuses had the same settings, or it had recomputed everything.
    """
    return SettingsOfSides(
        pipeline=pipeline.name,
        by_digest=epoch_log.collect_in_force(records),
        batch=run.run_id,
        by_batch=batch_runs.find_effective_settings(runs, run),
        of_process=readback.read_process_settings(pipeline),
        version=run.stream_version,
    )


def list_differences(records: Sequence[EpochRecord], settings_of_sides: SettingsOfSides) -> Iterator[str]:
    """Yield the reasons why the settings were not the same; nothing if they were, or if no record was ever read.

    Args:
        records: The epochs up to the cut.
        settings_of_sides: What was in force.
    """
    reading = [record for record in records if record.end_moved]
    if not reading:
        return
    streaming = [
        ReportedSettings(
            reporter=f"the stream in {_epochs(group)}", settings=settings_of_sides.by_digest.get(digest or "", _UNKNOWN)
        )
        for digest, group in ((digest, list(group)) for digest, group in groupby(reading, key=lambda r: r.in_force))
    ]
    batch = ReportedSettings(
        reporter=f"batch run {settings_of_sides.batch}", settings=settings_of_sides.by_batch or _UNKNOWN
    )
    unsaid = [report.reporter for report in (*streaming, batch) if not report.settings.families]
    if unsaid:
        yield f"Settings in force: expected every epoch and run to record them, got none of {', '.join(unsaid)}."
        return
    apart = find_drifts(streaming)
    yield from _format_drifts([drift.text for drift in apart], _make_stream_hint(settings_of_sides.pipeline, streaming))
    reported_items = {drift.item for drift in apart}
    this_process = ReportedSettings(reporter="this comparison", settings=settings_of_sides.of_process)
    side_drifts = [
        drift for drift in find_drifts([batch, *streaming, this_process]) if drift.item not in reported_items
    ]
    yield from _format_drifts(
        [drift.text for drift in side_drifts], _make_side_hint(settings_of_sides.pipeline, settings_of_sides.version)
    )


_UNKNOWN = EffectiveSettings({})


def list_session_differences(
    pipeline: Pipeline, by_batch: EffectiveSettings | None, of_process: EffectiveSettings
) -> Iterator[str]:
    """Return where a session that recomputes windows differs from the settings of batch."""
    sides = [
        ReportedSettings(reporter="batch", settings=by_batch or _UNKNOWN),
        ReportedSettings(reporter="this comparison's session", settings=of_process),
    ]
    yield from _format_drifts([drift.text for drift in find_drifts(sides)], _make_side_hint(pipeline.name, 0))


def _epochs(group: Sequence[EpochRecord]) -> str:
    first_epoch, last_epoch = group[0].epoch, group[-1].epoch
    return f"epoch {first_epoch}" if first_epoch == last_epoch else f"epochs {first_epoch} to {last_epoch}"


def _format_drifts(drift_texts: Sequence[str], hint: str) -> Iterator[str]:
    for text in islice(drift_texts, _SHOWN):
        yield f"{text}\nHint: {hint}"
    if len(drift_texts) > _SHOWN:
        yield f"Settings in force: {len(drift_texts) - _SHOWN} more items differ."


def _make_stream_hint(pipeline: str, streaming: Sequence[ReportedSettings]) -> str:
    last_epoch = streaming[0].reporter.split()[-1]
    return (
        f"one version of the stream holds epochs of both. `cutover replay {pipeline} --into <next version>` builds one "
        f"under what is in force now; `cutover savepoint {pipeline} fork --epoch {last_epoch}` returns to that epoch."
    )


def _make_side_hint(pipeline: str, version: int) -> str:
    batch = f"`cutover batch {pipeline}{format_option(version)}`"
    return (
        f"run all three under one installation. {batch} recomputes all that the log still holds once its settings"
        f" have changed; `cutover replay {pipeline} --into <next version>` does so for the stream."
    )
