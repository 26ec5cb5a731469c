"""Settings in force on both sides and here: what judged the records has to be the same, item by item."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import readback
from cutover.engine.in_force import InForce, Ran, drifts
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
    known: Mapping[str, InForce]  # digest -> settings, as epochs have recorded them
    batch: str  # id of the run whose table is compared
    by_batch: InForce | None  # what judged its records; None: nothing is recorded
    here: InForce  # what this comparison folds and judges with
    version: int = 0  # of the stream that is compared


def sides(
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
        known=epoch_log.collect_in_force(records),
        batch=run.run_id,
        by_batch=batch_runs.in_force(runs, run),
        here=readback.of_process(pipeline),
        version=run.stream_version,
    )


def texts(records: Sequence[EpochRecord], settings_of_sides: SettingsOfSides) -> Iterator[str]:
    """Return why what was in force was not one and the same; nothing if it was, or if no record was ever read.

    Args:
        records: The epochs up to the cut.
        settings_of_sides: What was in force.
    """
    reading = [record for record in records if record.end_moved]
    if not reading:
        return
    streaming = [
        Ran(who=f"the stream in {_epochs(group)}", in_force=settings_of_sides.known.get(digest or "", _UNKNOWN))
        for digest, group in ((digest, list(group)) for digest, group in groupby(reading, key=lambda r: r.in_force))
    ]
    batch = Ran(who=f"batch run {settings_of_sides.batch}", in_force=settings_of_sides.by_batch or _UNKNOWN)
    unsaid = [ran.who for ran in (*streaming, batch) if not ran.in_force.families]
    if unsaid:
        yield f"Settings in force: expected every epoch and run to record them, got none of {', '.join(unsaid)}."
        return
    apart = drifts(streaming)
    yield from _format_drifts([drift.text for drift in apart], _make_stream_hint(settings_of_sides.pipeline, streaming))
    known = {drift.item for drift in apart}
    here = Ran(who="this comparison", in_force=settings_of_sides.here)
    others = [drift for drift in drifts([batch, *streaming, here]) if drift.item not in known]
    yield from _format_drifts(
        [drift.text for drift in others], _make_side_hint(settings_of_sides.pipeline, settings_of_sides.version)
    )


_UNKNOWN = InForce({})


def of_session(pipeline: Pipeline, by_batch: InForce | None, found: InForce) -> Iterator[str]:
    """Return where a session that recomputes windows differs from the settings of batch."""
    sides = [Ran(who="batch", in_force=by_batch or _UNKNOWN), Ran(who="this comparison's session", in_force=found)]
    yield from _format_drifts([drift.text for drift in drifts(sides)], _make_side_hint(pipeline.name, 0))


def _epochs(group: Sequence[EpochRecord]) -> str:
    first, last = group[0].epoch, group[-1].epoch
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"


def _format_drifts(found: Sequence[str], hint: str) -> Iterator[str]:
    for text in islice(found, _SHOWN):
        yield f"{text}\nHint: {hint}"
    if len(found) > _SHOWN:
        yield f"Settings in force: {len(found) - _SHOWN} more items differ."


def _make_stream_hint(pipeline: str, streaming: Sequence[Ran]) -> str:
    last = streaming[0].who.split()[-1]
    return (
        f"one version of the stream holds epochs of both. `cutover replay {pipeline} --into <next version>` builds one "
        f"under what is in force now; `cutover savepoint {pipeline} fork --epoch {last}` goes back behind it."
    )


def _make_side_hint(pipeline: str, version: int) -> str:
    batch = f"`cutover batch {pipeline}{format_option(version)}`"
    return (
        f"run all three under one installation. {batch} computes anew what the log still holds once its settings have"
        f" changed; `cutover replay {pipeline} --into <next version>` does so for the stream."
    )
