"""How old the newest batch run and the newest comparison are, by the clocks of all hosts that recorded them.

The newest is that of the highest sequence. Its time is believed as far as the order of the records and what must have
come before it bear it out: the epoch of its cut, the run that was compared, the version of the stream.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from cutover.definition.model.pipeline import Pipeline
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.control.stages import Stage, current_stage
from cutover.lake.control.versions import Registration, Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.judgement import history
from cutover.reconcile.watch.facts import Trouble
from cutover.recorded_times import RecordAge, bound_age, settle_now, settle_times
from cutover.settings import Settings


def find_batch_age(
    settings: Settings, pipeline: Pipeline, records: Sequence[EpochRecord], now: datetime
) -> RecordAge | None:
    """Return the age of the newest batch run; before the first, of the version; None: the batch path does not run.

    Raises:
        LakeError: Versions, stages or runs cannot be read.
    """
    known = versions.read_registrations(settings, pipeline.name)
    registered = [one for one in known if not one.deleted]
    if not registered or current_stage(settings, pipeline) is Stage.KAPPA:
        return None
    runs = batch_runs.runs(settings, pipeline)
    times = _settle_ends(runs)
    plain = [run for run in runs if run.repair is None and run.undoes is None]  # the others compute a few windows alone
    if not plain:
        return bound_age(registered[-1].at, (), now)
    run, version = plain[-1], versions.current(settings, pipeline)
    before = [
        *_list_registration(registered, run.result_fingerprint, run.stream_version),
        *_list_epoch_times(records, version, run.stream_version, run.epoch),
    ]
    return bound_age(times[run.run_id], before, settle_now(now, [times[run.run_id], *list_newest_time(records)]))


def find_verdict_age(
    settings: Settings, pipeline: Pipeline, records: Sequence[EpochRecord], now: datetime
) -> RecordAge | None:
    """Return the age of the comparison that speaks for the present; before the first, of the first batch run.

    Returns:
        None in KAPPA, and before there was anything to compare.

    Raises:
        LakeError: Versions, stages, runs or the history cannot be read.
    """
    if current_stage(settings, pipeline) is Stage.KAPPA:
        return None
    found = history.find_present(settings, pipeline)
    times = _settle_ends(batch_runs.runs(settings, pipeline))
    if found is None:
        return bound_age(next(iter(times.values())), (), now) if times else None
    compared = times.get(str(found.result.get("seal", {}).get("batch_run")))
    version = versions.current(settings, pipeline)
    known = versions.read_registrations(settings, pipeline.name)
    before = [
        *([] if compared is None else [compared]),
        *_list_registration(known, found.fingerprint, found.version),
        *_list_epoch_times(records, version, found.version, found.epoch),
    ]
    return bound_age(found.settled, before, settle_now(now, [found.settled, *list_newest_time(records)]))


def list_newest_time(records: Sequence[EpochRecord]) -> list[datetime]:
    """Return when the newest epoch was committed, if that is known."""
    return [datetime.fromisoformat(record.processing_time) for record in records[-1:] if record.processing_time]


def make_doubt(what: str) -> Trouble:
    """Return that no one can tell how old something is, which may be too old."""
    text = f"how old {what} is cannot be told: its time is in the future, or before what must have come before it"
    return Trouble(runbook="ClockSkew", text=text)


def _settle_ends(runs: Sequence[BatchRun]) -> dict[str, datetime]:
    """Return when each run ended, in their order."""
    settled = settle_times([datetime.fromisoformat(run.finished) for run in runs])
    return dict(zip((run.run_id for run in runs), settled, strict=True))


def _list_registration(known: Iterable[Registration], fingerprint: str, number: int | None) -> list[datetime]:
    """Return when a version of the stream was registered first."""
    return [one.at for one in known if (one.fingerprint, one.number) == (fingerprint, number)][:1]


def _list_epoch_times(
    records: Sequence[EpochRecord], version: Version | None, number: int | None, epoch: int
) -> Iterator[datetime]:
    """Yield when an epoch of a version was committed, if it is one of the newest of the version in force."""
    if version is not None and version.number == number:
        yield from (
            datetime.fromisoformat(record.processing_time)
            for record in records
            if record.epoch == epoch and record.processing_time
        )
