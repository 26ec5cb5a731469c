"""Hosts whose clocks disagree compute, repair and compare in turn: order is by sequence, never by time."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise

from cutover.batch.repair.repair import make_draft, publish_draft
from cutover.clock import SystemClock
from cutover.lake import batch_runs
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.lake.serving import serving_table, views
from cutover.lake.tables import delta
from cutover.pipeline_lake import serving_uri
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate.decide import select_consecutive_runs
from cutover.reconcile.verdict import history
from tests.faults.fault import Fault
from tests.faults.running.clocks import WrongClock
from tests.faults.running.rig import Rig

HOUR = 3_600.0
YEARS, DAYS = 3 * 365 * 24 * HOUR, 2 * 24 * HOUR


def run_hosts_in_turn(rig: Rig, *, clocks: Sequence[float]) -> None:
    """Send, read, compute and compare once for each host; the second to last repairs instead of computing all.

    Args:
        rig: The installation.
        clocks: Seconds that each host's clock is ahead.
    """
    for turn, off in enumerate(clocks):
        clock = WrongClock(off)
        rig.send(rig.draw(40, late=0.2))
        rig.close_windows()
        rig.drain()
        if turn == len(clocks) - 2:
            draft = make_draft(rig.lake, (), clock=clock).draft
            assert draft is not None, "no window was dirty"
            publish_draft(rig.lake, draft.repair_id, clock=clock)
        else:
            rig.batch(clock=clock)
        if not turn:
            serving_table.publish(rig.lake)
        rig.reconcile(clock=clock)
    rig.reconcile(clock=WrongClock(min(clocks) - DAYS))
    rig.note("turns", len(clocks))
    rig.note("runs ended", [run.finished for run in batch_runs.read_effective_runs(rig.lake)])
    rows = Journal(rig.settings, rig.pipeline.name, ComparisonRow).read()
    rig.note("compared", [row.at.isoformat() for row in rows])


def recorded_times_are_out_of_order(rig: Rig) -> bool:
    """In the order of their sequence neither the runs' ends nor the comparisons' times ascend."""
    return all(any(later < earlier for earlier, later in pairwise(rig.evidence[n])) for n in ("runs ended", "compared"))


def readers_are_served_what_one_clock_gives(rig: Rig) -> Iterator[str]:
    """The view and the published table, compared with an installation that read the same log with one clock."""
    other = rig.add_installation("one-clock")
    other.drain()
    other.batch()
    expected = _serve(other)
    if not expected:
        yield "nothing is served"
    if _serve(rig) != expected:
        yield "the view `serving` has other rows"
    if _read_published(rig) != expected:
        yield "the serving table has other rows"


def _serve(rig: Rig) -> list[str]:
    """Return what is served of each window and key, however it was brought about."""
    with closing(views.open_views(rig.lake)) as connection:
        return sorted(map(str, connection.execute("SELECT * FROM serving").fetchall()))


def _read_published(rig: Rig) -> list[str]:
    with closing(views.open_views(rig.lake)) as connection:
        delta.relation(connection, "published", serving_uri(rig.settings, rig.pipeline.name))
        return sorted(map(str, connection.execute("SELECT * EXCLUDE (_month) FROM published").fetchall()))


def each_offset_was_scanned_by_one_run(rig: Rig) -> Iterator[str]:
    """In the order of the runs each begins where those before it ended."""
    ends: dict[int, int] = {}
    for run in batch_runs.read_effective_runs(rig.lake):
        for partition, (start, end) in run.scanned.items():
            if start != ends.get(partition, 0):
                yield f"run {run.sequence} scanned partition {partition} from {start}, not {ends.get(partition, 0)}"
            ends[partition] = end


def the_newest_comparison_speaks_and_each_cut_counts_once(rig: Rig) -> Iterator[str]:
    """The history's present, and the runs that count for the gate."""
    present = history.find_current_comparison(rig.lake)
    if present is None or present.run_id != rig.reconciliations[-1].run.run_id:
        yield "another comparison is the current one"
    runs = evidence_of.read_evidence(rig.lake, SystemClock().now()).runs
    counted_epochs = [run.epoch for run in select_consecutive_runs(runs, SystemClock().now())]
    cuts = sorted({run.epoch for run in runs})
    if counted_epochs != cuts:
        yield f"expected the cuts {cuts} to count, got {counted_epochs}"


def _skewed_hosts(variant: str, title: str, *clocks: float) -> Fault:
    return Fault(
        id="F43",
        variant=variant,
        family="findings",
        title=title,
        inject=partial(run_hosts_in_turn, clocks=clocks),
        happened=recorded_times_are_out_of_order,
        holds=(
            readers_are_served_what_one_clock_gives,
            each_offset_was_scanned_by_one_run,
            the_newest_comparison_speaks_and_each_cut_counts_once,
        ),
    )


FAULTS = (
    _skewed_hosts("hosts", "batch, repair and reconcile from hosts an hour apart", HOUR, 0.0, HOUR, 0.0),
    _skewed_hosts("ahead", "a batch run and a comparison dated years ahead", 0.0, YEARS, 0.0, 0.0),
    _skewed_hosts("back", "a clock that steps back by two days between two runs", 0.0, -DAYS, -DAYS, 0.0),
)
