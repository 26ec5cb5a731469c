"""The driver is killed, at seeded times and just before and after a commit: no epoch is lost or counted twice."""

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cutover.lake.tables import delta
from cutover.streaming.compaction import compactor
from cutover.streaming.source import query
from tests.faults.fault import Fault, Hold
from tests.faults.running.child import Child, Whom
from tests.faults.running.definition import CAP
from tests.faults.running.rig import Rig
from tests.integration.streaming import rig as small
from tests.integration.streaming.rig import is_by_spark

GONE_SECONDS = 30.0  # how long the other half of a driver may outlive the one that was killed
LONGEST_LIFE = 3.0  # seconds of input, from a driver's first point to its kill
INSIDE = ("epoch.planned", "epoch.aggregated")  # the last point before a kill that fell into an epoch
DAY = 86_400


def kill_often(rig: Rig, *, kills: tuple[Whom, ...]) -> None:
    """Start, feed and kill a driver again and again, at times of the seed."""
    rig.define(cap=50)
    ends: list[int] = []
    errors: list[str] = []
    kills_inside = 0
    for whom in kills:
        child = rig.start()
        child.await_point("start.read")
        _feed(rig, child, seconds=rig.rng.uniform(0.2, LONGEST_LIFE))
        ends.append(_kill(rig, child, whom))
        kills_inside += child.points()[-1].point in INSIDE
        beat = rig.beat()
        errors += [str(beat.error)] if whom == "jvm" and beat is not None else []
    rig.send(rig.draw(10))
    rig.note("ends", ends)
    rig.note("said", errors)
    rig.note("inside an epoch", kills_inside)
    rig.note("epochs before the last start", len(rig.records()))


def _feed(rig: Rig, child: Child, *, seconds: float) -> None:
    """Send a few records at a time until the driver's time has come; it has read some by then."""
    rig.send(rig.draw(20, late=0.05))
    child.await_point("epoch.planned")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rig.send(rig.draw(5, late=0.05))
        time.sleep(0.05)  # the input's pace


def _kill(rig: Rig, child: Child, whom: Whom) -> int:
    """Kill one half or both, wait for the other half's end, and return Python's end; JVM alone: 2."""
    jvm = child.jvm()
    status = child.kill(whom)
    if status is None:
        return child.wait(GONE_SECONDS)
    committed = rig.transaction()
    rig.until(lambda: not jvm.is_running() or jvm.status() == "zombie", GONE_SECONDS)
    assert rig.transaction() == committed, "a driver whose Python was killed committed once more"
    return status


def died_each_time(rig: Rig, *, kills: tuple[Whom, ...]) -> bool:
    """Return whether every driver ended as it was killed."""
    return bool(rig.evidence["ends"] == [2 if whom == "jvm" else -signal.SIGKILL for whom in kills])


def it_says_that_the_jvm_ended(rig: Rig) -> Iterator[str]:
    """In one line, each time."""
    expected = f"Stream of {rig.pipeline.name}: expected Spark's JVM, it ended."
    yield from (f"expected {expected!r}, got {error!r}" for error in rig.evidence["said"] if error != expected)


def some_kills_fell_into_an_epoch(rig: Rig) -> Iterator[str]:
    """Between `epoch.planned` and `epoch.committed`."""
    if not rig.evidence["inside an epoch"]:
        yield "every kill fell between two epochs"


def each_start_is_the_end_before(rig: Rig) -> Iterator[str]:
    """After every kill."""
    for epoch, end, start in small.gaps(rig.records()):
        yield f"epoch {epoch}: expected to start at {end}, started at {start}"


def kill_after_the_commit(rig: Rig) -> None:
    """Block after the commit of epoch 2, before Spark has noted the batch, and kill the group."""
    rig.send(rig.draw(4 * CAP, late=0.1))
    child = rig.start(block=("epoch.committed", 2))
    rig.note("marker", child.marker())
    rig.note("status", child.kill())
    rig.note("transaction", rig.transaction())
    rig.note("before", rig.records())


def died_after_its_commit(rig: Rig) -> bool:
    """Marker at epoch 2, transaction 2, wait status -9."""
    evidence = rig.evidence
    return (evidence["marker"].epoch, evidence["transaction"], evidence["status"]) == (2, 2, -signal.SIGKILL)


def nothing_is_read_again(rig: Rig) -> Iterator[str]:
    """Committed epochs are unchanged, and the next epoch begins where the last one ended."""
    records_before, records = rig.evidence["before"], rig.records()
    if records[: len(records_before)] != records_before:
        yield f"epochs 0 to {len(records_before) - 1} were changed"
    last_before, following = records_before[-1], records[len(records_before)]
    if dict(following.start) != dict(last_before.end):
        yield f"epoch {len(records_before)}: expected to start at {last_before.end}, started at {following.start}"


