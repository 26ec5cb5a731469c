"""Unreadable files that facts come from: the file is named, and nothing that it holds is claimed."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from cutover.clock import SystemClock
from cutover.driver_state import read_driver_state
from cutover.errors import LakeError
from cutover.lake.tables import delta
from cutover.pipeline_lake import control_uri
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.status import WatchStatus, make_status
from tests.faults.fault import Fault
from tests.faults.running.rig import Rig

STALLED = {"stalled_seconds": 0.2, "batch_schedules": 1e9, "reconcile_schedules": 1e9}
"""A stream that ended is called stalled at once, were its records unread."""

Find = Callable[[Rig], Path]


def _entry(uri: str) -> Path:
    return max((Path(uri) / "_delta_log").glob("*.json"), key=lambda file: file.name)


def versions_table(rig: Rig) -> Path:
    return _entry(control_uri(rig.settings, "versions"))


def history_table(rig: Rig) -> Path:
    return _entry(control_uri(rig.settings, "reconciliations"))


def batch_index(rig: Rig) -> Path:
    return _entry(rig.lake.batch_uri("batch_index"))


def driver_heartbeat(rig: Rig) -> Path:
    return rig.settings.run_dir / rig.pipeline.name / "heartbeat.json"


def spoil(rig: Rig, *, find: Find) -> None:
    """Read everything, compare, and leave half of a file."""
    rig.send(rig.draw(60))
    rig.close_windows()
    rig.drain()
    rig.batch()
    rig.reconcile()
    rig.note("unread", rig.unread())
    file = find(rig)
    content = file.read_bytes()
    rig.note("file", [str(file), content.hex()])
    file.write_bytes(content[: len(content) // 2])
    rig.note("error", _read_error(rig, file))
    rig.note("told", _describe(make_status(FactCollector(rig.lake, SystemClock()).collect())))


def _read_error(rig: Rig, file: Path) -> str:
    """Return why a reader of the file fails; empty if it does not."""
    try:
        if file.parent.name == "_delta_log":
            delta.open_table(str(file.parent.parent))
        else:
            read_driver_state(rig.settings, rig.pipeline.name)
    except LakeError as error:
        return str(error)
    return ""


def _describe(now: WatchStatus) -> list[str]:
    """Return what the watch says: the text of its one alert, the alerts that it cannot decide."""
    return ["; ".join(alert.text for alert in now.alerts if alert.severity != "info"), *now.undecided]


def cannot_be_read(rig: Rig) -> bool:
    """Everything was read and compared before; the file fails its reader."""
    return bool(rig.evidence["unread"] == 0 and rig.evidence["error"])


def the_file_is_named_and_the_rest_is_undecided(rig: Rig) -> Iterator[str]:
    """The table's folder, or the file, is in the alert's text."""
    text, *undecided = rig.evidence["told"]
    file = Path(rig.evidence["file"][0])
    name = file.parent.parent.name if file.parent.name == "_delta_log" else file.name
    if name not in text:
        yield f"expected {name} in: {text}"
    if not undecided:
        yield "expected alerts that cannot be decided, got none"


def mend(rig: Rig) -> None:
    """Restore the file from a copy."""
    path, content = rig.evidence["file"]
    Path(path).write_bytes(bytes.fromhex(content))


FAULTS = tuple(
    Fault(
        id="F44",
        variant=variant,
        family="lake",
        title=f"{subject} cannot be read while watch, gate and reconciler run",
        inject=partial(spoil, find=find),
        happened=cannot_be_read,
        heal=mend,
        holds=(the_file_is_named_and_the_rest_is_undecided,),
        alert="TableUnreadable",
        limits=STALLED,
    )
    for variant, subject, find in (
        ("versions", "the control table of versions", versions_table),
        ("history", "the control table of comparisons", history_table),
        ("index", "the index of the batch path", batch_index),
        ("heartbeat", "the driver's heartbeat", driver_heartbeat),
    )
)
