"""What the tables of a pipeline must hold, as their last writers of ours recorded it, and how they differ from that."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import storage
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import batch_runs, journal, sequence_marks
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.dimensions import dimension
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import foreign_commits, high_water
from cutover.lake.integrity.foreign_commits import Kind, TableChange
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.lake.paths import BATCH_TABLES, BatchTable, batch_uri, control_uri
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.checksums import Name
from cutover.settings import Settings

LOOKS, BETWEEN = 4, 0.25
"""How often a table of the batch path is looked at that seems changed, and the seconds between two looks."""
ANEW = "`cutover batch {name} --anew` recomputes every window that the log still holds"
CONTROL = "`cutover restore-control` writes the rows again that stood there"
ACCEPTED = "`cutover accept-loss {name}` leaves it as it is and reads the log into a new version"


def changes(settings: Settings, pipeline: Pipeline) -> Iterator[tuple[TableChange, str]]:
    """Yield every change of rows in a table of a pipeline that its writers did not make, with what mends it.

    Those of the control tables first: what the others hold is told by these.

    Raises:
        LakeError: A table cannot be read.
    """
    yield from ((found, CONTROL) for found in _of_control(settings, pipeline))
    yield from _of_stream(settings, pipeline)
    for found in _of_batch(settings, pipeline):
        yield found, ANEW.format(name=pipeline.name)
    yield from _of_dimensions(settings, pipeline)


def _of_control(settings: Settings, pipeline: Pipeline) -> Iterator[TableChange]:
    """Yield changes of the control tables: files of others, and rows of this pipeline that are gone."""
    for name, row_type in journal.list_row_types().items():
        marked = sequence_marks.read_latest(settings, name, pipeline.name)
        if not journal.table_exists(settings, name):
            continue
        table = delta.open_table(control_uri(settings, name))
        if journal.find_marked_sequences(table, pipeline.name, marked):
            delta.refuse_damaged_log(table.table_uri)
            yield TableChange(uri=control_uri(settings, name), kind=Kind.FOREIGN, noted=marked)
            continue
        if table.version() == 0:  # just made: nobody has written to it
            continue
        found = foreign_commits.change(table, None)
        if found is None and journal.list_missing_sequences(table, row_type, pipeline.name):
            delta.refuse_damaged_log(table.table_uri)
            found = foreign_commits.find_removed(table)
        if found is not None:  # to restore the table as a whole would undo what ours did since
            yield replace(found, base=None)


def _of_batch(settings: Settings, pipeline: Pipeline) -> list[TableChange]:
    """Return the changes of the batch path's tables; looked at again where a run may be ending meanwhile."""
    removed_batch = find_removed_batch(settings, pipeline)
    for look in range(0 if removed_batch else LOOKS):
        if look:
            time.sleep(BETWEEN)
        runs = batch_runs.runs(settings, pipeline)
        places = {name: batch_uri(settings, pipeline, name) for name in BATCH_TABLES}
        there = [name for name, uri in places.items() if delta.exists(uri)]
        changed = (of_batch(delta.open_table(places[name]), name, runs) for name in there)
        # What a run that was never recorded left is nobody's: readers get the version of the newest recorded one.
        removed_batch = [change for change in changed if change is not None and change.kind is not Kind.UNFINISHED]
        if all(change.kind is Kind.HARMLESS for change in removed_batch):
            break
    return removed_batch


def of_batch(table: DeltaTable, name: BatchTable, runs: Sequence[BatchRun]) -> TableChange | None:
    """Return how a table of the batch path differs from what the newest recorded run left.

    Args:
        table: The handle.
        name: Which one.
        runs: All recorded runs, oldest first, read after the handle was opened.
    """
    expected = int(runs[-1].files.get(name, "0"), 16) if runs else 0
    return foreign_commits.change(table, expected, skips=_skips(name, runs))


def find_removed_batch(settings: Settings, pipeline: Pipeline) -> list[TableChange]:
    """Return the tables of the batch path that a recorded run or comparison saw, and that are there no more."""
    missing = [name for name in BATCH_TABLES if not delta.exists(batch_uri(settings, pipeline, name))]
    if not missing:
        return []
    runs = batch_runs.runs(settings, pipeline)
    seen = {name: f"run {run.run_id}" for run in runs for name, weight in run.files.items() if int(weight, 16)}
    compared = None if runs else _find_compared_run(settings, pipeline)
    if compared is not None:
        seen["batch_index"] = f"the comparison with run {compared}"
    places = {name: batch_uri(settings, pipeline, name) for name in missing if name in seen}
    # Looked at again: the first run may have ended meanwhile.
    return [_make_removal(uri, seen[name]) for name, uri in places.items() if not delta.exists(uri)]


def _find_compared_run(settings: Settings, pipeline: Pipeline) -> str | None:
    """Return a batch run of the definition in force that was compared; None: none was."""
    fingerprint = result_fingerprint(pipeline)
    deleted = versions.find_deletion(settings, pipeline.name, fingerprint, versions.BATCH)
    rows = Journal(settings, pipeline.name, ComparisonRow).read()
    mine = (row for row in rows if row.result_fingerprint == fingerprint)
    later = (row for row in mine if deleted is None or deleted.is_before(row))
    tables = (json.loads(row.result).get("tables", {}) for row in later)
    return next((str(table["batch_run"]) for table in tables if table.get("batch_run")), None)


