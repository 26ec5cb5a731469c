"""Changes of a pipeline's tables: the files that are listed, against those that the latest writers recorded."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from cutover.definition.compile.fingerprint import result_fingerprint
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
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.checksums import Name
from cutover.pipeline_lake import BATCH_TABLES, BatchTable, PipelineLake, control_uri

ATTEMPTS, WAIT_SECONDS = 4, 0.25
"""Number of times that a changed table of the batch path is read, and the time between two reads."""
ANEW = "`cutover batch {name} --anew` recomputes every window that the log still holds"
CONTROL = "`cutover restore-control` restores the missing rows"
ACCEPTED = "`cutover accept-loss {name}` leaves it as it is and reads the log into a new version"


def list_table_changes(lake: PipelineLake) -> Iterator[tuple[TableChange, str]]:
    """Yield every change of rows in a table of a pipeline that its writers did not make, with what repairs it.

    Changes of the control tables come first, because these record what the other tables must hold.

    Raises:
        LakeError: A table cannot be read.
    """
    yield from ((change, CONTROL) for change in _find_control_changes(lake))
    yield from _find_stream_changes(lake)
    for change in _find_batch_changes(lake):
        yield change, ANEW.format(name=lake.name)
    yield from _find_dimension_changes(lake)


def _find_control_changes(lake: PipelineLake) -> Iterator[TableChange]:
    """Yield changes of the control tables: files of other writers, and missing rows of this pipeline."""
    settings = lake.settings
    for name, row_type in journal.list_row_types().items():
        marked = sequence_marks.read_latest(settings, name, lake.name)
        if not journal.table_exists(settings, name):
            continue
        table = delta.open_table(control_uri(settings, name))
        if journal.find_marked_sequences(table, lake.name, marked):
            delta.reject_damaged_log(table.table_uri)
            yield TableChange(uri=control_uri(settings, name), kind=Kind.FOREIGN, marked_sequence=marked)
            continue
        if table.version() == 0:  # just created: no rows have been written to it
            continue
        change = foreign_commits.find_change(table, None)
        if change is None and journal.list_missing_sequences(table, row_type, lake.name):
            delta.reject_damaged_log(table.table_uri)
            change = foreign_commits.find_removed(table)
        if change is not None:  # restoring the whole table would also undo later commits by Cutover
            yield replace(change, base=None)


def _find_batch_changes(lake: PipelineLake) -> list[TableChange]:
    """Return the changes of the batch path's tables; they are read again, because a run may be finishing meanwhile."""
    changes = find_removed_batch(lake)
    for attempt in range(0 if changes else ATTEMPTS):
        if attempt:
            time.sleep(WAIT_SECONDS)
        runs = batch_runs.read_effective_runs(lake)
        places = {name: lake.batch_uri(name) for name in BATCH_TABLES}
        existing = [name for name, uri in places.items() if delta.exists(uri)]
        candidates = (find_batch_change(delta.open_table(places[name]), name, runs) for name in existing)
        # Rows of a run that was never recorded are not read: readers get the version of the newest recorded run.
        changes = [change for change in candidates if change is not None and change.kind is not Kind.UNFINISHED]
        if all(change.kind is Kind.HARMLESS for change in changes):
            break
    return changes


def find_batch_change(table: DeltaTable, name: BatchTable, runs: Sequence[BatchRun]) -> TableChange | None:
    """Find how a table of the batch path differs from the state after the newest recorded run.

    Args:
        table: The handle.
        name: Name of the table.
        runs: All recorded runs, oldest first, read after the handle was opened.

    Raises:
        LakeError: The table cannot be read, or an entry of its log was changed.
    """
    if name == "batch_index":
        batch_runs.check_sequence(table, runs)
    expected = int(runs[-1].files.get(name, "0"), 16) if runs else 0
    return foreign_commits.find_change(table, expected, skips=_make_file_filter(name, runs))


def find_removed_batch(lake: PipelineLake) -> list[TableChange]:
    """Return the tables of the batch path that a recorded run or comparison saw and that no longer exist."""
    missing = [name for name in BATCH_TABLES if not delta.exists(lake.batch_uri(name))]
    if not missing:
        return []
    runs = batch_runs.read_effective_runs(lake)
    readers = {name: f"run {run.run_id}" for run in runs for name, weight in run.files.items() if int(weight, 16)}
    compared = None if runs else _find_compared_run(lake)
    if compared is not None:
        readers["batch_index"] = f"the comparison with run {compared}"
    places = {name: lake.batch_uri(name) for name in missing if name in readers}
    # Checked again: the first run may have created the table meanwhile.
    return [_make_removal(uri, readers[name]) for name, uri in places.items() if not delta.exists(uri)]


def _find_compared_run(lake: PipelineLake) -> str | None:
    """Find a batch run of the current definition that was compared."""
    fingerprint = result_fingerprint(lake.pipeline)
    deletion = versions.find_deletion(lake.settings, lake.name, fingerprint, versions.BATCH)
    rows = Journal(lake.settings, lake.name, ComparisonRow).read()
    rows = [row for row in rows if row.result_fingerprint == fingerprint]
    tables = (json.loads(row.result).get("tables", {}) for row in rows if deletion is None or deletion.is_before(row))
    return next((str(table["batch_run"]) for table in tables if table.get("batch_run")), None)


