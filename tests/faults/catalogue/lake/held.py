"""Files of a version that is still read are deleted: never by the tool; if by hand, the loss is reported."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.lake.control import pins
from cutover.lake.serving.vacuum import delete_unlisted_files
from cutover.lake.tables import delta
from tests.faults.catalogue.lake.lake import SAID, summarize
from tests.faults.fault import Fault, Part
from tests.faults.running.rig import Rig
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, reconcile, replace_batch, write

SALES = tuple(Sale(epoch=i % 4, hour=i % 5, shop=("a", "b")[i % 2], amount=i) for i in range(40))
OLD_CUT, PIN_DAYS = 2, 2
PINNED_BY = "batch/batch-1"


def sales() -> Pipeline:
    """Return the definition of the tables."""
    return PIPELINE


def vacuum_by_tool(rig: Rig) -> None:
    """Hold the batch version of an older cut, publish a newer one, and vacuum to 0 hours by the tool."""
    _pin_older_cut(rig)
    files = _batch_files(rig)
    error = rig.refused(partial(_vacuum, rig))
    rig.note("said", str(error).splitlines()[0])
    rig.note("files", [len(files), len(_batch_files(rig))])


def vacuum_by_hand(rig: Rig) -> None:
    """The same by delta-rs itself, which knows no pins; then reconcile at the older cut."""
    _pin_older_cut(rig)
    files = _batch_files(rig)
    handle = delta.open_table(rig.lake.batch_uri())
    handle.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    rig.note("files", [len(files), len(_batch_files(rig))])
    report = reconcile(rig.lake, epoch=OLD_CUT)
    rig.reconciliations.append(report)
    rig.exit_code = report.finding.exit_code
    rig.note("reconciler", summarize(report))


def _pin_older_cut(rig: Rig) -> None:
    rig.make = sales
    old, new = lake_of([sale for sale in SALES if sale.epoch <= OLD_CUT]), lake_of(SALES)
    write(rig.settings, replace(new, batch=old.batch, run=old.run))
    now = SystemClock().now()
    expiry = now + timedelta(days=PIN_DAYS)
    pins.pin(rig.settings, rig.version, OLD_CUT, holder=PINNED_BY, expires_at=expiry, now=now)
    rig.note("agrees before", reconcile(rig.lake, epoch=OLD_CUT).finding.exit_code)
    pins.pin(rig.settings, rig.version, OLD_CUT, holder=PINNED_BY, expires_at=expiry, now=SystemClock().now())
    replace_batch(rig.settings, replace(new, run=replace(new.run, run_id="batch-2", finished="2026-01-06T00:00:00Z")))


def _vacuum(rig: Rig) -> None:
    delete_unlisted_files(rig.lake, hours=0, now=SystemClock().now(), dry_run=False)


def _batch_files(rig: Rig) -> list[Path]:
    return list(Path(rig.lake.batch_uri()).glob("*.parquet"))


def it_was_refused(rig: Rig) -> bool:
    """All files exist."""
    files_before, files_after = rig.evidence["files"]
    return bool(rig.evidence["agrees before"] == 0 and files_before == files_after > 1)


def files_are_gone(rig: Rig) -> bool:
    """Fewer files than before."""
    files_before, files_after = rig.evidence["files"]
    return bool(rig.evidence["agrees before"] == 0 and files_after < files_before)


def the_tool_names_the_pin(rig: Rig) -> Iterator[str]:
    """Holder and version."""
    for part in (f"the pin of {PINNED_BY}", "version 1"):
        if part not in rig.evidence["said"]:
            yield f"`{part}` is not in `{rig.evidence['said']}`"


def the_report_says_that_the_version_cannot_be_read(rig: Rig) -> Iterator[str]:
    """And nothing of the data."""
    verdict, code, runbook, sentence = rig.evidence["reconciler"]
    if (verdict, code, runbook) != (*SAID, "TableUnreadable") or "version 1: file `" not in sentence:
        yield f"the report says {verdict}, {code}, {runbook}: {sentence}"


def release_pin(rig: Rig) -> None:
    """Release it."""
    pins.release_pin(rig.settings, rig.version, OLD_CUT, holder=PINNED_BY, now=SystemClock().now())


def vacuum_and_compare(rig: Rig) -> None:
    """Vacuum by the tool, which now does it, and compare at the newest cut."""
    _vacuum(rig)
    rig.note("files after the release", len(_batch_files(rig)))
    rig.reconcile()


def the_old_files_went(rig: Rig) -> Iterator[str]:
    """Once no reader needed them."""
    if rig.evidence["files after the release"] != 1:
        yield f"{rig.evidence['files after the release']} files exist, one is listed"


FAULTS = (
    Fault(
        id="F26",
        variant="by-the-tool",
        family="lake",
        title="vacuum against a pin",
        inject=vacuum_by_tool,
        happened=it_was_refused,
        needs=frozenset({Part.LAKE}),
        limits={"batch_schedules": 1e9},
        heal=release_pin,
        settle=vacuum_and_compare,
        checks=(),
        holds=(the_tool_names_the_pin, the_old_files_went),
        alert="PinnedVersionAtRisk",
        exit_code=2,
        quick=True,
    ),
    Fault(
        id="F26",
        variant="by-hand",
        family="lake",
        title="vacuum against a pin",
        inject=vacuum_by_hand,
        happened=files_are_gone,
        needs=frozenset({Part.LAKE}),
        limits={"batch_schedules": 1e9},
        heal=release_pin,
        settle=vacuum_and_compare,
        checks=(),
        holds=(the_report_says_that_the_version_cannot_be_read, the_old_files_went),
        alert="PinnedVersionAtRisk",
        may=frozenset({"TableUnreadable"}),
        exit_code=2,
    ),
)
