"""Vacuum: delete files that no version of the last hours lists, unless a version that a reader holds needs them."""

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
    """Version of a table that a reader holds."""

    uri: str
    version: int
    holder: str


def vacuum(settings: Settings, pipeline: Pipeline, *, hours: int, now: datetime, dry_run: bool) -> dict[str, int]:
    """Delete files of the epoch log, the batch tables and the serving table that are no longer listed.

    Args:
        settings: Location of the lake.
        pipeline: The definition.
        hours: Files that were listed within this time are retained.
        now: Time at which pins must be in force.
        dry_run: Only count the files.

    Returns:
        Name of each table -> number of files.

    Raises:
        LakeError: A pin, or the newest batch run, needs a file that would be deleted; no file of any table was deleted.
    """
    places = dict(_list_places(settings, pipeline))
    deletable = {name: _vacuum(uri, hours, dry_run=True) for name, uri in places.items()}
    for held_version in _list_held_versions(settings, pipeline, now):
        name = next((name for name, uri in places.items() if uri == held_version.uri), None)
        needed_files = sorted(_list_files(held_version) & deletable[name]) if name is not None else []
        if needed_files:
            msg = (
                f"Vacuum of `{name}` to {hours} h: expected no reader of deletable files, got "
                f"{held_version.holder}, who needs version {held_version.version} (file `{needed_files[0]}`).\n"
                "Hint: wait until it is released or expired, or keep more hours."
            )
            raise LakeError(msg, runbook="PinnedVersionAtRisk")
    if not dry_run:
        for uri in places.values():
            _vacuum(uri, hours, dry_run=False)
    return {name: len(files) for name, files in deletable.items()}


def _list_places(settings: Settings, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    version = versions.current(settings, pipeline)
    uris = {} if version is None else {"stream": version.uri}
    uris |= {name: batch_uri(settings, pipeline, name) for name in ("batch", "batch_index", "batch_ledger")}
    uris["serving"] = serving_uri(settings, pipeline.name)
    return ((name, uri) for name, uri in uris.items() if delta.exists(uri))


def _list_held_versions(settings: Settings, pipeline: Pipeline, now: datetime) -> Iterator[HeldVersion]:
    """Yield the versions that readers need: of runs that wait for a comparison, and of the newest run, which serves."""
    runs = [run for run in batch_runs.read_effective_runs(settings, pipeline) if run.batch_version is not None]
    for holder in pins.list_all_holders(settings, pipeline.name, result_fingerprint(pipeline), now=now):
        for run in runs:
            if pins.name_batch_holder(run.run_id) == holder:
                yield from _list_versions(settings, pipeline, run, f"the pin of {holder}")
    if runs:
        yield from _list_versions(settings, pipeline, runs[-1], f"the newest batch run {runs[-1].run_id}")


def _list_versions(settings: Settings, pipeline: Pipeline, run: BatchRun, holder: str) -> Iterator[HeldVersion]:
    if run.batch_version is not None:
        yield HeldVersion(uri=batch_uri(settings, pipeline), version=run.batch_version, holder=holder)
    if run.ledger_version is not None:
        yield HeldVersion(uri=batch_uri(settings, pipeline, "batch_ledger"), version=run.ledger_version, holder=holder)


def _vacuum(uri: str, hours: int, *, dry_run: bool) -> set[str]:
    try:
        table = delta.open_table(uri)
        files = table.vacuum(retention_hours=hours, enforce_retention_duration=False, dry_run=dry_run)
    except (DeltaError, OSError) as error:
        msg = f"Table `{uri}`: expected a place where files can be removed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    return {PurePosixPath(file).name for file in files}


def _list_files(held_version: HeldVersion) -> set[str]:
    return {PurePosixPath(uri).name for uri in delta.open_table(held_version.uri, held_version.version).file_uris()}
