"""Files that no version of the last hours lists go; those of a version that a reader still holds stay, by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from deltalake.exceptions import DeltaError

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import pins, versions
from cutover.lake.paths import batch_uri, serving_uri
from cutover.lake.tables import delta
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldVersion:
    """A version of a table that a reader holds."""

    uri: str
    version: int
    holder: str


def vacuum(settings: Settings, pipeline: Pipeline, *, hours: int, now: datetime, dry_run: bool) -> dict[str, int]:
    """Take away files that are listed no more, of the epoch log and the batch tables.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        hours: Files that were listed within this time stay.
        now: For the pins in force.
        dry_run: Only count.

    Returns:
        Name of each table -> number of files.

    Raises:
        LakeError: A pin, or the newest batch run, needs a file that would go; nothing was taken away from any table.
    """
    places = dict(_places(settings, pipeline))
    going = {name: _vacuum(uri, hours, dry_run=True) for name, uri in places.items()}
    for held in _list_held_versions(settings, pipeline, now):
        name = next((name for name, uri in places.items() if uri == held.uri), None)
        needed = sorted(_list_files(held) & going[name]) if name is not None else []
        if needed:
            msg = (
                f"Vacuum of `{name}` to {hours} h: expected no reader of what goes, got {held.holder}, who needs "
                f"version {held.version} (file `{needed[0]}`).\n"
                "Hint: wait until it is released or expired, or keep more hours."
            )
            raise LakeError(msg, runbook="PinnedVersionAtRisk")
    if not dry_run:
        for uri in places.values():
            _vacuum(uri, hours, dry_run=False)
    return {name: len(files) for name, files in going.items()}


def _places(settings: Settings, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    version = versions.current(settings, pipeline)
    found = {} if version is None else {"stream": version.uri}
    found |= {name: batch_uri(settings, pipeline, name) for name in ("batch", "batch_index", "batch_ledger")}
    found["serving"] = serving_uri(settings, pipeline.name)
    return ((name, uri) for name, uri in found.items() if delta.exists(uri))


def _list_held_versions(settings: Settings, pipeline: Pipeline, now: datetime) -> Iterator[HeldVersion]:
    """Yield the versions that readers name: of runs that wait to be compared, and of the newest, which is served."""
    runs = [run for run in batch_runs.runs(settings, pipeline) if run.batch_version is not None]
    for holder in pins.holders(settings, pipeline.name, result_fingerprint(pipeline), now=now):
        for run in runs:
            if pins.batch_holder(run.run_id) == holder:
                yield from _of(settings, pipeline, run, f"the pin of {holder}")
    if runs:
        yield from _of(settings, pipeline, runs[-1], f"the newest batch run {runs[-1].run_id}")


def _of(settings: Settings, pipeline: Pipeline, run: BatchRun, holder: str) -> Iterator[HeldVersion]:
    if run.batch_version is not None:
        yield HeldVersion(uri=batch_uri(settings, pipeline), version=run.batch_version, holder=holder)
    if run.ledger_version is not None:
        yield HeldVersion(uri=batch_uri(settings, pipeline, "batch_ledger"), version=run.ledger_version, holder=holder)


def _vacuum(uri: str, hours: int, *, dry_run: bool) -> set[str]:
    try:
        table = delta.open_table(uri)
        found = table.vacuum(retention_hours=hours, enforce_retention_duration=False, dry_run=dry_run)
    except (DeltaError, OSError) as error:
        msg = f"Table `{uri}`: expected a place where files can be removed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    return {PurePosixPath(file).name for file in found}


def _list_files(held: HeldVersion) -> set[str]:
    return {PurePosixPath(uri).name for uri in delta.open_table(held.uri, held.version).file_uris()}
