"""The batch path and the reconciler are killed, and run twice at once: the old result or the new one, never a mix."""

import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from cutover.clock import Point
from cutover.lake import batch_runs
from cutover.lake.tables.schemas import batch_schema
from cutover.reconcile.report import files
from cutover.reconcile.verdict import records
from tests.faults.fault import AGREE, Fault
from tests.faults.running.rig import Rig
from tests.integration.batch.lab import rows_of
from tests.integration.streaming.rig import NOON
from tests.support.comparison.planted import replace_rows

FIRST = datetime.fromtimestamp(NOON / 1e6, UTC) - timedelta(hours=1)
LAST = FIRST + timedelta(days=1)
Rows = list[dict[str, Any]]


def rows(rig: Rig, run: batch_runs.BatchRun) -> Rows:
    """Return the batch table at the version that a run names, in order, without the cut of each row."""
    stored_rows = rows_of(rig.lake.batch_uri(), run.batch_version)
    plain = [{name: value for name, value in row.items() if name != "_epoch"} for row in stored_rows]
    return sorted(plain, key=lambda row: (row["window_start"], str(row["k"])))


def newest(rig: Rig) -> batch_runs.BatchRun:
    """Return the newest run that counts."""
    return batch_runs.read_effective_runs(rig.lake)[-1]


def two_cuts(rig: Rig) -> None:
    """Compute the batch at one cut, and read the stream on to a second one."""
    rig.send(rig.draw(60, late=0.1))
    rig.drain()
    rig.batch()
    rig.send(rig.draw(60, late=0.1))
    rig.drain()


def kill_batch(rig: Rig, *, point: Point) -> None:
    """SIGKILL at a point of the second run; then compare as it stands."""
    two_cuts(rig)
    earlier_run = newest(rig)
    child = rig.start(role="batch", block=(point, None))
    rig.note("point", child.marker().point)
    rig.note("status", child.kill())
    current_run = newest(rig)
    rig.note("counted", current_run.run_id != earlier_run.run_id)
    rig.note("version", current_run.batch_version)
    if current_run.run_id == earlier_run.run_id and rows(rig, current_run) != rows(rig, earlier_run):
        rig.note("mixed", "the rows of the old run changed")
    report = rig.reconcile()
    rig.note("verdict as it stood", report.finding.verdict.value)
    rig.note("version read", report.run.tables.batch)


def killed_there(rig: Rig, *, point: Point) -> bool:
    """Marker and -9; the run counts if it was killed after its last commit only."""
    evidence = rig.evidence
    is_killed_at_point = (evidence["point"], evidence["status"]) == (point, -signal.SIGKILL)
    return is_killed_at_point and evidence["counted"] == (point == "batch.committed")


def readers_got_the_old_result_or_the_new_one(rig: Rig) -> Iterator[str]:
    """While the run lay dead: rows of one run, and the seal names the version that it wrote."""
    evidence = rig.evidence
    if "mixed" in evidence:
        yield str(evidence["mixed"])
    if evidence["verdict as it stood"] not in AGREE:
        yield f"expected both sides to agree as it stood, got {evidence['verdict as it stood']}"
    if evidence["version read"] != evidence["version"]:
        yield f"expected the seal to name version {evidence['version']}, it names {evidence['version read']}"


def a_second_run_at_the_cut_gives_the_same_rows(rig: Rig) -> Iterator[str]:
    """Every closed window, computed again."""
    rows_before = rows(rig, newest(rig))
    rig.batch(start=FIRST, end=LAST)
    second_run = newest(rig)
    if not second_run.computed:
        yield "the second run computed nothing"
    if rows(rig, second_run) != rows_before:
        yield "the second run gave other rows"


def run_it_twice_at_once(rig: Rig) -> None:
    """Start a second run while the first holds the log's records."""
    two_cuts(rig)
    first_child = rig.start(role="batch", block=("batch.read", None))
    first_child.marker()
    second = threading.Thread(target=rig.batch)
    second.start()
    second.join(2)
    rig.note("both at work", second.is_alive() and first_child.process.poll() is None)
    rig.note("runs that count meanwhile", len(batch_runs.read_effective_runs(rig.lake)))
    first_child.release()
    rig.note("first", first_child.wait())
    second.join(120)


def they_overlapped(rig: Rig) -> bool:
    """Both were running, and one of the two waited for the other."""
    evidence = rig.evidence
    return bool(evidence["both at work"] and evidence["first"] == 0 and evidence["runs that count meanwhile"] == 1)


def the_second_finds_nothing_to_do(rig: Rig) -> Iterator[str]:
    """Windows that the first run computed are not computed again."""
    _, first_run, second_run, *_ = batch_runs.read_effective_runs(rig.lake)
    if not first_run.computed or second_run.computed:
        yield f"expected the first run alone to compute windows, got {first_run.computed} and {second_run.computed}"


