"""Compaction of old epochs' files, computed in a background thread and committed by the driver between two epochs.

Accepted partials of epochs (a, b] become one row for each window and key with `_epoch = b`. Rows of the ledger and
records of epochs are copied as they are; ids that will not be needed again are left out. Young files are folded often,
old ones seldom, and never across a pinned epoch; the selection is pure. The commit carries the stream's application id:
a stale driver's fold is rejected.
"""

import threading
from collections.abc import Iterable, Sequence
from itertools import pairwise

from deltalake import DeltaTable

from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control import pins
from cutover.lake.epochs.epoch_log import SPAN
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import RowKind
from cutover.streaming.compaction import merge
from cutover.streaming.compaction.merge import MergedGroup, merge_group
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Actions, Committer
from cutover.streaming.sink.files import File

KEEP = 20  # newest epochs that are left alone: a reader may be about to pin one of them
FAN_IN = 10  # folded files of one tier that make a file of the next
MOST = 512 * 2**20  # bytes that one fold reads at most; a file of half as many stays as it is

FOLDED = tuple(kind for kind in RowKind if kind is not RowKind.ATTEMPT)
"""Kinds of rows whose files are folded: an attempt is read only until its epoch is committed."""

MERGED = frozenset({RowKind.PARTIAL, RowKind.HELD})
"""Kinds of rows that a fold merges across epochs; all others keep their rows, and with them their epochs."""

LOOKS = 10  # how often the files are counted while a tier fills
RETENTION_HOURS = 2  # files younger than this may belong to a commit that is under way, or to a reader
SWEEP_SECONDS = 600.0


def due(
    files: Sequence[File], *, newest: int, pins: Iterable[int], fan_in: int, keep: int = KEEP, max_bytes: int = MOST
) -> list[list[File]]:
    """Return groups of files, each to become one file: neighbours, two or more, `max_bytes` bytes together.

    Args:
        files: All files that the table lists.
        newest: Newest committed epoch.
        pins: Epochs that a reader holds: no group of partials may hold epochs on both sides of one.
        fan_in: Epochs that make the first tier.
        keep: Newest epochs that stay as they are.
        max_bytes: Bytes of a group, so that a fold takes bounded time and disk however long the stream has run.
    """
    groups = []
    for kind in FOLDED:
        old = sorted(
            (f for f in files if f.kind == kind and f.last_epoch <= newest - keep),
            key=lambda f: (f.first_epoch, f.last_epoch),
        )
        pinned = _segments(old, sorted(pins) if kind in MERGED else [])
        runs = [
            run
            for segment in pinned
            for part in _split_at_large_files(segment, max_bytes)
            for run in _find_full_tier(part, fan_in)
        ]
        groups += [group for run in runs for group in _pack_groups(run, max_bytes)]
    return groups


def _segments(files: Sequence[File], pins: Sequence[int]) -> list[list[File]]:
    """Split files at pinned epochs; a file that holds epochs on both sides of one stands alone."""
    bounds = [-1, *pins, max((f.last_epoch for f in files), default=0)]
    return [[f for f in files if low < f.first_epoch and f.last_epoch <= high] for low, high in pairwise(bounds)]


def _split_at_large_files(segment: Sequence[File], limit: int) -> list[list[File]]:
    """Split files at those that are large enough to be left alone."""
    parts: list[list[File]] = [[]]
    for file in segment:
        if 2 * file.size >= limit:
            parts.append([])
        else:
            parts[-1].append(file)
    return parts


def _pack_groups(run: Sequence[File], limit: int) -> list[list[File]]:
    """Cut a run into groups of `limit` bytes; a file that is left alone in one waits for neighbours."""
    groups: list[list[File]] = [[]]
    for file in run:
        if groups[-1] and sum(f.size for f in groups[-1]) + file.size > limit:
            groups.append([])
        groups[-1].append(file)
    return [group for group in groups if len(group) > 1]


def _find_full_tier(segment: Sequence[File], fan_in: int) -> list[list[File]]:
    """Return the runs of neighbours that fill a tier, the highest tier that is full."""
    top = max((_tier(f, fan_in) for f in segment), default=0)
    for tier in range(top, -1, -1):
        run = [f for f in segment if _tier(f, fan_in) <= tier]
        full = [f for f in run if _tier(f, fan_in) == tier]
        enough = sum(f.span for f in full) >= fan_in if tier == 0 else len(full) >= FAN_IN
        if enough and len(run) > 1:
            return [run]
    return []


def _tier(file: File, fan_in: int) -> int:
    tier, size = 0, fan_in
    while file.span >= size:
        tier, size = tier + 1, size * FAN_IN
    return tier


