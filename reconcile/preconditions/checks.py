"""Preconditions for two sides to be comparable: pure checks over facts, each of which states why it fails.

What judged the records has to be the same on both sides and here, setting by setting. A comparison that compared no
window states the reasons and the next command: nothing equal to nothing proves nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice
from types import MappingProxyType

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import readback
from cutover.engine.effective_settings import EffectiveSettings, ReportedSettings, find_drifts
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control.versions import Version, format_option
from cutover.lake.epochs import delivery, epoch_log
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.reconcile.result.finding import Events, Seal, SealBreach, Windows
from cutover.reconcile.result.text import count_noun, format_iso_time, when

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


LEDGER = "SELECT _class, reason, count(*) FROM ledger GROUP BY ALL"
_EXCLUDED = ("malformed", "future", "filtered", "duplicate", "late")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCounts:
    """(record, window) pairs by class, as counted over the epoch log's rows."""

    up_to_cut: Mapping[str, int]
    in_all: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealFacts:
    """Facts by which the seal is evaluated."""

    stream: str  # pipeline/fingerprint/stream-n, as messages name it
    definition: str  # result fingerprint of the definition now
    batch_definition: str  # batch fingerprint of the definition now
    records: tuple[EpochRecord, ...]  # all epochs of the version, by number
    transaction: int | None  # of the table's newest epoch commit
    doubts: tuple[str, ...]  # what contradicts the epoch log: its own commits, and who saw a later epoch
    losses: tuple[Loss, ...]  # recorded for this version
    run: BatchRun
    unaccounted: tuple[str, int] | None  # a window of the batch table and its epoch, if no recorded run left it so
    books: ClassCounts
    pairs: Mapping[int, Mapping[str, int]]  # epoch -> class -> what its rows have to add up to
    settings: SettingsOfSides  # what was in force in epochs, batch and this comparison

    @property
    def up_to_cut(self) -> tuple[EpochRecord, ...]:
        """Return the epochs up to the run's cut."""
        return tuple(record for record in self.records if record.epoch <= self.run.epoch)

    @property
    def at_cut(self) -> EpochRecord | None:
        """None where the table no longer has the epoch that the run names."""
        return next((record for record in self.records if record.epoch == self.run.epoch), None)


def breaches(facts: SealFacts) -> tuple[SealBreach, ...]:
    """Return every reason why the sides cannot be compared; none if the seal holds."""
    checks = (
        _check_history,
        _check_cut,
        _check_identity,
        _check_fingerprints,
        _check_isolation,
        _check_settings,
        _check_folds,
    )
    return tuple(breach for check in checks for breach in check(facts))


def _breach(code: str, message: str, runbook: str = "NotComparable") -> SealBreach:
    return SealBreach(code=code, message=message, runbook=runbook)


def _check_history(facts: SealFacts) -> Iterator[SealBreach]:
    """Transaction, newest row, numbers without a gap, earlier witnesses; each epoch starts where one ended."""
    name, records = facts.stream, facts.records
    texts = [*facts.doubts, *delivery.describe_number_gaps(name, records, facts.transaction)]
    for text in (*texts, *islice(delivery.describe_offset_breaks(name, records, facts.losses), 1)):
        yield _breach("history", text, "EpochHistoryBroken")


def _check_cut(facts: SealFacts) -> Iterator[SealBreach]:
    run, record = facts.run, facts.at_cut
    if record is None:
        newest = facts.records[-1].epoch if facts.records else None
        text = f"Batch run {run.run_id} is at the cut of epoch {run.epoch}, "
        yield _breach("history", text + f"newest epoch row of {facts.stream} is {newest}.", "EpochHistoryBroken")
        return
    if dict(run.cut) != dict(record.end):
        text = f"Cut of epoch {run.epoch}: the stream ends at {dict(record.end)}, "
        yield _breach("cut", text + f"batch run {run.run_id} at {dict(run.cut)}.")
    if run.watermark != record.watermark_after:
        text = f"Watermark at epoch {run.epoch}: the stream has {record.watermark_after}, "
        yield _breach("cut", text + f"the batch run took {run.watermark}.")
    if facts.unaccounted is not None:
        window, epoch = facts.unaccounted
        text = (
            f"Batch table at version {run.batch_version}, window {window}: expected rows as the last recorded run over"
        )
        yield _breach(
            "cut", text + f" it left them, got rows of epoch {epoch}: a run was interrupted, or the table was edited."
        )


def _check_identity(facts: SealFacts) -> Iterator[SealBreach]:
    expected = (facts.run.cluster_id, facts.run.topic_id)
    for record in facts.up_to_cut:
        if (record.cluster_id, record.topic_id) != expected:
            text = f"Log `{facts.run.topic}`: epoch {record.epoch} read topic id {record.topic_id} of cluster "
            text += f"{record.cluster_id}, batch read {expected[1]} of {expected[0]}: another log under the same name."
            yield _breach("log_identity", text, "TopicIdentityChanged")
            return


def _check_fingerprints(facts: SealFacts) -> Iterator[SealBreach]:
    streaming = sorted({record.result_fingerprint for record in facts.up_to_cut})
    fingerprints = {"streaming": streaming, "batch": [facts.run.result_fingerprint]}
    for side, fingerprints_of_side in fingerprints.items():
        if fingerprints_of_side != [facts.definition]:
            text = f"Result fingerprint: the definition has {facts.definition}, "
            text += f"{side} ran with {', '.join(fingerprints_of_side) or 'none'}."
            yield _breach("fingerprint", text, "SealBroken")
    lateness = sorted({record.lateness_fingerprint for record in facts.up_to_cut})
    if len(lateness) > 1:
        yield _breach(
            "fingerprint", f"Lateness fingerprint: expected one, epochs have {', '.join(lateness)}.", "SealBroken"
        )
    if facts.run.batch_fingerprint != facts.batch_definition:
        text = f"Batch definition: now {facts.batch_definition}, batch ran with {facts.run.batch_fingerprint}."
        yield _breach("fingerprint", text, "SealBroken")


