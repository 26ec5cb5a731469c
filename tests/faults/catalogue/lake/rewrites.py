"""Rewrites of files while the stream runs: by its own folds, killed in the middle, and by other writers."""

import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

from deltalake import DeltaTable

from cutover.clock import SystemClock
from cutover.lake.control import pins
from cutover.lake.tables import delta
from cutover.streaming.compaction import compactor
from cutover.streaming.compaction.merge import merge_group
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Committer
from tests.faults.fault import Fault
from tests.faults.running.definition import CAP
from tests.faults.running.rig import Rig
from tests.integration.streaming import rig as small

SMALL_CAP, RECORDS, EVERY = 6, 220, 6  # 36 epochs: enough for a fold, which leaves the newest 20 alone
PINNED = 1

Rewrite = Callable[[Rig], None]


def kill_in_a_fold(rig: Rig, *, point: str) -> None:
    """Let a driver fold, and kill it inside a point of the fold."""
    rig.define(cap=SMALL_CAP)
    rig.send(rig.draw(RECORDS, late=0.05))
    child = rig.start(block=(point, None), fold_every=EVERY)  # type: ignore[arg-type]  # by name
    rig.note("point", child.marker().point)
    rig.note("status", child.kill())
    rig.note("before", sum(n for n, _, _ in rig.count_by_cell().values()))
    rig.tune(fold_every=EVERY)


def died_in_the_fold(rig: Rig, *, point: str) -> bool:
    """Marker, and wait status -9."""
    return (rig.evidence["point"], rig.evidence["status"]) == (point, -signal.SIGKILL)


def no_epoch_is_lost_or_twice(rig: Rig) -> Iterator[str]:
    """Numbers and offsets continue without a gap."""
    for epoch, end, start in small.gaps(rig.records()):
        yield f"epoch {epoch}: expected to start at {end}, started at {start}"


def rewrite_beside_an_epoch(rig: Rig, *, rewrite: Rewrite) -> None:
    """Rewrite files while an epoch is in flight, and once more after it was committed."""
    rig.send(rig.draw(5 * CAP, late=0.05))
    child = rig.start(block=("epoch.aggregated", 3))
    child.marker()
    now = SystemClock().now()
    pins.pin(rig.settings, rig.version, PINNED, holder="reader", expires_at=now + timedelta(hours=1), now=now)
    rig.note("at the pin", _at_pin(rig))
    version_before = _version(rig)
    rewrite(rig)
    rig.note("versions in flight", _version(rig) - version_before)
    child.release()
    rig.until(lambda: rig.newest() >= 4)
    rig.note("ended", child.stop())
    version_before = _version(rig)
    rewrite(rig)
    rig.note("versions after", _version(rig) - version_before)
    if any(event.get("event") == "commit_conflict" for event in child.events()):
        rig.saw("conflict")


def _at_pin(rig: Rig) -> list[str]:
    return sorted(map(str, small.count_by_cell(rig.lake, epoch=PINNED).items()))


def _version(rig: Rig) -> int:
    return int(delta.open_table(rig.version.uri).version())


def optimize(rig: Rig) -> None:
    """Merge small files, as people do by hand."""
    DeltaTable(rig.version.uri).optimize.compact()


def fold(rig: Rig) -> None:
    """Fold as another driver's compaction does: the files of all epochs beyond the pin, under the stream's number."""
    committer = Committer(rig.version, "pid-0-other", delta.open_table(rig.version.uri), reload_every=100)
    files_of_table = compactor.list_files(committer.table)
    group = [file for file in files_of_table if file.kind == "partial" and file.first_epoch > PINNED]
    merged = merge_group(rig.lake, rig.version.uri, group)
    assert committer.replace_files([merged.action, *map(files.make_removal, group)], reason="fold")


def both_rewrites_were_committed(rig: Rig) -> bool:
    """A version more each time; the driver ended on request."""
    evidence = rig.evidence
    return bool(evidence["versions in flight"] >= 1 and evidence["versions after"] >= 1 and evidence["ended"] == 0)


def pinned_cut_reads_as_before(rig: Rig) -> Iterator[str]:
    """Every cell of the pinned epoch."""
    if _at_pin(rig) != rig.evidence["at the pin"]:
        yield f"epoch {PINNED} reads otherwise than before the rewrites"


FAULTS = (
    *(
        Fault(
            id="F25",
            variant=f"killed-{point.removeprefix('compact.')}",
            family="lake",
            title="compaction",
            inject=partial(kill_in_a_fold, point=point),
            happened=partial(died_in_the_fold, point=point),
            holds=(no_epoch_is_lost_or_twice,),
        )
        for point in ("compact.read", "compact.written", "compact.committed")
    ),
    *(
        Fault(
            id="F25",
            variant=name,
            family="lake",
            title="compaction",
            inject=partial(rewrite_beside_an_epoch, rewrite=rewrite),
            happened=both_rewrites_were_committed,
            holds=(no_epoch_is_lost_or_twice, pinned_cut_reads_as_before),
        )
        for name, rewrite in (("optimize-beside", optimize), ("fold-beside", fold))
    ),
)