def plant_rows(rig: Rig) -> None:
    """Put rows into the batch table that no record accounts for, one of them in a window that is empty."""
    two_cuts(rig)
    rig.batch()
    rows_before = rows(rig, newest(rig))
    row = rows_of(rig.lake.batch_uri(), newest(rig).batch_version)[0]
    occupied = {row_before["window_start"] for row_before in rows_before}
    empty = next(start for h in range(600) if (start := min(occupied) - timedelta(minutes=10 * h)) not in occupied)
    planted = [row | {"k": "planted"}, row | {"window_start": empty, "window_end": empty + timedelta(minutes=10)}]
    schema, uri = batch_schema(rig.pipeline), rig.lake.batch_uri()
    replace_rows(uri, pa.Table.from_pylist([*rows_of(uri), *planted], schema=schema))
    rig.note("rows before", len(rows_before))
    rig.note("rows planted", len(rows_of(rig.lake.batch_uri())) - len(rows_before))
    rig.note("kept", rows_before)


def they_are_in_the_table(rig: Rig) -> bool:
    """Two rows more than before."""
    return bool(rig.evidence["rows planted"] == 2)


def compute_all_again(rig: Rig) -> None:
    """Run the batch over the whole range, as an operator would."""
    rig.batch(start=FIRST, end=LAST)


def windows_that_are_empty_are_cleared(rig: Rig) -> Iterator[str]:
    """And so is the row too many in a window that is not."""
    if rows(rig, newest(rig)) != rig.evidence["kept"]:
        yield "planted rows are still there"


def kill_reconcile(rig: Rig, *, point: Point) -> None:
    """SIGKILL the reconciler at a point, after one comparison that went well."""
    two_cuts(rig)
    rig.batch()
    rig.reconcile()
    child = rig.start(role="reconcile", block=(point, None))
    rig.note("point", child.marker().point)
    rig.note("status", child.kill())
    lines = records.read_comparisons(rig.settings, rig.pipeline.name)
    rig.note("recorded", sum(line.times for line in lines))
    rig.note("lines", len(lines))
    rig.note("reports", len(_reports(rig)))


def _reports(rig: Rig) -> list[str]:
    folder = rig.settings.reports_dir / rig.pipeline.name
    return sorted(file.stem for file in folder.glob("*.json"))


def killed_in_the_reconciler(rig: Rig, *, point: Point) -> bool:
    """Marker and -9; recorded, as a repeat, only if it was killed after that."""
    evidence = rig.evidence
    is_killed_at_point = (evidence["point"], evidence["status"]) == (point, -signal.SIGKILL)
    return is_killed_at_point and (evidence["recorded"], evidence["lines"]) == (
        2 if point == "verdict.recorded" else 1,
        1,
    )


def every_report_is_whole(rig: Rig) -> Iterator[str]:
    """Each stored comparison can be loaded, each page ends, and each recorded run has both."""
    folder, name = rig.settings.reports_dir / rig.pipeline.name, rig.pipeline.name
    for stem in _reports(rig):
        if files.read_report(rig.settings, name, stem).run.run_id != stem:
            yield f"report {stem} holds another run"
    pages = [folder / f"{line.run_id}.html" for line in records.read_comparisons(rig.settings, name)]
    for page in (*pages, folder / "latest.html"):
        if not page.is_file() or "</html>" not in page.read_text(encoding="utf-8")[-20:]:
            yield f"page {page.name} is not whole"
    yield from (f"{leftover.name} was left behind" for leftover in folder.glob(".*.tmp"))


def _batch(point: Point, title: str, *, alert: str | None = None) -> Fault:
    return Fault(
        id="F27",
        variant=point.removeprefix("batch."),
        family="batch",
        title=f"batch killed {title}",
        inject=partial(kill_batch, point=point),
        happened=partial(killed_there, point=point),
        holds=(readers_got_the_old_result_or_the_new_one, a_second_run_at_the_cut_gives_the_same_rows),
        alert=alert,
        limits={} if alert is None else {"batch_schedules": 15 / 3600},  # seconds of an hourly schedule
    )


def _reconcile(point: Point, title: str) -> Fault:
    return Fault(
        id="F27",
        variant=point.removeprefix("report.").removeprefix("verdict."),
        family="batch",
        title=f"reconciler killed {title}",
        inject=partial(kill_reconcile, point=point),
        happened=partial(killed_in_the_reconciler, point=point),
        holds=(every_report_is_whole,),
    )


FAULTS = (
    _batch("batch.read", "with the log scanned and nothing written", alert="BatchNotFresh"),
    _batch("batch.written", "with the batch table written and its run not recorded"),
    _batch("batch.committed", "after its last commit"),
    Fault(
        id="F27",
        variant="twice",
        family="batch",
        title="the same batch run started twice at the same time",
        inject=run_it_twice_at_once,
        happened=they_overlapped,
        holds=(the_second_finds_nothing_to_do,),
    ),
    Fault(
        id="F27",
        variant="emptied",
        family="batch",
        title="rows in the batch table without a record, one of them in an empty window",
        inject=plant_rows,
        happened=they_are_in_the_table,
        heal=compute_all_again,
        holds=(windows_that_are_empty_are_cleared,),
    ),
    _reconcile("report.rendered", "with the report rendered and not written"),
    _reconcile("verdict.recorded", "after its verdict was recorded"),
)
