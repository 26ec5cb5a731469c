"""Comparisons valid only for their cut: older ones, ranges, changed rows and empty ones do not open the gate."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from cutover.clock import Point, SystemClock
from cutover.definition import Policy
from cutover.definition.model.policy import Stage
from cutover.lake.control.served import current_stage
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate import stage
from cutover.reconcile.gate.decide import decide
from cutover.reconcile.gate.stage import examine_present
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict import history
from cutover.reconcile.verify.record import verify_and_record
from tests.faults.fault import ALWAYS, Fault, Part
from tests.faults.running.rig import Rig
from tests.integration.reconcile.lake_of import (
    PIPELINE,
    Sale,
    edit_batch_row,
    lake_of,
    reconcile,
    replace_batch,
    write,
)
from tests.integration.streaming.log.loss import cut_away
from tests.integration.streaming.rig import Event
from tests.support.comparison.planted import replace_rows
from tests.support.history.self_tests import record_passed

SALES = tuple(Sale(epoch=i % 3, hour=i % 7, amount=i) for i in range(21))
OLD_CUT = 0
FIRST = 100_000  # ids that the rig does not draw
ONE_RUN = Policy(max_late_share=1.0, max_malformed_share=1.0, max_future_share=1.0, runs=1)
OLD_TABLES = {"batch_schedules": 1e9}  # their run is dated by hand


def compare_older_ones_after_a_divergence(rig: Rig) -> None:
    """Diverge at the newest cut; then compare at an older cut, over a range, once more, and one that ends late."""
    rig.make = lambda: PIPELINE
    old, new = lake_of([sale for sale in SALES if sale.epoch <= OLD_CUT]), lake_of(SALES)
    write(rig.settings, replace(new, batch=old.batch, run=old.run))
    spoilt = edit_batch_row(new, 0, lambda row: row | {"most": 4711})
    replace_batch(rig.settings, replace(spoilt, run=replace(new.run, run_id="b2", finished="2026-01-06T00:00:00Z")))
    report = rig.reconcile()
    rig.exit_code = report.finding.exit_code
    rig.note("diverged", [report.run.run_id, report.finding.verdict.value, report.finding.seal.epoch])

    lake = PipelineLake(rig.settings, PIPELINE)

    def overtake(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the probe's names
        if point == "report.rendered" and not rig.evidence.get("overtaken"):
            rig.note("overtaken", reconcile(lake).finding.verdict.value)

    later = [
        reconcile(lake, epoch=OLD_CUT),
        reconcile(lake, start=datetime(2026, 1, 1, 5, tzinfo=UTC)),
        reconcile(lake, epoch=OLD_CUT),
        reconcile(lake, epoch=OLD_CUT, probe=overtake),
    ]
    rig.note("later", [_describe(result) for result in later])
    rig.note("left", _standing(rig))


def _describe(result: Report) -> str:
    finding, time = result.finding, "past" if result.run.scope_note else "present"
    return f"{finding.verdict.value} at {finding.seal.epoch}, {time}"


def _standing(rig: Rig) -> list[str | bool]:
    """Return the current comparison, whether `latest.html` shows it, and the gate's decision."""
    newest = history.find_current_comparison(rig.lake)
    folder = rig.settings.reports_dir / rig.pipeline.name
    assert newest is not None
    is_latest = (folder / "latest.html").read_text() == (folder / f"{newest.run_id}.html").read_text()
    evidence = evidence_of.read_evidence(rig.lake, SystemClock().now())
    decision = decide(Stage.LAMBDA, evidence, "advance", rig.pipeline.policy, SystemClock().now())
    return [newest.run_id, is_latest, decision.allowed, *decision.missing]


def older_ones_agreed_later(rig: Rig) -> bool:
    """The history's rows: a divergence at the newest cut, then agreement at older cuts and over a range."""
    diverged: bool = rig.evidence["diverged"][1:] == [Verdict.DIVERGED.value, 2]
    return diverged and rig.evidence["later"] == [
        "CONSISTENT at 0, past",
        "CONSISTENT at 2, past",
        "CONSISTENT at 0, past",
        "CONSISTENT at 0, past",
    ]


def all_follow_the_newest_cut(rig: Rig) -> Iterator[str]:
    """The current comparison, `latest.html` and the gate."""
    run_id, is_latest, allowed, *missing = rig.evidence["left"]
    if run_id != rig.evidence["diverged"][0]:
        yield f"run {run_id} is the current comparison"
    if not is_latest:
        yield "latest.html shows another run"
    if allowed or not any(str(text).startswith("newest run: DIVERGED at epoch 2") for text in missing):
        yield f"the gate says {allowed}: {missing}"


