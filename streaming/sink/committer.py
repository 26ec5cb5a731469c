"""Commit of an epoch: partial aggregates, ledger and record together, rejected if another driver was faster.

The fence checks that a handle shows the history that its next commit continues. Every record that a run commits stores
the id of the run, so that the author of an epoch is known.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control.versions import Version
from cutover.lake.epochs.delivery import follows
from cutover.lake.epochs.epoch_log import EpochRecord, open_log
from cutover.lake.integrity import foreign_commits, high_water, table_weights
from cutover.lake.integrity.high_water import Witness
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import RowKind
from cutover.pipeline_lake import PipelineLake

_PID = re.compile(r"^pid-(\d+)-")

# Checkpoint and clean-up cost more than the commit itself; both are done in the compaction's slot.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
ATTEMPTS = 3
"""Times that an epoch is written before its driver ends, where others rewrite files meanwhile."""

Actions = list[AddAction | RemoveAction]
Write = Callable[[], EpochRecord]
KIND_COLUMN = "_kind"


def read_newest_epoch_record(table: DeltaTable) -> EpochRecord | None:
    """Return the newest epoch's record, from the one file that holds it; None before the first epoch.

    Raises:
        LakeError: The file is not there or does not parse.
    """
    files = [a for a in delta.actions(table) if a["partition._kind"] == RowKind.EPOCH]
    if not files:
        return None
    file = max(files, key=lambda a: int(str(a["max._epoch"])))
    record = read_record(table, str(file["path"]))
    if record is None:
        msg = f"Table `{table.table_uri}`: file `{file['path']}` should hold an epoch's record and holds none."
        raise LakeError(msg, runbook="EpochHistoryBroken")
    return record


def read_record(table: DeltaTable, path: str) -> EpochRecord | None:
    """Read one data file's rows for the newest epoch record; None of a file without rows.

    Raises:
        LakeError: The file is not there or does not parse.
    """
    try:
        rows = data_files.read_data_file(table, path, ("_epoch", "_record")).to_pylist()
    except (OSError, pa.ArrowException) as error:
        cause = str(error).splitlines()[0]
        msg = f"Table `{table.table_uri}`: file `{path}` is listed and cannot be read: {cause}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    newest_row = max(rows, key=lambda row: int(row["_epoch"]), default=None)
    return None if newest_row is None else EpochRecord.from_json(newest_row["_record"])


def open_checked(lake: PipelineLake, version: Version) -> tuple[DeltaTable, EpochRecord | None] | tuple[None, None]:
    """Return a version's epoch log and its newest record, checked; nothing where none was ever made.

    A note of the driver that cannot be read is a witness less: the next epoch writes it again. Where the table is not
    there either, nothing else may have seen it, and the version is not begun once more.

    Raises:
        LakeError: It is not there though a reader saw epochs of it, cannot be read, or was changed by hand.
    """
    # The high-water note is read before the table is opened: another driver may commit in between.
    try:
        witnesses = high_water.list_witnesses(lake, version)
    except LakeError as error:
        if not delta.exists(version.uri):
            raise
        log.warning("epoch_note_unreadable", pipeline=version.pipeline, error=str(error).splitlines()[0])
        witnesses = high_water.list_recorded_witnesses(lake, version)
    if not (witnesses or delta.exists(version.uri)):
        return None, None
    table_weights.check_not_removed(lake, version)
    table = open_log(version.uri)
    return table, check_fencing(table, version, witnesses)


def check_fencing(table: DeltaTable, version: Version, witnesses: Sequence[Witness] = ()) -> EpochRecord | None:
    """Return the newest epoch's record if nothing contradicts what a handle shows.

    Args:
        table: The handle.
        version: Whose epoch log.
        witnesses: Who saw which epoch, gathered before the handle was opened.

    Raises:
        LakeError: Something other than a driver changed the table.
    """
    record = read_newest_epoch_record(table)
    inconsistencies = high_water.find_inconsistencies(version, table, [] if record is None else [record], witnesses)
    if inconsistencies:
        hint = "\nHint: a person or a tool restored or changed the table; nothing is written until it is repaired, or "
        hint += f"`cutover accept-loss {version.pipeline}` leaves it as it is and reads the log into a new version."
        raise LakeError(inconsistencies[0] + hint, runbook="EpochHistoryBroken")
    foreign_commits.reject_foreign_change(
        table,
        0 if record is None else int(record.files, 16),
        otherwise=f"`cutover accept-loss {version.pipeline}` leaves it as it is and reads the log into a new version",
    )
    return record


def new_run_id() -> str:
    """Return the id of this process's run; it contains the pid and is never used twice."""
    return f"pid-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def pid_of(run_id: str) -> str:
    """`unknown` where the run id names none."""
    match = _PID.match(run_id)
    return match[1] if match else "unknown"


