"""Preconditions for two sides to be comparable: pure checks over facts, each of which states why it fails.

A comparison that compared no window states the reasons and the next command: nothing equal to nothing proves nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control.versions import format_option
from cutover.lake.epochs import offsets
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.reconcile.preconditions import settings_in_force
from cutover.reconcile.preconditions.settings_in_force import SettingsOfSides
from cutover.reconcile.result.finding import Events, Windows
from cutover.reconcile.result.seal import Seal, SealBreach
from cutover.reconcile.result.text import count_noun, when

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
    texts = [*facts.doubts, *offsets.describe_number_gaps(name, records, facts.transaction)]
    for text in (*texts, *islice(offsets.describe_offset_breaks(name, records, facts.losses), 1)):
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
    for text in settings_in_force.list_differences(facts.up_to_cut, facts.settings):
        yield _breach("settings", text, "SealBroken")
    for text in settings_in_force.list_schema_differences(facts.up_to_cut, facts.settings):
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