def _skips(name: BatchTable, runs: Sequence[BatchRun]) -> Callable[[Name], bool]:
    """Return whether a file holds rows of a run that was never recorded; nobody reads them but from `batch` itself."""
    known = {run.run_id for run in runs}
    labels = {"index", "ledger"}

    def skips(file: Name) -> bool:
        return name != "batch" and file.label in labels and file.stem.split("-")[1] not in known

    return skips


def _of_stream(settings: Settings, pipeline: Pipeline) -> Iterator[tuple[TableChange, str]]:
    version = versions.current(settings, pipeline)
    if version is None:
        return
    removed = find_removed_stream(settings, pipeline, version)
    if removed is not None:
        yield removed, ACCEPTED.format(name=pipeline.name)
    if not delta.exists(version.uri):
        return
    epochs = EpochLog(version.uri)
    newest = epochs.newest()
    found = foreign_commits.change(epochs.table, 0 if newest is None else int(newest.files, 16))
    if found is not None:  # drivers record what the files weigh: who does not is none
        kind = Kind.FOREIGN if found.kind is Kind.UNFINISHED else found.kind
        yield replace(found, kind=kind), ACCEPTED.format(name=pipeline.name)


def find_removed_stream(settings: Settings, pipeline: Pipeline, version: Version) -> TableChange | None:
    """Return that the epoch log of a version is gone, if a reader saw an epoch of it.

    Raises:
        LakeError: Another table that tells of it cannot be read.
    """
    if delta.exists(version.uri):
        return None
    witnesses = high_water.all_of(settings, pipeline, version)
    # Looked at again: its first driver may have made it meanwhile.
    return _make_removal(version.uri, witnesses[0].who) if witnesses and not delta.exists(version.uri) else None


def refuse_removed(settings: Settings, pipeline: Pipeline, version: Version) -> None:
    """Refuse a version whose epoch log a person or a tool took away.

    Raises:
        LakeError: It is gone.
    """
    removed = find_removed_stream(settings, pipeline, version)
    if removed is not None:
        raise LakeError(removed.message(ACCEPTED.format(name=pipeline.name)), runbook=removed.runbook)


def refuse_no_epochs(settings: Settings, pipeline: Pipeline, version: Version | None) -> Version:
    """Check a version before its epoch log is read, and hand it on.

    Raises:
        LakeError: It has none yet, or a person or a tool took it away.
    """
    if version is not None:
        refuse_removed(settings, pipeline, version)
    if version is None or not delta.exists(version.uri):
        msg = f"Pipeline `{pipeline.name}`: expected an epoch log under this definition, found none."
        raise LakeError(msg + f"\nHint: `cutover stream {pipeline.name} --drain` makes it.")
    return version


def _make_removal(uri: str, seen_by: str) -> TableChange:
    return TableChange(uri=uri, kind=Kind.FOREIGN, seen_by=seen_by)


def _of_dimensions(settings: Settings, pipeline: Pipeline) -> Iterator[tuple[TableChange, str]]:
    """Yield changes of the lake's own dimensions; those of a team's own tables are its own affair."""
    for lookup in pipeline.lookups.values():
        if lookup.is_named and delta.exists(dimension.uri(settings, lookup)):
            found = foreign_commits.change(delta.open_table(dimension.uri(settings, lookup)), None)
            if found is not None:
                yield found, f"`cutover dimension load {lookup.table} FILE` writes it anew"


def adopt(table: DeltaTable, table_change: TableChange, *words: object) -> None:
    """Take over files that another writer rewrote without harm: under names of ours, in one commit that changes no row.

    Args:
        table: The handle, at the version that `table_change` was told of; it shows the new one afterwards.
        table_change: A harmless change.
        words: Of the names, after `adopt_files`.

    Raises:
        CommitFailedError: Another commit came first.
        OSError: The storage took no file.
    """
    made, gone = adopt_files(table, table_change, *words)
    commits.replace(table, gone, made, new_data=False, commit=CommitProperties(max_commit_retries=0))
    log.warning(
        "files_adopted",
        table=table_change.uri,
        files=len(made),
        commits=[str(commit) for commit in table_change.commits],
    )


def adopt_files(
    table: DeltaTable, table_change: TableChange, *words: object
) -> tuple[list[AddAction], list[dict[str, Any]]]:
    """Copy the files that others wrote under names of ours; return what lists them, and what they stand for."""
    system, root = storage.place(table.table_uri)
    gone = [action for action in delta.actions(table) if checksums.name_of(str(action["path"])) is None]
    made = []
    for number, action in enumerate(gone):
        stem = checksums.new_stem("adopted", *words, checksums.weight_word(0 if number else table_change.missing))
        path = str(action["path"])
        copy = f"{path.rpartition('/')[0]}/{stem}.parquet".lstrip("/")
        system.copy_file(f"{root}/{unquote(path)}", f"{root}/{copy}")
        values = {k.removeprefix("partition."): v for k, v in action.items() if k.startswith("partition.")}
        made.append(data_files.adopt(table.table_uri, copy, stem, partition=values, new_data=False))
    return made, gone
