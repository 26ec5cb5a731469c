"""Selection of the files to fold next: young ones often, old ones seldom, never across a pinned epoch. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from cutover.lake.epochs.row_kinds import RowKind
from cutover.streaming.sink.files import File

KEEP = 20  # newest epochs that are left alone: a reader may be about to pin one of them
FAN_IN = 10  # folded files of one tier that make a file of the next
MOST = 512 * 2**20  # bytes that one fold reads at most; a file of half as many stays as it is

FOLDED = tuple(kind for kind in RowKind if kind is not RowKind.ATTEMPT)
"""Kinds of rows whose files are folded: an attempt is read only until its epoch is committed."""

MERGED = frozenset({RowKind.PARTIAL, RowKind.HELD})
"""Kinds of rows that a fold merges across epochs; all others keep their rows, and with them their epochs."""


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