def mend_and_compare(rig: Rig) -> None:
    """Compute the batch right, at the same cut, and compare it whole."""
    mended = lake_of(SALES)
    replace_batch(rig.settings, replace(mended, run=replace(mended.run, run_id="b3", finished="2026-01-07T00:00:00Z")))
    rig.reconcile()


def plant_behind_the_last_run(rig: Rig, *, by_hand: bool) -> None:
    """Meet all conditions of the gate, change rows behind the last comparison, and advance.

    By hand: a foreign commit, recognizable by its name. Otherwise as a defect of the product: only rows are wrong.
    """
    _open_the_gate(rig)
    handle = delta.open_table(rig.version.uri)
    rig.note("version", int(handle.version()))
    if by_hand:
        handle.update(updates={"_n": "_n + 1"}, predicate="_kind = 'partial' AND _epoch = 0")
    else:
        partials = handle.to_pyarrow_table(partitions=[("_kind", "=", "partial")])
        rig.note("rows before", partials)
        changed_rows = [row | {"_n": row["_n"] + (row["_epoch"] == 0)} for row in partials.to_pylist()]
        replace_rows(rig.version.uri, pa.Table.from_pylist(changed_rows, schema=partials.schema), kind="partial")
    rig.note("version after", int(delta.open_table(rig.version.uri).version()))
    _advance(rig)


def lose_records_before_the_move(rig: Rig) -> None:
    """Meet all conditions of the gate, lose unread records, and advance."""
    _open_the_gate(rig)
    rig.send(rig.draw(20))
    ends = rig.client.latest(rig.topic)
    rig.note("lost", rig.unread())
    cut_away(rig.settings, rig.topic, ends)
    _advance(rig)


def _open_the_gate(rig: Rig) -> None:
    """Compare everything read, so that the recorded and the present evidence both allow a move."""
    rig.define(policy=ONE_RUN)
    rig.send(rig.draw(60))
    rig.close_windows()
    rig.drain()
    rig.batch()
    rig.reconcile()
    record_passed(rig.lake)
    rig.note("before", _is_move_allowed(rig))
    present_state = examine_present(rig.lake, SystemClock())
    rig.note(
        "present",
        [present_state.run.is_within_policy, present_state.reason, *present_state.violations, *present_state.pages],
    )


def _advance(rig: Rig) -> None:
    decision = stage.move(rig.lake, "advance", "drill", SystemClock())
    rig.note("refused", [not decision.allowed, *decision.missing])
    rig.note("stage", str(current_stage(rig.lake)))


def _is_move_allowed(rig: Rig) -> bool:
    evidence = evidence_of.read_evidence(rig.lake, SystemClock().now())
    return decide(Stage.LAMBDA, evidence, "advance", rig.pipeline.policy, SystemClock().now()).allowed


def the_gate_was_open_before(rig: Rig) -> bool:
    """The recorded evidence allowed the move; then rows changed, in a separate version."""
    evidence = rig.evidence
    return _was_open(rig) and bool(evidence["version after"] == evidence["version"] + 1)


def _was_open(rig: Rig) -> bool:
    is_within_policy, _, *against = rig.evidence["present"]
    return bool(rig.evidence["before"] and is_within_policy and not against)


def records_were_lost(rig: Rig) -> bool:
    """The log begins behind the stream's position, and the gate was open before."""
    emptied = rig.client.earliest(rig.topic) == rig.client.latest(rig.topic)
    return _was_open(rig) and rig.evidence["lost"] > 0 and emptied


def the_move_is_refused_with_the_reason(rig: Rig, *, reason: str) -> Iterator[str]:
    """The comparison inside the move names the reason; the stage is unchanged."""
    refused, *missing = rig.evidence["refused"]
    if not refused or not any(str(text).startswith(reason) for text in missing):
        yield f"the gate says {missing}"
    if rig.evidence["stage"] != Stage.LAMBDA:
        yield f"the stage is {rig.evidence['stage']}"


def restore(rig: Rig) -> None:
    """Undo the change, in a separate version."""
    delta.open_table(rig.version.uri).restore(rig.evidence["version"])


def restore_rows(rig: Rig) -> None:
    """Restore the earlier rows."""
    replace_rows(rig.version.uri, rig.evidence["rows before"], kind="partial")


def judge_again(rig: Rig) -> None:
    """Compare and verify all."""
    rig.reconcile()
    verify_and_record(rig.lake, exhaustive=True)


def send_nothing_that_counts(rig: Rig) -> None:
    """Send records of which all are malformed, read them, compute the batch, compare."""
    rig.send(Event(id=FIRST + n, minute=n, partition=n % 2, raw=b'{"id": ') for n in range(12))
    _run_all(rig)


def send_open_windows(rig: Rig) -> None:
    """Send records of one window that does not close."""
    rig.send(Event(id=FIRST + n, minute=1 + n / 100, partition=n % 2) for n in range(12))
    _run_all(rig)