def _check_isolation(facts: SealFacts) -> Iterator[SealBreach]:
    isolations = sorted({record.isolation for record in facts.up_to_cut})
    if isolations != [facts.run.isolation]:
        text = f"Isolation: batch read {facts.run.isolation}, streaming read {', '.join(isolations) or 'nothing'}."
        yield _breach("isolation", text, "SealBroken")


def _check_settings(facts: SealFacts) -> Iterator[SealBreach]:
    for text in list_differences(facts.up_to_cut, facts.settings):
        yield _breach("settings", text, "SealBroken")
    for text in list_schema_differences(facts.up_to_cut, facts.settings):
        yield _breach("settings", text, "SealBroken")


def _check_folds(facts: SealFacts) -> Iterator[SealBreach]:
    """Find a fold across the cut: it moved accepted rows to a later epoch, so the totals agree, but not at the cut."""
    recorded_pairs = sum(facts.pairs[record.epoch].get("accepted", 0) for record in facts.up_to_cut)
    total = sum(facts.pairs[record.epoch].get("accepted", 0) for record in facts.records)
    at_cut, in_all = facts.books.up_to_cut.get("accepted", 0), facts.books.in_all.get("accepted", 0)
    folded_to = facts.records[-1].folded_to if facts.records else None
    crossed = folded_to is not None and folded_to > facts.run.epoch
    if at_cut < recorded_pairs and (in_all == total or crossed):
        text = f"Cut of epoch {facts.run.epoch}: {recorded_pairs} accepted pairs up to it,"
        text += f" {at_cut} can still be identified: "
        yield _breach("folded", text + "a fold merged epochs across it, and no pin held it.")


def make_uncovered_breach(run_id: str, version: Version, windows: Mapping[str, int]) -> SealBreach:
    """Make the breach for closed windows of which batch can vouch for none."""
    counts = ", ".join(f"{count:,} {reason}" for reason, count in windows.items())
    text = (
        f"Batch run {run_id}: expected closed windows that can be judged, got none of "
        f"{sum(windows.values()):,}: {counts} (stale: changed since batch computed it; expired: its records have left "
        "the log; lost: the stream missed records too; doubled: the stream delivered some records twice; unread: some "
        "records were removed before this version of the stream began). "
        f"Hint: `cutover batch {version.pipeline}{format_option(version.number)}` computes "
        "stale windows again; the others can no longer be computed from the log."
    )
    return SealBreach(code="uncovered", message=text, runbook="NotComparable")


def describe_range(start: datetime | None, end: datetime | None) -> str | None:
    """Describe a requested range in words; None if none was requested."""
    bounds = (("at or after", format_iso_time(start)), ("before", format_iso_time(end)))
    return " and ".join(f"{word} {time}" for word, time in bounds if time) or None


def make_no_window_breach(
    pipeline: Pipeline, seal: Seal, windows: Windows, events: Events, *, requested: str | None
) -> SealBreach:
    """Return the reason why no window was compared, with a hint.

    Args:
        pipeline: The pipeline.
        seal: Cut and watermark.
        windows: Windows counted at the cut; none was compared.
        events: Records up to the cut, by class.
        requested: Requested range of window starts, in words; None: none was requested.
    """
    text, hint = next(_list_reasons(pipeline, seal, windows, events, requested))
    message = f"Epoch {seal.epoch} of `{pipeline.name}`: expected a closed window to compare, got {text}."
    return SealBreach(code="nothing", message=f"{message} Hint: {hint}", runbook="NotComparable")


def _list_reasons(
    pipeline: Pipeline, seal: Seal, windows: Windows, events: Events, requested: str | None
) -> Iterator[tuple[str, str]]:
    """Yield reasons and hints, the most specific one first."""
    name = pipeline.name
    still_open, number = count_noun(windows.open, "open one"), seal.stream_version
    option = format_option(number)
    drain = f"cutover replay {name} --into {number}" if number else f"{pipeline.driver_command} --drain"
    if requested is not None:
        open_note = f", {still_open}" if windows.open else ""
        yield (
            f"none that starts {requested}{open_note}",
            f"`cutover reconcile {name}{option}` compares all closed windows.",
        )
    if windows.open:
        watermark = when(seal.watermark) if seal.watermark else "none"
        closing = "newer records close windows"
        closing += "" if pipeline.stream else f", `cutover stream {name} --final` closes all for good"
        yield (
            f"{still_open} alone (watermark: {watermark})",
            f"{closing}; then `cutover batch {name}{option}`, and compare again.",
        )
    counts = {kind: getattr(events, kind) for kind in _EXCLUDED}
    records = events.accepted + sum(counts.values())
    if records:
        by_class = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        yield (
            f"no record of {records:,} that counts: {by_class}",
            f"`cutover sql {name}{option} '{LEDGER}'` says why; the definition and what the producer sends do not fit.",
        )
    next_commands = f"`{drain}` and `cutover batch {name}{option}`"
    yield "no record at all", f"`cutover produce FILE --pipeline {name}`, then {next_commands}."
