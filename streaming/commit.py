"""The one commit of an epoch: partial aggregates, ledger and record together, refused if another driver was faster."""

import contextlib
from collections.abc import Callable, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import losses, tables, witnesses
from cutover.lake.epochs import EpochRecord, open_log
from cutover.lake.losses import Loss
from cutover.lake.versions import Version
from streaming import history
from streaming.identity import pid_of

# Checkpoint and clean-up cost more than the commit itself; both are done in the compaction's slot.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
ATTEMPTS = 3
"""Times that an epoch is written before its driver ends, where others rewrite files meanwhile."""

Actions = list[AddAction | RemoveAction]
Write = Callable[[], None]


class Committer:
    """Keeps the one handle through which a driver writes.

    delta-rs refuses a commit from a handle that missed another writer's commit with the same application id. A fresh
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
        self.newest = history.check(table, version)
        self.conflicts = 0  # refused commits that no record tells of yet
        self._reload_every, self._since_load = reload_every, 0

    def commit(self, rows: pa.Table, record: EpochRecord) -> None:
        """Commit an epoch's rows and its record.

        Raises:
            LakeError: Another driver committed this epoch, or the table cannot be written. Nothing was written.
        """
        self._attempt(
            record,
            lambda: write_deltalake(
                self.table,
                rows,
                mode="append",
                partition_by=["_kind"],
                commit_properties=self._properties(record.epoch, record.to_json()),
                post_commithook_properties=NO_HOOKS,
            ),
        )
        self._note()
        self._since_load += 1
        if self._since_load >= self._reload_every:
            self.reload()

    def commit_files(self, files: Actions, record: EpochRecord) -> None:
        """Commit an epoch whose rows already lie in files of the table's folder.

        Raises:
            LakeError: As `commit`.
        """
        self._attempt(record, lambda: self._transact(files, self._properties(record.epoch, record.to_json())))
        self.reload()  # such a commit leaves the handle at the version before it
        self._note()

    def add(self, data: pa.Table | Actions, epoch: int) -> None:
        """Commit an epoch's rows without its record, and without the fence: whoever writes them, they stand.

        Raises:
            LakeError: The table cannot be written.
        """
        properties = CommitProperties(custom_metadata={"userMetadata": f"data of epoch {epoch}"})
        try:
            if isinstance(data, list):
                self._transact(data, properties)
                self.reload()
                return
            write_deltalake(
                self.table,
                data,
                mode="append",
                partition_by=["_kind"],
                commit_properties=properties,
                post_commithook_properties=NO_HOOKS,
            )
        except (DeltaError, OSError) as error:
            place, cause = f"Epoch log of {self.version.pipeline}: epoch {epoch}", str(error).splitlines()[0]
            msg = f"{place}: expected to write its data, got: {cause}."
            raise LakeError(msg, runbook="TableUnreadable") from error

    def replace_files(self, files: Actions, *, why: str) -> bool:
        """Replace files by others with the same meaning, under the number of the newest epoch.

        Returns:
            Whether that was done; it can wait where storage fails or files were rewritten by hand.

        Raises:
            LakeError: Another driver committed meanwhile. Nothing was written.
        """
        epoch = -1 if self.newest is None else self.newest.epoch
        try:
            self._refuse_unlisted(files)
            # At the very version looked at: delta-rs would let a fold through beside another rewrite of its files.
            self._transact(files, self._properties(epoch, why, retries=0))
        except (DeltaError, OSError) as error:
            log.warning("files_not_replaced", pipeline=self.version.pipeline, why=why, error=str(error))
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
        shown = history.check(table, self.version)
        if shown != self.newest:
            raise self._fenced(-1 if shown is None else shown.epoch, shown, table)
        self.table, self._since_load = table, 0

    def _refuse_unlisted(self, files: Actions) -> None:
        """Refuse to take a file away that is no longer listed: delta-rs would not, and its rows would stand twice."""
        self.reload()
        listed = {str(action["path"]) for action in tables.actions(self.table)}
        gone = sorted({file.path for file in files if isinstance(file, RemoveAction)} - listed)
        if gone:
            msg = f"rewritten by somebody else: {', '.join(gone)}"
            raise CommitFailedError(msg)

    def _attempt(self, record: EpochRecord, write: Write) -> None:
        skips = losses.skips(self.accepted, record.epoch, record.topic_id)
        if not history.continues(self.newest, record.epoch, record.start, skips):
            msg = f"Stream of {self.version.pipeline}: epoch {record.epoch} does not follow the newest committed one."
            raise LakeError(msg, runbook="EpochHistoryBroken")
        for left in reversed(range(ATTEMPTS)):
            try:
                write()
            except (DeltaError, OSError) as error:
                if self._is_ours(record, error):
                    break
                self.conflicts += 1
                if not left:
                    raise self._refused(record, error) from error
            else:
                break
        self.newest = record
        self.conflicts -= record.conflicts

    def _note(self) -> None:
        """Leave a note of the newest epoch, and of a table version that holds it."""
        if self.newest is not None:
            witnesses.keep(self.version, self.newest, int(self.table.version()))

    def _is_ours(self, record: EpochRecord, error: Exception) -> bool:
        """Find out whose an epoch is whose commit failed: ours after all, or nobody's yet and to be written again.

        Raises:
            LakeError: It is another driver's, or the table cannot be written.
        """
        table = self._load()
        shown = history.check(table, self.version)
        if shown is not None and shown.epoch == record.epoch and shown.run_id == record.run_id:
            log.warning("epoch_found_committed", pipeline=self.version.pipeline, epoch=record.epoch)
            self.table = table
            return True
        if shown != self.newest:
            raise self._fenced(record.epoch, shown, table) from error
        if not isinstance(error, CommitFailedError):
            raise self._unwritable(record, error) from error
        # Refused, and yet no epoch is new: somebody rewrote files by hand. That is no fence.
        log.warning("commit_conflict", pipeline=self.version.pipeline, epoch=record.epoch, error=str(error))
        self.table = table
        return False

    def _transact(self, files: Actions, properties: CommitProperties) -> None:
        self.table.create_write_transaction(
            files,
            mode="append",
            schema=self.table.schema(),
            partition_by=["_kind"],
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )

    def _properties(self, epoch: int, metadata: str, *, retries: int | None = None) -> CommitProperties:
        return CommitProperties(
            custom_metadata={"userMetadata": metadata},
            max_commit_retries=retries,
            app_transactions=[Transaction(self.version.app_id, epoch)],
        )

    def _load(self) -> DeltaTable:
        return open_log(self.version.uri)

    def _fenced(self, epoch: int, shown: EpochRecord | None, table: DeltaTable) -> LakeError:
        if self.newest is not None and (shown is None or shown.epoch < self.newest.epoch):
            return self._went_back(shown)
        other = None
        with contextlib.suppress(LakeError):
            other = history.newest(table)
        who = "unknown" if other is None else pid_of(other.run_id)
        number = epoch if other is None else other.epoch
        msg = (
            f"Stream of {self.version.pipeline}: epoch {number} was committed by another driver (pid {who}); "
            f"this one ({self.run_id}) ends and has written nothing since.\n"
            "Hint: keep one driver for each pipeline; look for the other one with `cutover status`."
        )
        return LakeError(msg, runbook="StreamFenced")

    def _refused(self, record: EpochRecord, error: Exception) -> LakeError:
        msg = (
            f"Epoch log of {self.version.pipeline}: epoch {record.epoch} was refused {ATTEMPTS} times, since other "
            f"writers rewrote files meanwhile: {str(error).splitlines()[0]}.\n"
            "Hint: nothing was committed; find out who else writes this table, and start again."
        )
        return LakeError(msg, runbook="CommitConflictRateHigh")

    def _went_back(self, shown: EpochRecord | None) -> LakeError:
        found = "none" if shown is None else str(shown.epoch)
        msg = (
            f"Epoch log of {self.version.pipeline}: this driver committed epoch {self.newest and self.newest.epoch}, "
            f"newest epoch row is {found} ({self.version.uri}).\n"
            "Hint: somebody took entries of the table's log away; nothing is written until they are back."
        )
        return LakeError(msg, runbook="EpochHistoryBroken")

    def _unwritable(self, record: EpochRecord, error: Exception) -> LakeError:
        msg = (
            f"Epoch log of {self.version.pipeline}: epoch {record.epoch} cannot be written to {self.version.uri}: "
            f"{str(error).splitlines()[0]}.\nHint: nothing was committed; mend the storage and start again."
        )
        return LakeError(msg, runbook="StreamNotRunning")
