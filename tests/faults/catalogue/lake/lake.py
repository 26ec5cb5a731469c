"""Harms of the lake: its table logs and data files. Both paths stop, and no verdict on the data is given."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from cutover.clock import SystemClock
from cutover.errors import CutoverError
from cutover.lake.integrity import high_water
from cutover.lake.tables import delta
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.streaming.compaction import compactor
from cutover.streaming.recovery import accept_loss
from tests.faults.fault import Fault
from tests.faults.running import healthy
from tests.faults.running.rig import Rig

Harm = Callable[[Path], object]  # the epoch log's folder
KEPT = "kept-table"
SAID = (Verdict.NOT_COMPARABLE.value, 2)


def commits(table: Path) -> list[Path]:
    """Return the entries of a table's log, oldest first."""
    return sorted((table / "_delta_log").glob("*.json"))


def without(action: str) -> Harm:
    """Return what takes one kind of action out of the newest entry."""

    def harm(table: Path) -> None:
        lines = commits(table)[-1].read_text(encoding="utf-8").splitlines(keepends=True)
        remaining = [line for line in lines if not line.startswith(f'{{"{action}"')]
        commits(table)[-1].write_text("".join(remaining), encoding="utf-8")

    return harm


def half(table: Path) -> None:
    """Cut the newest entry in the middle of a line."""
    newest = commits(table)[-1]
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])


def remove(table: Path, *, count: int = 1, note: bool = True) -> None:
    """Delete the newest entries; the driver's note next to the table too, if `note` is false."""
    for file in commits(table)[-count:]:
        file.unlink()
    if not note:
        (table.parent / high_water.NOTE).unlink()


def remove_covered(table: Path) -> None:
    """Write a checkpoint and remove every entry that it covers, as clean-up does."""
    DeltaTable(str(table)).create_checkpoint()
    for file in commits(table):
        file.unlink()


