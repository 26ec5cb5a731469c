"""A log that shrinks inside: both paths name the records that compaction or a deletion removed, at any position."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from cutover.batch.recompute import recompute_windows
from cutover.clock import SystemClock
from cutover.definition.model.policy import Stage
from cutover.errors import CutoverError, LogError
from cutover.lake.serving import views
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import decide
from cutover.reconcile.result.finding import Verdict
from cutover.streaming.recovery import accept_loss
from tests.faults.catalogue.log import loss, transactions
from tests.faults.fault import AGREE, Fault, Hold
from tests.faults.running.rig import Rig
from tests.support.log import compacted
from tests.support.oracle.records import append

RUNBOOK = "LogDataLost"
CLOCK = SystemClock()
MOST_STEPS = 3  # accepted losses, each followed by a start


def _note_gone(rig: Rig, positions: compacted.Positions) -> None:
    """Note the deleted positions, and mark the unread ones in the oracle: they must be nowhere."""
    ends = rig.records()[-1].end
    unread = {(p, offset) for p, offset in positions if offset >= ends.get(p, 0)}
    rig.note("gone", sorted(positions))
    rig.note("unread", len(unread))
    _mark_deleted(rig, unread)


def _mark_deleted(rig: Rig, positions: Collection[tuple[int, int]]) -> None:
    """Mark the records at some positions in the oracle: they must be nowhere."""
    deleted = [
        oracle_record
        for oracle_record in rig.oracle.records
        if (oracle_record.partition, oracle_record.offset) in positions
    ]
    append(rig.oracle_file, [replace(oracle_record, outcome="aborted") for oracle_record in deleted])


def _note_refusals(rig: Rig) -> None:
    """Run both paths and the reconciler on the log; keep their messages, and what readers were served before."""
    rig.note("served", _read_served(rig))
    rig.refused(lambda: recompute_windows(rig.lake))
    rig.note("batch said", rig.said)
    rig.refused(lambda: recompute_windows(rig.lake, anew=True))
    rig.note("batch --anew said", rig.said)
    report = rig.reconcile()
    rig.note(
        "stood",
        [report.finding.verdict.value, report.finding.exit_code, str(report.finding.runbook), report.finding.sentence],
    )


def _agree(rig: Rig, **changes: object) -> None:
    """Make both paths agree over a log of many segments."""
    rig.define(lateness=loss.LATENESS, **changes)
    _send_in_parts(rig, 120)
    rig.drain()
    rig.batch()
    rig.reconcile()


def _send_in_parts(rig: Rig, count: int) -> None:
    """Send records, twenty at a time: each part begins a new segment."""
    for _ in range(0, count, 20):
        rig.send(rig.draw(20))


def compact_what_was_read(rig: Rig) -> None:
    """Compact what both paths have read and agreed on, while no driver runs; then restore the policy."""
    compacted.roll_segments(rig.settings, rig.topic)
    _agree(rig)
    deleted = compacted.compact(rig.settings, rig.topic, least=40)
    during = rig.reconcile()
    rig.note("while compacted", [during.finding.verdict.value, str(during.finding.runbook)])
    compacted.disable_compaction(rig.settings, rig.topic)
    _note_gone(rig, deleted)
    _note_refusals(rig)


def compact_before_a_driver(rig: Rig, *, is_policy_kept: bool) -> None:
    """Compact what a running driver has not read: it is inside an epoch, with more to read behind it."""
    compacted.roll_segments(rig.settings, rig.topic)
    _agree(rig, cap=20)
    newest = rig.newest()
    rig.send(rig.draw(10))
    driver = rig.start(block=("epoch.planned", newest + 1))
    driver.marker()
    _send_in_parts(rig, 200)
    deleted = compacted.compact(rig.settings, rig.topic, least=150)
    if not is_policy_kept:
        compacted.disable_compaction(rig.settings, rig.topic)
    driver.release()
    rig.expect_end(driver)
    compacted.disable_compaction(rig.settings, rig.topic)
    _note_gone(rig, deleted)
    loss.reject(rig)
    rig.note("served", _read_served(rig))


def delete_what_was_read(rig: Rig) -> None:
    """Delete the first half of what both paths have read; then late records make batch read these windows again."""
    loss.agree_on_whole_log(rig)
    rig.note("served", _read_served(rig))
    positions_before = compacted.read_positions(rig.settings, rig.topic)
    loss.cut_behind_the_end(rig)
    rig.note("gone", sorted(positions_before - compacted.read_positions(rig.settings, rig.topic)))
    rig.send(rig.draw(40, late=0.5))
    rig.drain()


def records_are_gone(rig: Rig) -> bool:
    """Return whether an own reader no longer gets records that it got before."""
    deleted = [tuple(position) for position in rig.evidence["gone"]]
    return bool(deleted) and not set(deleted) & compacted.read_positions(rig.settings, rig.topic)


def records_that_nobody_had_read_are_gone(rig: Rig) -> bool:
    """Return whether records went that the newest epoch ended before."""
    return records_are_gone(rig) and rig.evidence["unread"] > 0


def accept_and_continue(rig: Rig) -> None:
    """Take the recorded step, and read on; a new version that starts on the remaining log meets the loss again."""
    accept_loss.preview_losses(rig.lake, CLOCK)
    rig.note("recorded by a look", len(loss.list_recorded(rig)))
    rig.note("batch before", loss.batch_rows(rig))
    for _ in range(MOST_STEPS):
        accept_loss.record_losses(rig.lake, loss.WHY, CLOCK)
        try:
            rig.drain()
        except LogError as error:
            rig.note("said behind a step", str(error))
        else:
            break
    if rig.version.number:  # a new version: what the old one had read and the log has lost is nowhere in it
        _mark_deleted(rig, {(p, offset) for p, offset in rig.evidence["gone"]})
    rig.note(
        "recorded",
        [
            [recorded_loss.kind, recorded_loss.partition, recorded_loss.first, recorded_loss.next]
            for recorded_loss in loss.list_recorded(rig)
        ],
    )
    gate_evidence = evidence.read_evidence(rig.lake, CLOCK.now())
    decision = decide(Stage.LAMBDA, gate_evidence, "advance", rig.pipeline.policy, CLOCK.now())
    rig.note("gate", [condition.name for condition in decision.conditions if not condition.is_met])
    rig.send(rig.draw(150))


def the_step_holds_for_the_version_that_goes_on(rig: Rig) -> Iterator[str]:
    """A loss inside the log is recorded for the current version: it continues, and no other version begins."""
    newest = rig.version.number
    for recorded_loss in loss.list_recorded(rig):
        if recorded_loss.kind == "inside" and recorded_loss.stream_version > newest:
            version = f"stream-{recorded_loss.stream_version}"
            yield f"partition {recorded_loss.partition} is recorded for {version}, stream-{newest} continues"


def a_look_records_nothing(rig: Rig) -> Iterator[str]:
    """The preview has no effect."""
    if rig.evidence["recorded by a look"]:
        yield f"a look recorded {rig.evidence['recorded by a look']} rows"


def the_rows_hold_every_offset_that_went(rig: Rig) -> Iterator[str]:
    """Each lies in a recorded range of its partition."""
    ranges = [
        (recorded_loss.partition, recorded_loss.first, recorded_loss.next or 0)
        for recorded_loss in loss.list_recorded(rig)
    ]
    if not any(recorded_loss.kind == "inside" for recorded_loss in loss.list_recorded(rig)):
        yield f"expected a loss inside the log, recorded are {rig.evidence['recorded']}"
    for partition, offset in rig.evidence["gone"]:
        if not any(p == partition and range_start <= offset < end for p, range_start, end in ranges):
            yield f"partition {partition}, offset {offset} lies in no recorded range: {ranges}"


def both_paths_named_the_loss(rig: Rig) -> Iterator[str]:
    """The batch, whatever its options, and the comparison, at a cut where both sides had agreed."""
    for note in ("batch said", "batch --anew said"):
        text = str(rig.evidence[note])
        if "hold no record any more" not in text or rig.topic not in text or RUNBOOK not in text:
            yield f"{note}: {text}"
    verdict, code, runbook, sentence = rig.evidence["stood"]
    if (verdict, code, runbook) != (Verdict.NOT_COMPARABLE.value, 2, RUNBOOK):
        yield f"the comparison said {verdict}, exit code {code}, runbook {runbook}: {sentence}"


def a_compacted_topic_was_not_compared(rig: Rig) -> Iterator[str]:
    """While the policy stood, the verdict named it."""
    if rig.evidence["while compacted"] != [Verdict.NOT_COMPARABLE.value, RUNBOOK]:
        yield f"it said {rig.evidence['while compacted']}"


def no_row_went_that_was_served(rig: Rig) -> Iterator[str]:
    """Every window and key that was served is still served, with a state that says what it is."""
    now = _read_served(rig)
    for cell, state in rig.evidence["served"].items():
        if cell not in now:
            yield f"window {cell}, {state}, has no row any more"


def the_verdict_claims_no_unexplained_difference(rig: Rig) -> Iterator[str]:
    """No comparison since the loss has a difference without a cause."""
    for reconciliation in rig.reconciliations:
        if reconciliation.finding.policy.unexplained:
            yield f"{reconciliation.finding.policy.unexplained} unexplained: {reconciliation.finding.sentence}"


def _read_served(rig: Rig) -> dict[tuple[int, str | None], str]:
    query = "SELECT epoch_us(window_start), k, _state FROM serving"
    try:
        rows = views.open_views(rig.lake).execute(query).fetchall()
    except CutoverError:
        return {}
    return {(start, key): state for start, key, state in rows}


def commit_and_abort_everywhere(rig: Rig) -> None:
    """Every range holds aborted records and control records; batch reads some of it twice."""
    for number in range(6):
        rig.send(rig.draw(20))
        aborting, committing = (
            transactions.transaction(rig, f"{name}-{number}") for name in ("aborting", "committing")
        )
        rig.send(rig.draw(8), by=aborting, outcome="aborted")
        rig.send(rig.draw(15, late=0.1), by=committing)
        committing.commit_transaction(30)
        aborting.abort_transaction(30)
        rig.drain()
        rig.batch()
        rig.reconcile()
    rig.batch(anew=True)
    rig.close_windows()


def _shrinks(
    variant: str,
    title: str,
    inject: Callable[[Rig], None],
    happened: Callable[[Rig], bool],
    *holds: Hold,
) -> Fault:
    return Fault(
        id="F42",
        variant=variant,
        family="loss",
        title=f"records inside the log are removed: {title}",
        inject=inject,
        happened=happened,
        heal=accept_and_continue,
        holds=(
            *holds,
            a_look_records_nothing,
            the_step_holds_for_the_version_that_goes_on,
            the_rows_hold_every_offset_that_went,
            no_row_went_that_was_served,
            the_verdict_claims_no_unexplained_difference,
            loss.the_report_leaves_them_out_and_says_so,
            loss.no_touched_window_was_replaced,
            loss.the_gate_was_shut,
        ),
        alert=RUNBOOK,
        may=loss.HEADROOM,  # while the topic is compacted nothing in it is kept for any time
        exit_code=2,
        timeout_seconds=400,
    )


FAULTS = (
    _shrinks(
        "a-read",
        "compacted after it was read, driver stopped",
        compact_what_was_read,
        records_are_gone,
        both_paths_named_the_loss,
        a_compacted_topic_was_not_compared,
    ),
    _shrinks(
        "b-unread",
        "compacted for a while before a living driver",
        partial(compact_before_a_driver, is_policy_kept=False),
        records_that_nobody_had_read_are_gone,
    ),
    _shrinks(
        "b-unread-policy-stays",
        "compacted before a living driver, and still compacted",
        partial(compact_before_a_driver, is_policy_kept=True),
        records_that_nobody_had_read_are_gone,
    ),
    Fault(
        id="F42",
        variant="c-deleted",
        family="loss",
        title="records inside the log are removed: its first half, after it was read and while it is needed again",
        inject=delete_what_was_read,
        happened=records_are_gone,
        holds=(no_row_went_that_was_served, the_verdict_claims_no_unexplained_difference),
        may=loss.HEADROOM,
        verdicts=AGREE,
        checks=("N2", "N3", "N5", "N6"),
        timeout_seconds=400,
    ),
    Fault(
        id="F42",
        variant="control",
        family="loss",
        title="control records and aborted transactions in every range",
        inject=commit_and_abort_everywhere,
        happened=transactions.an_uncommitted_reader_sees_more,
        verdicts=AGREE,
        holds=(the_verdict_claims_no_unexplained_difference,),
        timeout_seconds=400,
    ),
)