class Committer:
    """Keeps the one handle through which a driver writes.

    delta-rs rejects a commit from a handle that missed another writer's commit with the same application id. A fresh
    handle knows nothing of that, so after any load it must show the history that this driver continues.
    """

    def __init__(
        self,
        version: Version,
        run_id: str,
        table: DeltaTable,
        *,
        reload_every: int,
        accepted: Sequence[Loss] = (),
    ) -> None:
        self.version, self.run_id = version, run_id
        self.accepted = tuple(accepted)  # recorded losses: the one excuse for an epoch that starts behind a gap
        self.table = table
        self.newest = check_fencing(table, version)
        self.written_bytes = 0  # of the data files that this driver has added, folded ones too
        self.conflicts = 0  # rejected commits that no record has counted yet
        self._reload_every, self._since_load = reload_every, 0
        self._adopt()

    def commit(self, rows: pa.Table, record: EpochRecord, add_actions: Sequence[AddAction] = ()) -> None:
        """Commit an epoch's rows and its record.

        Args:
            rows: Of the epoch. Its record is written with what all listed files weigh after it, whatever stands here.
            record: The epoch's.
            add_actions: Further rows of it that already lie in files of the table's folder.

        Raises:
            LakeError: Another driver committed this epoch, or the table cannot be written. Nothing was written.
        """
        self._attempt(record, lambda: self._write(rows, record, add_actions))
        self._note()
        self._since_load += 1
        if self._since_load >= self._reload_every:
            self.reload()

    def add(self, rows: pa.Table, epoch: int, add_actions: Sequence[AddAction] = ()) -> None:
        """Commit an epoch's rows without its record, and without the fence: they are kept whichever driver writes them.

        Raises:
            LakeError: The table cannot be written.
        """
        properties = CommitProperties(custom_metadata={"userMetadata": f"data of epoch {epoch}"})
        stem = checksums.new_stem(checksums.APART, epoch)
        try:
            self._transact([*add_actions, *self._files(rows, dict.fromkeys(_kinds(rows), stem))], properties)
        except (DeltaError, OSError) as error:
            place, cause = f"Epoch log of {self.version.pipeline}: epoch {epoch}", str(error).splitlines()[0]
            msg = f"{place}: expected to write its data, got: {cause}."
            raise LakeError(msg, runbook="TableUnreadable") from error
        self._reject_overtaken(epoch)

    def _write(self, rows: pa.Table, record: EpochRecord, add_actions: Sequence[AddAction]) -> EpochRecord:
        """Write the files of an epoch and list them; return its record, which says what all listed files weigh then."""
        data = rows.filter(pc.not_equal(rows[KIND_COLUMN], pa.scalar(RowKind.EPOCH.value)))
        stems = {kind: checksums.new_stem("epoch", record.epoch) for kind in (*_kinds(data), RowKind.EPOCH)}
        previous_total = 0 if self.newest is None else int(self.newest.files, 16)
        table_weights = sum(checksums.compute_weight(f"{KIND_COLUMN}={kind}", stem) for kind, stem in stems.items())
        new_total = previous_total + checksums.total(action.path for action in add_actions) + table_weights
        added = [*add_actions, *self._files(data, stems)]
        cost = record.cost and replace(record.cost, written_bytes=self.written_bytes + count_bytes(added))
        sealed = replace(record, files=checksums.encode_weight(new_total), cost=cost)
        record_row = {KIND_COLUMN: RowKind.EPOCH, "_epoch": sealed.epoch, "_record": sealed.to_json()}
        record_files = self._files(pa.Table.from_pylist([record_row], schema=rows.schema), stems)
        version_before = int(self.table.version())
        self._transact([*added, *record_files], self._properties(sealed.epoch, sealed.to_json()))
        if int(self.table.version()) != version_before + 1:
            self._since_load = self._reload_every  # another writer committed meanwhile: reload to check
        return sealed

    def _files(self, rows: pa.Table, stems: Mapping[str, str]) -> list[AddAction]:
        return [
            data_files.write_data_file(
                self.version.uri, of_kind, stems[str(partition[KIND_COLUMN])], partition=partition
            )
            for partition, of_kind in data_files.split(rows, KIND_COLUMN)
        ]

    def replace_files(self, files: Actions, *, reason: str) -> bool:
        """Replace files by others with the same meaning, under the number of the newest epoch.

        Returns:
            Whether that was done; it can wait where storage fails or files were rewritten by hand.

        Raises:
            LakeError: Another driver committed meanwhile. Nothing was written.
        """
        epoch = -1 if self.newest is None else self.newest.epoch
        try:
            self._reject_unlisted(files)
            # At exactly the checked version: delta-rs would accept a fold together with another rewrite of its files.
            self._transact(files, self._properties(epoch, reason, retries=0))
        except (DeltaError, OSError) as error:
            log.warning("files_not_replaced", pipeline=self.version.pipeline, why=reason, error=str(error))
            return False
        finally:
            self.reload()
        return True

    def reload(self) -> None:
        """Take a fresh handle, if it shows the history that this driver continues.

        Raises:
            LakeError: It shows another driver's.
        """
        table = self._load()
        newest_record = check_fencing(table, self.version)
        if newest_record != self.newest:
            raise self._make_fence_error(-1 if newest_record is None else newest_record.epoch, newest_record, table)
        self.table, self._since_load = table, 0
        self._adopt()

    def _adopt(self) -> None:
        """Take over files that others rewrote without harm (OPTIMIZE), while the table's log can still prove it."""
        if all(checksums.parse_name(path) for path in delta.paths(self.table)):
            return
        number, weight = (-1, 0) if self.newest is None else (self.newest.epoch, int(self.newest.files, 16))
        foreign_change = foreign_commits.find_change(self.table, weight)
        if foreign_change is None or foreign_change.kind is not foreign_commits.Kind.HARMLESS:
            return
        try:
            added, removed = table_weights.adopt_files(self.table, foreign_change, 0, number)
            actions: Actions = [*added, *(data_files.remove(action) for action in removed)]
            self._transact(actions, self._properties(number, "adopted", retries=0))
        except (DeltaError, OSError) as error:
            log.warning("files_not_adopted", pipeline=self.version.pipeline, error=str(error))
            return
        self._reject_overtaken(number)

    def _reject_unlisted(self, files: Actions) -> None:
        """Check that the files to remove are still listed: delta-rs does not, and their rows would count twice."""
        self.reload()
        removed_paths = sorted({f.path for f in files if isinstance(f, RemoveAction)} - set(delta.paths(self.table)))
        if removed_paths:
            msg = f"rewritten by another writer: {', '.join(removed_paths)}"
            raise CommitFailedError(msg)

    def _attempt(self, record: EpochRecord, write: Write) -> None:
        if not follows(self.newest, record, self.accepted):
            msg = f"Stream of {self.version.pipeline}: epoch {record.epoch} does not follow the newest committed one."
            raise LakeError(msg, runbook="EpochHistoryBroken")
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                self.newest = write()
                break
            except (DeltaError, OSError) as error:
                if self._is_ours(record, error):
                    break
                self.conflicts += 1
                if not attempts_left:
                    raise self._make_refusal_error(record, error) from error
        self.conflicts -= record.conflicts
        self._reject_overtaken(record.epoch)

    def _note(self) -> None:
        """Leave a note of the newest epoch, and of a table version that holds it."""
        if self.newest is not None:
            high_water.write_note(self.version, self.newest, int(self.table.version()))

    def _is_ours(self, record: EpochRecord, error: Exception) -> bool:
        """Resolve a failed commit: True if this driver committed the epoch, False if it must be written again.

        Raises:
            LakeError: It is another driver's, or the table cannot be written.
        """
        table = self._load()
        newest_record = check_fencing(table, self.version)
        if newest_record is not None and newest_record.epoch == record.epoch and newest_record.run_id == record.run_id:
            log.warning("epoch_found_committed", pipeline=self.version.pipeline, epoch=record.epoch)
            self.table, self.newest = table, newest_record
            return True
        if newest_record != self.newest:
            raise self._make_fence_error(record.epoch, newest_record, table) from error
        if not isinstance(error, CommitFailedError):
            raise self._make_unwritable_error(record, error) from error
        # Refused, and yet no epoch is new: another writer rewrote files by hand. That is no fence.
        log.warning("commit_conflict", pipeline=self.version.pipeline, epoch=record.epoch, error=str(error))
        self.table = table
        return False

    def _transact(self, files: Actions, properties: CommitProperties) -> None:
        self.written_bytes += count_bytes(files)
        commits.transact(self.table, files, commit=properties, hooks=NO_HOOKS)

    def _reject_overtaken(self, epoch: int) -> None:
        """Reject a handle that shows another driver's epoch after it was updated.

        Raises:
            LakeError: It does: a commit through it would no longer be rejected.
        """
        newest = -1 if self.newest is None else self.newest.epoch
        transaction = delta.transaction(self.table, self.version.app_id)
        if (-1 if transaction is None else transaction) != newest:
            raise self._make_fence_error(epoch, None, self.table)

    def _properties(self, epoch: int, metadata: str, *, retries: int | None = None) -> CommitProperties:
        return CommitProperties(
            custom_metadata={"userMetadata": metadata},
            max_commit_retries=retries,
            app_transactions=[Transaction(self.version.app_id, epoch)],
        )

    def _load(self) -> DeltaTable:
        return open_log(self.version.uri)

    def _make_fence_error(self, epoch: int, epoch_record: EpochRecord | None, table: DeltaTable) -> LakeError:
        if self.newest is not None and (epoch_record is None or epoch_record.epoch < self.newest.epoch):
            return self._make_rollback_error(epoch_record)
        other = None
        with contextlib.suppress(LakeError):
            other = read_newest_epoch_record(table)
        driver = "unknown" if other is None else pid_of(other.run_id)
        number = epoch if other is None else other.epoch
        msg = (
            f"Stream of {self.version.pipeline}: epoch {number} was committed by another driver (pid {driver}); "
            f"this one ({self.run_id}) ends and has written nothing since.\n"
            "Hint: keep one driver for each pipeline; find the other one with `cutover status`."
        )
        return LakeError(msg, runbook="StreamFenced")

    def _make_refusal_error(self, record: EpochRecord, error: Exception) -> LakeError:
        msg = (
            f"Epoch log of {self.version.pipeline}: epoch {record.epoch} was rejected {ATTEMPTS} times, since other "
            f"writers rewrote files meanwhile: {str(error).splitlines()[0]}.\n"
            "Hint: nothing was committed; find out who else writes this table, and start again."
        )
        return LakeError(msg, runbook="CommitConflictRateHigh")

    def _make_rollback_error(self, epoch_record: EpochRecord | None) -> LakeError:
        actual = "none" if epoch_record is None else str(epoch_record.epoch)
        msg = (
            f"Epoch log of {self.version.pipeline}: this driver committed epoch {self.newest and self.newest.epoch}, "
            f"newest epoch row is {actual} ({self.version.uri}).\n"
            "Hint: a person or a tool took entries of the table's log away; nothing is written until they are back."
        )
        return LakeError(msg, runbook="EpochHistoryBroken")

    def _make_unwritable_error(self, record: EpochRecord, error: Exception) -> LakeError:
        msg = (
            f"Epoch log of {self.version.pipeline}: epoch {record.epoch} cannot be written to {self.version.uri}: "
            f"{str(error).splitlines()[0]}.\nHint: nothing was committed; repair the storage and start again."
        )
        return LakeError(msg, runbook="StreamNotRunning")


def _kinds(rows: pa.Table) -> list[str]:
    return [str(kind) for kind in pc.unique(rows[KIND_COLUMN]).to_pylist()]


def count_bytes(files: Sequence[AddAction | RemoveAction]) -> int:
    """Return the size of the files that actions add."""
    return sum(int(action.size) for action in files if isinstance(action, AddAction))