LOG_DAMAGE: dict[str, Harm] = {
    "a-half": half,
    "b-empty": lambda table: commits(table)[-1].write_bytes(b""),
    "c-deleted": remove,
    "c-three-deleted": partial(remove, count=3),
    "c-deleted-with-the-note": partial(remove, note=False),
    "d-no-transaction": without("txn"),
    "e-no-metadata": without("commitInfo"),
    "f-middle-deleted": lambda table: commits(table)[len(commits(table)) // 2].unlink(),
}
OPENS = ("b", "c", "d", "e")  # a plain open succeeds, and says nothing


def hashes(table: Path) -> str:
    """Return a hash over names and contents of a table's log."""
    digest = hashlib.sha256()
    for file in commits(table):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def damage_the_log(rig: Rig, *, harm: Harm) -> None:
    """Harm the epoch log's table log, then start a driver and a reconciliation."""
    healthy.copy_healthy(rig)
    rig.note("before", hashes(rig.table))
    _back_up(rig)
    harm(rig.table)
    rig.note("after", hashes(rig.table))
    rig.note("plain open", _opens(rig.table))
    _try_both(rig)


def _back_up(rig: Rig) -> None:
    shutil.copytree(rig.table.parent, rig.settings.home / KEPT)


def restore_backup(rig: Rig) -> None:
    """Restore the table's folder from a backup."""
    shutil.rmtree(rig.table.parent)
    shutil.copytree(rig.settings.home / KEPT, rig.table.parent)


def _opens(table: Path) -> bool:
    try:
        DeltaTable(str(table))
    except Exception:  # noqa: BLE001 -- whatever it says
        return False
    return True


def _try_both(rig: Rig) -> None:
    """Start a driver, which must refuse, and reconcile; note the messages, and whether anything was written."""
    files_before = _files(rig.table)
    error = rig.refused(rig.drain)
    rig.note("driver", str(error).splitlines()[0])
    rig.note("runbook", str(error.runbook))
    rig.note("reconciler", summarize(rig.reconcile()))
    rig.note("written", sorted(_files(rig.table) - files_before))


def _files(table: Path) -> set[str]:
    return {str(file.relative_to(table)) for file in table.rglob("*") if file.is_file()}


def summarize(report: Report) -> list[Any]:
    return [report.finding.verdict.value, report.finding.exit_code, report.finding.runbook, report.finding.sentence]


def log_was_damaged(rig: Rig, *, opens: bool) -> bool:
    """The log's hash is another; a plain open succeeds where the row says so."""
    evidence = rig.evidence
    return bool(evidence["before"] != evidence["after"] and evidence["plain open"] is opens)


def neither_driver_nor_reconciler_went_on(rig: Rig) -> Iterator[str]:
    """Both name the broken history; no file was written."""
    evidence = rig.evidence
    if evidence["runbook"] != "EpochHistoryBroken":
        yield f"the driver's runbook is {evidence['runbook']}"
    if tuple(evidence["reconciler"][:3]) != (*SAID, "EpochHistoryBroken"):
        yield f"the reconciler said {evidence['reconciler']}"
    if evidence["written"]:
        yield f"files were written: {evidence['written']}"


def clean_up(rig: Rig) -> None:
    """Take away what a checkpoint covers."""
    healthy.copy_healthy(rig)
    rig.note("before", hashes(rig.table))
    remove_covered(rig.table)
    rig.note("after", hashes(rig.table))
    rig.note("plain open", _opens(rig.table))


# -- data files


def _file_of(rig: Rig, which: str) -> Path:
    """Return a file of an old epoch, of the newest one, or of the batch table."""
    if which == "batch":
        folder = Path(rig.lake.batch_uri())
        return delta.file_path(folder, {"path": delta.open_table(str(folder)).file_uris()[0].removeprefix("file://")})
    files = compactor.list_files(delta.open_table(rig.version.uri))
    file_key = {"old": ("partial", 1), "newest": ("epoch", rig.newest())}[which]
    return rig.table / next(file.path for file in files if (file.kind, file.last_epoch) == file_key)


def lose_a_file(rig: Rig, *, which: str) -> None:
    """Remove a listed data file; then start a driver and reconcile."""
    healthy.copy_healthy(rig)
    file = _file_of(rig, which)
    rig.note("file", file.name)
    rig.note("held", ["epochs"] if "_kind=epoch" in file.parts else ["epochs", "windows"])
    rig.note("listed", any(file.name in uri for uri in delta.open_table(str(_table_of(file))).file_uris()))
    file.unlink()
    rig.note("there", file.exists())
    rig.note("runbook", _runbook(rig.drain))
    report = rig.reconcile()
    rig.note("reconciler", summarize(report))
    rig.exit_code = report.finding.exit_code


def _table_of(file: Path) -> Path:
    return next(folder for folder in file.parents if (folder / "_delta_log").is_dir())


def _runbook(act: Callable[[], object]) -> str:
    try:
        act()
    except CutoverError as error:
        return str(error.runbook)
    return "none"


def is_listed_and_not_there(rig: Rig) -> bool:
    """The log lists it, the folder no longer has it."""
    return rig.evidence["listed"] and not rig.evidence["there"]


def file_epochs_and_windows_are_named(rig: Rig) -> Iterator[str]:
    """Never a verdict on the data."""
    verdict, code, runbook, sentence = rig.evidence["reconciler"]
    if (verdict, code, runbook) != (*SAID, "TableUnreadable"):
        yield f"the reconciler said {verdict}, {code}, {runbook}"
    for part in (rig.evidence["file"], *rig.evidence["held"]):
        if part not in sentence:
            yield f"`{part}` is not in `{sentence}`"


def stream_went_on(rig: Rig) -> Iterator[str]:
    """Appends read no data files."""
    if rig.evidence["runbook"] != "none":
        yield f"the driver was refused: {rig.evidence['runbook']}"


def replay(rig: Rig) -> None:
    """Record the loss of the table, so that a new version replays the log."""
    accept_loss.record_losses(rig.lake, "a data file was deleted", SystemClock())


def compute_anew(rig: Rig) -> None:
    """Let a run compute every window from the log, and replace the tables."""
    rig.batch(anew=True)


# -- restored manually


def restore(rig: Rig) -> None:
    """Restore the table to an epoch before the newest, then start a driver and a reconciliation."""
    healthy.copy_healthy(rig)
    rig.note("newest before", rig.newest())
    table = DeltaTable(rig.version.uri)
    table.restore(table.version() - 3)
    rig.note("operation", str(table.history(1)[0]["operation"]))
    rig.note("rows end at", rig.newest())
    _back_up(rig)
    _try_both(rig)


def was_restored(rig: Rig) -> bool:
    """RESTORE is in the history, and the rows end earlier."""
    evidence = rig.evidence
    return bool(evidence["operation"] == "RESTORE" and evidence["rows end at"] < evidence["newest before"])


def _log_fault(name: str, harm: Harm) -> Fault:
    letter = name.split("-", maxsplit=1)[0]
    return Fault(
        id="F22",
        variant=name,
        family="lake",
        title="table log damaged",
        inject=partial(damage_the_log, harm=harm),
        happened=partial(log_was_damaged, opens=letter in OPENS),
        heal=restore_backup,
        holds=(neither_driver_nor_reconciler_went_on,),
        alert="EpochHistoryBroken",
        exit_code=2,
    )


FAULTS = (
    *(_log_fault(name, harm) for name, harm in LOG_DAMAGE.items()),
    Fault(
        id="F22",
        variant="g-cleaned-up",
        family="lake",
        title="table log damaged",
        inject=clean_up,
        happened=partial(log_was_damaged, opens=True),
    ),
    Fault(
        id="F23",
        variant="old-epoch",
        family="lake",
        title="data file missing",
        inject=partial(lose_a_file, which="old"),
        happened=is_listed_and_not_there,
        heal=replay,
        holds=(file_epochs_and_windows_are_named, stream_went_on),
        alert="TableUnreadable",
        exit_code=2,
    ),
    Fault(
        id="F23",
        variant="newest-epoch",
        family="lake",
        title="data file missing",
        inject=partial(lose_a_file, which="newest"),
        happened=is_listed_and_not_there,
        heal=replay,
        holds=(file_epochs_and_windows_are_named,),
        alert="TableUnreadable",
        exit_code=2,
    ),
    Fault(
        id="F23",
        variant="batch",
        family="lake",
        title="data file missing",
        inject=partial(lose_a_file, which="batch"),
        happened=is_listed_and_not_there,
        heal=compute_anew,
        holds=(file_epochs_and_windows_are_named, stream_went_on),
        alert="TableUnreadable",
        exit_code=2,
    ),
    Fault(
        id="F24",
        family="lake",
        title="restored manually",
        inject=restore,
        happened=was_restored,
        heal=replay,
        holds=(neither_driver_nor_reconciler_went_on,),
        alert="EpochHistoryBroken",
        exit_code=2,
    ),
)
