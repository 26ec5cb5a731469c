"""Spark's own notes of its reads are missing or wrong: nothing depends on them."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from cutover.clock import Point
from cutover.definition import Pipeline
from cutover.pipeline_lake import PipelineLake
from cutover.streaming import driver
from tests.faults.fault import Fault
from tests.faults.running.definition import CAP
from tests.faults.running.rig import Rig
from tests.integration.streaming import rig as small

Harm = Callable[[Path, Path], None]  # the notes, another pipeline's notes


class Keep:
    """Copies the notes of a living driver at the end of an epoch: what a SIGKILL would leave."""

    def __init__(self, place: Path, to: Path) -> None:
        self._place, self._to = place, to

    def __call__(self, point: Point, epoch: int) -> None:  # noqa: ARG002 -- the protocol's names
        """Copy, at each commit."""
        if point == "epoch.committed":
            shutil.rmtree(self._to, ignore_errors=True)
            shutil.copytree(next(self._place.glob("checkpoint-*")), self._to)


def harm_the_notes(rig: Rig, *, harm: Harm) -> None:
    """Leave a driver's notes as a kill would, harm them, and hash the files."""
    rig.send(rig.draw(3 * CAP))
    ours = _notes_of(rig, rig.pipeline)
    other = replace(rig.pipeline, name="others", source=replace(rig.pipeline.source, name=rig.second_topic()))
    other_notes = _notes_of(rig, other)
    place = rig.settings.run_dir / rig.pipeline.name / "checkpoint-left"
    shutil.copytree(ours, place)
    rig.note("before", _hashes(place))
    harm(place, other_notes)
    rig.note("after", _hashes(place))
    rig.send(rig.draw(CAP))


def _notes_of(rig: Rig, pipeline: Pipeline) -> Path:
    to = rig.settings.home / f"notes-{pipeline.name}"
    driver.run_driver(
        PipelineLake(rig.settings, pipeline), until="drain", probe=Keep(rig.settings.run_dir / pipeline.name, to)
    )
    return to


def _hashes(place: Path) -> list[str]:
    """Return path and hash of every file."""
    files = sorted(file for file in place.rglob("*") if file.is_file())
    return [f"{f.relative_to(place)} {hashlib.sha256(f.read_bytes()).hexdigest()[:12]}" for f in files]


def they_changed(rig: Rig) -> bool:
    """Listing and hashes differ."""
    return bool(rig.evidence["before"] and rig.evidence["before"] != rig.evidence["after"])


def remove(notes: Path, _: Path) -> None:
    """Remove all."""
    shutil.rmtree(notes)


def empty(notes: Path, _: Path) -> None:
    """Cut the newest offsets file to 0 bytes."""
    max((f for f in (notes / "offsets").iterdir() if f.name.isdigit()), key=lambda f: int(f.name)).write_bytes(b"")


def swap(notes: Path, other_notes: Path) -> None:
    """Put another pipeline's in their place."""
    shutil.rmtree(notes)
    shutil.copytree(other_notes, notes)


def remove_while_running(rig: Rig) -> None:
    """Remove the notes of a driver between two epochs, and send it more."""
    rig.send(rig.draw(CAP))
    running = rig.background()
    rig.until(lambda: rig.newest() >= 0)
    place = next((rig.settings.run_dir / rig.pipeline.name).glob("checkpoint-*"))
    rig.note("before", _hashes(place))
    shutil.rmtree(place, ignore_errors=True)
    rig.note("after", _hashes(place) if place.exists() else [])
    rig.send(rig.draw(2 * CAP))
    rig.until(lambda: not running.thread.is_alive() or rig.unread() == 0)
    if running.thread.is_alive():
        running.stop()
    rig.note("stopped", running.failure is not None)


def each_epoch_begins_where_the_one_before_ended(rig: Rig) -> Iterator[str]:
    """Spark's notes have no influence."""
    for epoch, end, start in small.gaps(rig.records()):
        yield f"epoch {epoch}: expected to start at {end}, started at {start}"


def _while_stopped(variant: str, title: str, harm: Harm) -> Fault:
    return Fault(
        id="F05",
        variant=variant,
        family="driver",
        title=f"Spark's checkpoint, while no driver runs: {title}",
        inject=partial(harm_the_notes, harm=harm),
        happened=they_changed,
        holds=(each_epoch_begins_where_the_one_before_ended,),
    )


FAULTS = (
    _while_stopped("a", "removed", remove),
    _while_stopped("b", "its newest offsets file 0 bytes long", empty),
    _while_stopped("c", "swapped with another pipeline's", swap),
    Fault(
        id="F05",
        variant="d",
        family="driver",
        title="Spark's checkpoint, while the driver runs: removed",
        inject=remove_while_running,
        happened=they_changed,
        holds=(each_epoch_begins_where_the_one_before_ended,),
        may=frozenset({"StreamNotRunning"}),
    ),
)