def _make_file_filter(name: BatchTable, runs: Sequence[BatchRun]) -> Callable[[Name], bool]:
    """Return a function that selects the files of runs that were never recorded; these are read from `batch` alone."""
    recorded_ids = {run.run_id for run in runs}
    labels = {"index", "ledger"}

    def is_unrecorded(file: Name) -> bool:
        return name != "batch" and file.label in labels and file.stem.split("-")[1] not in recorded_ids

    return is_unrecorded


def _find_stream_changes(lake: PipelineLake) -> Iterator[tuple[TableChange, str]]:
    version = versions.find_current_version(lake)
    if version is None:
        return
    removed = find_removed_stream(lake, version)
    if removed is not None:
        yield removed, ACCEPTED.format(name=lake.name)
    if not delta.exists(version.uri):
        return
    epochs = EpochLog(version.uri)
    newest = epochs.newest()
    change = foreign_commits.find_change(epochs.table, 0 if newest is None else int(newest.files, 16))
    if change is not None:  # every driver records the weight of the files: a writer that does not is no driver
        kind = Kind.FOREIGN if change.kind is Kind.UNFINISHED else change.kind
        yield replace(change, kind=kind), ACCEPTED.format(name=lake.name)


def find_removed_stream(lake: PipelineLake, version: Version) -> TableChange | None:
    """Find whether the epoch log of a version was removed: a reader saw an epoch of it, and it no longer exists.

    Raises:
        LakeError: Another table that records epochs of the version cannot be read.
    """
    if delta.exists(version.uri):
        return None
    witnesses = high_water.list_witnesses(lake, version)
    # Checked again: its first driver may have created it meanwhile.
    return _make_removal(version.uri, witnesses[0].who) if witnesses and not delta.exists(version.uri) else None


def check_not_removed(lake: PipelineLake, version: Version) -> None:
    """Check that the epoch log of a version was not removed.

    Raises:
        LakeError: A reader saw an epoch of it, and it no longer exists.
    """
    removed = find_removed_stream(lake, version)
    if removed is not None:
        raise LakeError(removed.message(ACCEPTED.format(name=lake.name)), runbook=removed.runbook)


def check_epoch_log(lake: PipelineLake, version: Version | None) -> Version:
    """Check that a version has an epoch log that can be read, and return the version.

    Raises:
        LakeError: The epoch log does not exist yet, or was removed.
    """
    if version is not None:
        check_not_removed(lake, version)
    if version is None or not delta.exists(version.uri):
        msg = f"Pipeline `{lake.name}`: expected an epoch log under this definition, found none."
        raise LakeError(msg + f"\nHint: `{lake.pipeline.driver_command} --drain` creates it.")
    return version


def _make_removal(uri: str, seen_by: str) -> TableChange:
    return TableChange(uri=uri, kind=Kind.FOREIGN, seen_by=seen_by)


def _find_dimension_changes(lake: PipelineLake) -> Iterator[tuple[TableChange, str]]:
    """Yield changes of dimensions that Cutover loaded into the lake; tables of other owners are not checked."""
    for lookup in lake.pipeline.lookups.values():
        if lookup.is_named and delta.exists(dimension.uri(lake.settings, lookup)):
            change = foreign_commits.find_change(delta.open_table(dimension.uri(lake.settings, lookup)), None)
            if change is not None:
                yield change, f"`cutover dimension load {lookup.table} FILE` writes it again"


def adopt_rewritten_files(table: DeltaTable, table_change: TableChange, *words: object) -> None:
    """Adopt files that another writer rewrote without changing rows: rename them, in one commit that changes no row.

    Args:
        table: The handle, at the version at which `table_change` was found; it shows the new version afterwards.
        table_change: A harmless change.
        words: Words of the new file names.

    Raises:
        CommitFailedError: Another commit came first.
        OSError: The storage did not accept a file.
    """
    add_actions, replaced = adopt_files(table, table_change, *words)
    commits.replace(table, replaced, add_actions, new_data=False, commit=CommitProperties(max_commit_retries=0))
    log.warning(
        "files_adopted",
        table=table_change.uri,
        files=len(add_actions),
        commits=[str(commit) for commit in table_change.commits],
    )


def adopt_files(
    table: DeltaTable, table_change: TableChange, *words: object
) -> tuple[list[AddAction], list[dict[str, Any]]]:
    """Copy the files of other writers under names of Cutover; return the actions that list the copies and the files."""
    system, root = storage.resolve_uri(table.table_uri)
    foreign = [action for action in delta.actions(table) if checksums.parse_name(str(action["path"])) is None]
    add_actions = []
    for number, action in enumerate(foreign):
        stem = checksums.new_stem("adopted", *words, checksums.weight_word(0 if number else table_change.missing))
        path = str(action["path"])
        copy = f"{path.rpartition('/')[0]}/{stem}.parquet".lstrip("/")
        system.copy_file(f"{root}/{unquote(path)}", f"{root}/{copy}")
        values = {k.removeprefix("partition."): v for k, v in action.items() if k.startswith("partition.")}
        add_actions.append(data_files.adopt_data_file(table.table_uri, copy, stem, partition=values, new_data=False))
    return add_actions, foreign
