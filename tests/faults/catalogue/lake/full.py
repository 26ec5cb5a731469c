"""A full disk, under the lake, the run-time files or the reports: nothing is half written, and the stream continues."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cutover.errors import CutoverError
from tests.faults.catalogue.evidence.findings import OLD_BATCH, compare, sales
from tests.faults.fault import Fault, Part
from tests.faults.running.definition import CAP
from tests.faults.running.rig import Rig
from tests.integration.reconcile.lake_of import Sale, lake_of, write
from tests.integration.streaming import rig as small

PAGE = 4096
ALONE = ("reports", "notes")  # places that are written before anything is read
DISK = "8m"
SALES = tuple(Sale(hour=i % 5, shop="ab"[i % 2], amount=i) for i in range(20))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Small separate file system over a folder of the installation."""

    place: Path

    def free_pages(self) -> int:
        """Return how many pages can still be written."""
        file_system = os.statvfs(self.place)
        return file_system.f_bavail * file_system.f_frsize // PAGE

    def fill(self, pages: int) -> None:
        """Fill the disk until only `pages` pages are free."""
        with (self.place / "filler").open("wb", buffering=0) as file:
            while self.free_pages() > pages:
                file.write(b"\0" * PAGE * max(1, self.free_pages() - pages))

    def empty(self) -> None:
        """Give the space back."""
        (self.place / "filler").unlink(missing_ok=True)

    def end(self) -> None:
        """Take the file system away, if it is still there, and keep what is on it, as a larger disk would."""
        if not self.place.is_mount():
            return
        copy = self.place.with_name(f"{self.place.name}-kept")
        subprocess.run(["cp", "-a", f"{self.place}/.", str(copy)], check=True)
        subprocess.run(["umount", "-l", str(self.place)], check=True)
        self.place.rmdir()
        copy.rename(self.place)


def mount_small_disk(place: Path) -> Disk:
    """Return a small disk over a folder; what is in the folder goes with it."""
    original = place.with_name(f"{place.name}-before")
    place.mkdir(parents=True, exist_ok=True)
    place.rename(original)
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], check=True)
    subprocess.run(["cp", "-a", f"{original}/.", str(place)], check=True)
    return Disk(place=place)


def lake(rig: Rig) -> Path:
    """Return the folder of all tables."""
    return Path(rig.settings.lake_uri)


def notes(rig: Rig) -> Path:
    """Return the folder of Spark's notes, heartbeats and locks."""
    return rig.settings.run_dir


def reports(rig: Rig) -> Path:
    """Return the folder of reports."""
    return rig.settings.reports_dir


PLACES = {"lake": lake, "notes": notes, "reports": reports}


def fill_the_disk(rig: Rig, *, target: str, pages: int, overflow: bool = False) -> None:
    """Fill the disk under a folder, start the writer, and note its message and the files it leaves behind."""
    if target in ALONE:
        rig.make = sales
        write(rig.settings, lake_of(SALES))
        rig.reconcile()
    else:
        rig.send(rig.draw(6 * CAP, late=0.05))  # enough to close windows
        rig.drain()
        rig.batch()
        rig.reconcile()
        rig.send(rig.draw(2 * CAP, late=0.05))
    disk = mount_small_disk(PLACES[target](rig))
    rig.note("disk", (disk,))
    rig.at_end(disk.end)
    rig.note("epochs before", len(rig.records()))
    rig.note("files before", len(_list_reports(rig, target)))
    disk.fill(pages)
    rig.note("free pages", disk.free_pages())
    rig.alerts()
    _write(rig, target, overflow=overflow)
    rig.note("epochs full", len(rig.records()))
    rig.note("files full", len(_list_reports(rig, target)))


def _write(rig: Rig, target: str, *, overflow: bool) -> None:
    try:
        if target == "reports":
            rig.reconcile()
        else:
            rig.drain(overflow_rows=1 if overflow else rig.settings.stream.overflow_rows)
    except CutoverError as error:
        rig.exit_code, rig.said = error.exit_code, str(error)


def _list_reports(rig: Rig, target: str) -> list[Path]:
    """Return the files that readers take: reports with their endings; none of the others is listed by name."""
    if target != "reports":
        return []
    return [file for file in reports(rig).rglob("*") if file.suffix in {".html", ".json", ".csv"}]


def disk_was_full(rig: Rig, *, pages: int) -> bool:
    """The expected number of free pages, and a message about the full disk."""
    return bool(rig.evidence["free pages"] == pages and "No space left" in rig.said)


def nothing_is_half_there(rig: Rig) -> Iterator[str]:
    """No epoch or report more than before; the existing ones are complete."""
    evidence = rig.evidence
    if evidence["epochs full"] != evidence["epochs before"]:
        yield f"{evidence['epochs before']} epochs before, {evidence['epochs full']} on the full disk"
    if evidence["files full"] != evidence["files before"]:
        yield f"{evidence['files before']} reports before, {evidence['files full']} on the full disk"
    for epoch, end, start in small.gaps(rig.records()):
        yield f"epoch {epoch}: expected to start at {end}, started at {start}"


def make_room(rig: Rig) -> None:
    """Give the space back."""
    (disk,) = rig.evidence["disk"]
    disk.empty()
    disk.end()


NO_LOG: dict[str, Any] = {
    "needs": frozenset({Part.LAKE}),
    "settle": compare,
    "checks": (),
    "limits": OLD_BATCH,
}

FAULTS = tuple(
    Fault(
        id="F21",
        variant=f"{target}-{pages}{'-overflow' if overflow else ''}",
        family="lake",
        title="disk full",
        inject=partial(fill_the_disk, target=target, pages=pages, overflow=overflow),
        happened=partial(disk_was_full, pages=pages),
        heal=make_room,
        holds=(nothing_is_half_there,),
        alert="DiskHeadroomLow",
        may=frozenset({"StreamNotRunning"}),
        exit_code=2,
        quick=target == "notes",
        **(NO_LOG if target in ALONE else {}),
    )
    for target, pages, overflow in (
        ("lake", 0, False),
        ("lake", 1, False),
        ("lake", 0, True),
        ("notes", 0, False),
        ("reports", 0, False),
        ("reports", 1, False),
    )
)