class Compactor:
    """Watches the number of files that the stream has written. `step` is called under the stream's lock."""

    def __init__(self, context: DriverContext, committer: Committer) -> None:
        self._rim, self._committer = context, committer
        self._every = context.lake.settings.stream.fold_every
        self._looked_at = -1  # newest epoch when files were last counted
        self._swept_at: float | None = None  # by the monotonic clock
        self._work: threading.Thread | None = None
        self._done: list[MergedGroup] = []
        self._bound: merge.ExpiryBound | None = None  # of the fold under way, where records have ids
        self.folded_to = find_folded_epoch(committer.table)

    def step(self) -> None:
        """Commit a fold that is ready, or begin one that is due.

        Raises:
            LakeError: Another driver committed meanwhile.
        """
        newest = self._committer.newest
        if newest is None or (self._work is not None and self._work.is_alive()):
            return
        if self._done:
            self._commit()
        elif newest.epoch - self._looked_at >= max(1, self._every // LOOKS):
            self._looked_at = newest.epoch
            groups = self._due(newest.epoch)
            if groups:
                self._begin(groups)

    def _due(self, newest: int) -> list[list[File]]:
        """Return the groups to fold; pins can only remove groups and are slow to read, so they are read last."""
        files = list_files(self._committer.table)
        if not due(files, newest=newest, pins=(), fan_in=self._every):
            return []
        pinned_epochs = self._known_pins()
        return [] if pinned_epochs is None else due(files, newest=newest, pins=pinned_epochs, fan_in=self._every)

    def _begin(self, groups: list[list[File]]) -> None:
        self._work = threading.Thread(target=self._fold, args=(groups,), name="compaction", daemon=True)
        self._work.start()

    def _fold(self, groups: list[list[File]]) -> None:
        """Write the new files. A failure is logged and retried later: the stream does not depend on it."""
        last_epoch = max(file.last_epoch for group in groups for file in group)
        try:
            self._rim.probe("compact.read", last_epoch)
            lake, uri = self._rim.lake, self._committer.version.uri
            groups, minute = self._with_forgotten(groups, last_epoch)
            self._done = [merge_group(lake, uri, group, forgotten=minute) for group in groups]
            self._rim.probe("compact.written", last_epoch)
        except Exception as error:  # noqa: BLE001 -- any failure of upkeep is only reported
            self._done = []
            log.warning("compaction_failed", pipeline=self._rim.pipeline.name, error=str(error))

    def _with_forgotten(self, groups: list[list[File]], last_epoch: int) -> tuple[list[list[File]], int | None]:
        """Add the files of expired ids; return the minute from which ids are kept."""
        if self._rim.pipeline.source.record_id is None:
            return groups, None
        table = delta.open_table(self._committer.version.uri)
        self._bound = merge.find_expiry_bound(self._rim.pipeline, table, last_epoch, self._list_pins())
        paths = {file.path for group in groups for file in group}
        expired = [
            file for file in merge.find_expired_files(table, list_files(table), self._bound) if file.path not in paths
        ]
        return [*groups, *([expired] if expired else [])], self._bound.minute

    def _is_across(self, file: File, pinned_epochs: tuple[int, ...]) -> bool:
        """Return whether an epoch was pinned meanwhile that a fold would take something from."""
        if file.kind == RowKind.IDS:
            return self._bound is not None and any(epoch < self._bound.epoch for epoch in pinned_epochs)
        return file.kind in MERGED and any(file.first_epoch <= epoch < file.last_epoch for epoch in pinned_epochs)

    def _commit(self) -> None:
        merged, self._done = self._done, []
        pinned_epochs = self._known_pins()
        valid = [] if pinned_epochs is None else [d for d in merged if not self._is_across(d.file, pinned_epochs)]
        actions: Actions = []
        for d in valid:
            actions += [d.action, *(files.make_removal(file) for file in d.group)]
        if not actions:
            return
        if not self._committer.replace_files(actions, reason="fold"):
            return
        self.folded_to = find_folded_epoch(self._committer.table)
        files_before, files_after = sum(len(d.group) for d in valid), len(valid)
        self._rim.probe("compact.committed", max(d.file.last_epoch for d in valid))
        log.info(
            "folded",
            pipeline=self._rim.pipeline.name,
            to=self.folded_to,
            files_before=files_before,
            files_after=files_after,
        )
        self._work = threading.Thread(target=self._tidy, name="upkeep", daemon=True)
        self._work.start()

    def _tidy(self) -> None:
        """Checkpoint the log, drop what is old in log and folder, through a handle that never commits an epoch."""
        now = self._rim.clock.monotonic()
        sweep = self._swept_at is None or now - self._swept_at >= SWEEP_SECONDS
        try:
            tidy(delta.open_table(self._committer.version.uri), sweep=sweep)
            self._swept_at = now if sweep else self._swept_at
        except Exception as error:  # noqa: BLE001 -- any failure of upkeep is only reported
            log.warning("upkeep_failed", pipeline=self._rim.pipeline.name, error=str(error))

    def _known_pins(self) -> tuple[int, ...] | None:
        """Return the pinned epochs; None if they cannot be read: nothing is folded then, and the stream continues."""
        try:
            return self._list_pins()
        except LakeError as error:
            log.warning("pins_unknown", pipeline=self._rim.pipeline.name, error=str(error))
            return None

    def _list_pins(self) -> tuple[int, ...]:
        return pins.list_pinned_epochs(self._rim.lake.settings, self._committer.version, now=self._rim.clock.now())


def list_files(table: DeltaTable) -> list[File]:
    """Return the files that a handle lists; a folded file's name holds the epochs it was folded from."""
    return [_file(action) for action in delta.actions(table)]


def find_folded_epoch(table: DeltaTable) -> int | None:
    """Return the newest epoch whose accepted partials are folded; None if none is."""
    merged = [
        f.last_epoch
        for f in list_files(table)
        if f.kind == RowKind.PARTIAL and (at := SPAN.search(f.path)) and at[1] == "fold"
    ]
    return max(merged, default=None)


def tidy(table: DeltaTable, *, sweep: bool) -> None:
    """Keep the log short and, with `sweep`, the folder clean: it lists every file that is not yet gone."""
    table.create_checkpoint()
    table.cleanup_metadata()
    if sweep:
        table.vacuum(retention_hours=RETENTION_HOURS, enforce_retention_duration=False, dry_run=False, full=True)


def _file(action: dict[str, object]) -> File:
    path = str(action["path"])
    match = SPAN.search(path)
    first_epoch, last_epoch = (match[2], match[3]) if match else (action["min._epoch"], action["max._epoch"])
    return File(
        path=path,
        kind=str(action["partition._kind"]),
        first_epoch=int(str(first_epoch)),
        last_epoch=int(str(last_epoch)),
        size=int(str(action["size_bytes"])),
    )