def kill_before_the_commit(rig: Rig, *, overflow: bool) -> None:
    """Kill with epoch 1 computed and not committed; then send more, so that it ends elsewhere when it is redone."""
    rig.define(cap=100)
    rig.send(rig.draw(60))
    if overflow:
        rig.tune(overflow_rows=1)
    rig.drain()
    rig.send(rig.draw(30))
    child = rig.start(block=("epoch.aggregated", None))
    marker = child.marker()
    rig.note("planned end", _planned_end(rig))
    rig.note("status", child.kill())
    rig.note("epoch", marker.epoch)
    rig.note("transaction", rig.transaction())
    rig.note("left behind", len(_list_unlisted_files(rig)))
    rig.send(rig.draw(45))
    rig.send(rig.draw(5, late=1.0))


def _planned_end(rig: Rig) -> dict[int, int]:
    """Return the offsets up to which Spark noted to read, as its own file has them."""
    place = rig.settings.run_dir / rig.pipeline.name
    notes = next(place.glob("checkpoint-*"))
    newest = max(int(file.name) for file in (notes / "offsets").iterdir() if file.name.isdigit())
    return query.end_offsets(notes, newest, rig.topic)


def _list_unlisted_files(rig: Rig) -> list[Path]:
    """Return the data files in the table's folder that its log does not list."""
    listed_paths = {file.path for file in compactor.list_files(delta.open_table(rig.version.uri))}
    data = [file for file in rig.table.rglob("*.parquet") if "_delta_log" not in file.parts]
    return [file for file in data if file.relative_to(rig.table).as_posix() not in listed_paths]


def died_before_its_commit(rig: Rig, *, overflow: bool) -> bool:
    """The epoch was aggregated, is not the newest transaction, and its files exist if Spark wrote some."""
    evidence = rig.evidence
    not_committed = bool(evidence["transaction"] == evidence["epoch"] - 1)
    return evidence["status"] == -signal.SIGKILL and not_committed and (evidence["left behind"] > 0 or not overflow)


def the_epoch_was_redone_with_another_end(rig: Rig) -> Iterator[str]:
    """Not the end that the marker's epoch had."""
    redone = next(record for record in rig.records() if record.epoch == rig.evidence["epoch"])
    if dict(redone.end) == rig.evidence["planned end"]:
        yield f"epoch {redone.epoch} ended at {redone.end} both times"
    else:
        rig.saw("redone")


def vacuum_takes_what_was_left_behind(rig: Rig) -> Iterator[str]:
    """Files of an unfinished epoch are shown to no reader, and go once they are old."""
    unlisted = [file for file in _list_unlisted_files(rig) if is_by_spark(file)]
    if not unlisted:
        yield "no file of the unfinished epoch is left to be vacuumed"
    rows_before, old = rig.count_by_cell(), time.time() - DAY
    for file in unlisted:
        os.utime(file, (old, old))
    compactor.tidy(delta.open_table(rig.version.uri), sweep=True)
    yield from (f"{file.name} is still there" for file in unlisted if file.exists())
    if rig.count_by_cell() != rows_before:
        yield "the vacuum changed what readers see"


def _kill_repeatedly(variant: str, victims: str, kills: tuple[Whom, ...], holds: tuple[Hold, ...]) -> Fault:
    return Fault(
        id="F01",
        variant=variant,
        family="driver",
        title=f"{len(kills)} SIGKILLs at random times while records arrive: {victims}",
        inject=partial(kill_often, kills=kills),
        happened=partial(died_each_time, kills=kills),
        holds=(each_start_is_the_end_before, *holds),
        alert="StreamNotRunning",
        limits={"stalled_seconds": 3.0},
        timeout_seconds=3600,
    )


def _kill_before_commit(variant: str, title: str, *, overflow: bool, extra: tuple[Hold, ...]) -> Fault:
    return Fault(
        id="F03",
        variant=variant,
        family="driver",
        title=title,
        inject=partial(kill_before_the_commit, overflow=overflow),
        happened=partial(died_before_its_commit, overflow=overflow),
        holds=(the_epoch_was_redone_with_another_end, *extra),
    )


FAULTS = (
    _kill_repeatedly("a", "the process group", ("group",) * 20, (some_kills_fell_into_an_epoch,)),
    _kill_repeatedly("b", "its JVM alone", ("jvm",) * 20, (some_kills_fell_into_an_epoch, it_says_that_the_jvm_ended)),
    _kill_repeatedly("c", "its Python alone", ("python",) * 20, (some_kills_fell_into_an_epoch,)),
    Fault(
        id="F02",
        family="driver",
        title="killed after the commit, before Spark recorded the batch",
        inject=kill_after_the_commit,
        happened=died_after_its_commit,
        holds=(nothing_is_read_again,),
    ),
    _kill_before_commit("", "killed before the commit; the epoch is redone with another end", overflow=False, extra=()),
    _kill_before_commit(
        "overflow",
        "killed with an overflow file written and not committed; redone with another end",
        overflow=True,
        extra=(vacuum_takes_what_was_left_behind,),
    ),
)