def _run_all(rig: Rig) -> None:
    rig.drain()
    rig.batch()
    report = rig.reconcile()
    rig.exit_code, rig.said = report.finding.exit_code, report.finding.sentence
    rig.note("compared", report.finding.windows.compared)
    rig.note("verdict", report.finding.verdict.value)
    rig.note(
        "page", (rig.settings.reports_dir / str(report.run.page)).read_text(encoding="utf-8").count("\N{CHECK MARK}")
    )
    rig.note("counted", sum(n for n, _, _ in rig.count_by_cell().values()))


def nothing_was_compared(rig: Rig, *, expected_count: int) -> bool:
    """The table counts `expected_count` records, and no window was compared."""
    return (rig.evidence["compared"], rig.evidence["counted"]) == (0, expected_count)


def it_says_why_and_what_is_next(rig: Rig) -> Iterator[str]:
    """NOT_COMPARABLE, without a tick."""
    if rig.evidence["verdict"] != Verdict.NOT_COMPARABLE or rig.evidence["page"]:
        yield f"the verdict is {rig.evidence['verdict']}, with {rig.evidence['page']} ticks"
    for part in ("expected a closed window to compare, got", " Hint: ", "`cutover "):
        if part not in rig.said:
            yield f"`{part}` is not in `{rig.said}`"


def send_more(rig: Rig) -> None:
    """Send records that close windows."""
    rig.send(rig.draw(60))
    rig.close_windows()


def refused_by_the_comparison(rig: Rig) -> Iterator[str]:
    """The comparison inside the move found the rows."""
    return the_move_is_refused_with_the_reason(rig, reason="compared now: ")


def refused_by_the_writer(rig: Rig) -> Iterator[str]:
    """A table with a foreign writer is no evidence."""
    return the_move_is_refused_with_the_reason(rig, reason="tables: Table")


def refused_by_the_alert(rig: Rig) -> Iterator[str]:
    """The page that fires is the reason."""
    return the_move_is_refused_with_the_reason(rig, reason="alerts now: LogDataLost")


def leave_it(_: Rig) -> None:
    """Settle nothing: the records are deleted."""


FAULTS = (
    Fault(
        id="F37",
        variant="older",
        family="findings",
        title="older cuts and ranges compared after a divergence at the newest cut",
        inject=compare_older_ones_after_a_divergence,
        happened=older_ones_agreed_later,
        needs=frozenset({Part.LAKE}),
        limits=OLD_TABLES,
        settle=mend_and_compare,
        checks=(),
        holds=(all_follow_the_newest_cut,),
        alert="DivergenceUnexplained",
        exit_code=1,
    ),
    Fault(
        id="F37",
        variant="behind",
        family="findings",
        title="rows changed after the last comparison, then `gate advance`",
        inject=partial(plant_behind_the_last_run, by_hand=False),
        happened=the_gate_was_open_before,
        heal=restore_rows,
        settle=judge_again,
        holds=(refused_by_the_comparison,),
        checks=tuple(name for name in ALWAYS if name != "N2"),
        alert="InvariantBroken",
        also=("DivergenceUnexplained",),
        stays=True,  # a commit without a name
    ),
    Fault(
        id="F37",
        variant="behind-by-hand",
        family="findings",
        title="rows changed by another writer after the last comparison, then `gate advance`",
        inject=partial(plant_behind_the_last_run, by_hand=True),
        happened=the_gate_was_open_before,
        heal=restore,
        settle=judge_again,
        holds=(refused_by_the_writer,),
        alert="ForeignWrite",
    ),
    Fault(
        id="F37",
        variant="lost",
        family="findings",
        title="records lost without an accepted loss, then `gate advance`",
        inject=lose_records_before_the_move,
        happened=records_were_lost,
        settle=leave_it,
        verdicts=frozenset(),
        checks=(),
        holds=(refused_by_the_alert,),
        alert="LogDataLost",
        stays=True,  # until an operator accepts the loss
    ),
    Fault(
        id="F40",
        variant="malformed",
        family="findings",
        title="nothing to compare: all records are malformed",
        inject=send_nothing_that_counts,
        happened=partial(nothing_was_compared, expected_count=0),
        heal=send_more,
        holds=(it_says_why_and_what_is_next,),
        alert="NotComparable",
        exit_code=2,
    ),
    Fault(
        id="F40",
        variant="open",
        family="findings",
        title="nothing to compare: every window is still open",
        inject=send_open_windows,
        happened=partial(nothing_was_compared, expected_count=12),
        heal=send_more,
        holds=(it_says_why_and_what_is_next,),
        alert="NotComparable",
        exit_code=2,
    ),
)
