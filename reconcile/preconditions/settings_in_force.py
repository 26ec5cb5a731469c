"""Settings in force on both sides and here: what judged the records has to be the same, item by item."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from types import MappingProxyType

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
    schemas_of_runs: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # run -> id in the registry -> digest
    schemas: Mapping[str, str] = field(default_factory=dict)  # of those that are stored, by which Avro is decoded here


def read_settings(
    pipeline: Pipeline,
    records: Sequence[EpochRecord],
    runs: Sequence[BatchRun],
    run: BatchRun,
    schemas: Mapping[str, str] = MappingProxyType({}),
) -> SettingsOfSides:
    """Return what both paths recorded of their settings, and those of this process.

    Args:
        pipeline: The definition.
        records: All epochs of the version.
        runs: All batch runs under its result fingerprint.
        run: The one that is compared; the runs that it reuses had the same settings, or it had recomputed everything.
        schemas: Digests of the schemas that are stored, by id.
    """
    return SettingsOfSides(
        pipeline=pipeline.name,
        by_digest=epoch_log.collect_in_force(records),
        batch=run.run_id,
        by_batch=batch_runs.find_effective_settings(runs, run),
        of_process=readback.read_process_settings(pipeline),
        version=run.stream_version,
        schemas_of_runs={item.run_id: item.schemas for item in _select_built_on(runs, run) if item.schemas},
        schemas=dict(schemas),
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


def _select_built_on(runs: Sequence[BatchRun], run: BatchRun) -> list[BatchRun]:
    """Select a run and the earlier ones that it builds on."""
    numbers = [number for number, item in enumerate(runs) if item.run_id == run.run_id]
    earlier = list(runs[: numbers[0] + 1]) if numbers else [run]
    starts = [number for number, item in enumerate(earlier) if item.anew]
    return earlier[starts[-1] :] if starts else earlier


def list_schema_differences(records: Sequence[EpochRecord], settings_of_sides: SettingsOfSides) -> Iterator[str]:
    """Yield a reason for each id of the schema registry that was not decoded by one schema.

    Args:
        records: The epochs up to the cut.
        settings_of_sides: Schemas of batch runs and of this comparison.
    """
    sides = [
        *((f"epoch {record.epoch}", record.schemas) for record in records),
        *((f"batch run {run}", schemas) for run, schemas in settings_of_sides.schemas_of_runs.items()),
        ("this comparison", settings_of_sides.schemas),
    ]
    for number in sorted({number for _, schemas in sides for number in schemas}, key=int):
        first_by_digest: dict[str, str] = {}
        for reporter, schemas in sides:
            if number in schemas:
                first_by_digest.setdefault(schemas[number], reporter)
        if len(first_by_digest) > 1:
            values = "; ".join(f"{reporter} decoded by `{digest}`" for digest, reporter in first_by_digest.items())
            text = f"Schema {number} of the registry: expected one schema, got several: {values}."
            yield f"{text}\nHint: {_SCHEMA_HINT}"


_SCHEMA_HINT = (
    "a schema was registered after its first records, or the registry or the stored schemas were replaced; replay the "
    "stream into another version and run batch again, or restore them."
)


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
