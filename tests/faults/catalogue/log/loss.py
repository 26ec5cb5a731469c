"""The log loses what was not read, or is made again: nothing is written over it, and what is lost is on record."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from cutover.clock import SystemClock
from cutover.definition import Lateness
from cutover.engine import queries
from cutover.lake.control import losses, versions
from cutover.lake.control.stages import Stage
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.journal_rows import Loss
from cutover.lake.paths import batch_uri
from cutover.lake.serving import views
from cutover.lake.tables import delta
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import decide
from cutover.streaming.recovery import accept_loss
from tests.faults.fault import Fault
from tests.faults.refused import text_of
from tests.faults.running.rig import Rig
from tests.integration.streaming.log import loss as harm
from tests.support.oracle.records import OracleRecord

CLOCK = SystemClock()
LATENESS = Lateness(out_of_orderness="5 minutes", allowed="0 seconds", max_ahead="10 minutes")
WHY = "a drill"
HEADROOM = frozenset({"RetentionHeadroomLow"})  # the log's beginning moves fast, before the loss and after it
_GATE = "losses"

Cell = tuple[int, tuple[object, ...]]


def whole(rig: Rig) -> None:
    """Make both paths agree over a log that is whole: what later is lost has a history before it."""
    rig.define(lateness=LATENESS)
    rig.send(rig.draw(120))  # enough to close windows: nothing compared would be no agreement
    rig.drain()
    rig.batch()
    rig.reconcile()


def cut_behind_the_end(rig: Rig) -> None:
    """Let the log forget half of what was read: one more such step would reach the reader, so the headroom is low."""
    rig.alerts()
    harm.cut_away(rig.settings, rig.topic, {p: (end + 1) // 2 for p, end in rig.records()[-1].end.items()})
    rig.note("headroom", text_of(rig, "RetentionHeadroomLow"))


def lose(rig: Rig, count: int, after: int) -> None:
    """Send records, then more, and let the log forget the first ones before anybody has read them."""
    lost = rig.send(rig.draw(count))
    rig.send(rig.draw(after))
    keep = {p: 1 + max(s.offset or 0 for s in lost if s.partition == p) for p in {s.partition for s in lost}}
    harm.cut_away(rig.settings, rig.topic, keep)
    rig.note("cut to", keep)


def lose_while_stopped(rig: Rig) -> None:
    """Retention passes the end of the newest epoch of a stream that does not run."""
    whole(rig)
    cut_behind_the_end(rig)
    lose(rig, 40, 100)
    refuse(rig)


def lose_while_running(rig: Rig) -> None:
    """Retention passes the reader of a driver that stands in an epoch, with more to read than it has fetched."""
    whole(rig)
    cut_behind_the_end(rig)
    newest = rig.newest()
    rig.send(rig.draw(20))
    driver = rig.start(block=("epoch.planned", newest + 1))
    driver.marker()
    lose(rig, 200, 100)
    driver.release()
    rig.ended(driver)
    refuse(rig)


def refuse(rig: Rig) -> None:
    """Start the stream, which has to end before it writes; keep what it said and what the table was."""
    rig.note("table before", rig.transaction())
    rig.refused(rig.drain)
    rig.note("said", rig.said)


def the_log_begins_behind_the_reader(rig: Rig) -> bool:
    """Return whether the earliest offset of a partition is greater than the end of the newest epoch."""
    earliest, end = rig.client.earliest(rig.topic), rig.records()[-1].end
    return any(earliest[p] > end[p] for p in end)


def make_again(rig: Rig, *, count: int, running: bool) -> None:
    """Delete the topic and make it again under its name, with `count` records of its own."""
    whole(rig)
    rig.note("old id", rig.client.topic_id(rig.topic))
    if running:
        rig.send(rig.draw(20))
        driver = rig.start(block=("epoch.planned", rig.newest() + 1))
        driver.marker()
        _again(rig, count)
        driver.release()
        rig.ended(driver)
    else:
        _again(rig, count)
    refuse(rig)


def _again(rig: Rig, count: int) -> None:
    rig.note("old end", dict(rig.records()[-1].end))
    harm.recreate(rig.settings, rig.topic)
    rig.send(rig.draw(count))


def the_topic_is_another(rig: Rig, *, longer: bool) -> bool:
    """Return whether the topic id differs, and the new log's end stands to the old end as the variant says."""
    old, ends = rig.evidence["old end"], rig.client.latest(rig.topic)
    beyond = all(ends[p] > end for p, end in old.items()) if longer else all(ends[p] < end for p, end in old.items())
    return beyond and rig.client.topic_id(rig.topic) != rig.evidence["old id"]


def go_on(rig: Rig) -> None:
    """Look at the step, find nothing recorded by that, find the stream refused still; take it; read on."""
    shown = accept_loss.preview(rig.settings, rig.pipeline, CLOCK)
    rig.note("recorded by a look", len(losses.list_losses(rig.settings, rig.pipeline)))
    refuse(rig)
    rig.note("batch before", batch_rows(rig))
    step = accept_loss.accept(rig.settings, rig.pipeline, WHY, CLOCK)
    rig.note("shown as recorded", [_shape(loss) for loss in shown.losses] == [_shape(loss) for loss in step.losses])
    found = evidence.read(rig.settings, rig.pipeline, CLOCK.now())
    decision = decide(Stage.LAMBDA, found, "advance", rig.pipeline.policy, CLOCK.now())
    rig.note("gate", [condition.name for condition in decision.conditions if not condition.is_met])
    rig.drain()
    rig.send(rig.draw(150))


def _shape(loss: Loss) -> tuple[object, ...]:
    return (loss.kind, loss.topic_id, loss.partition, loss.first, loss.next, loss.windows)


def batch_rows(rig: Rig) -> dict[Cell, tuple[int, ...]]:
    """Return the batch table's rows of touched windows after the loss, of all windows before it."""
    connection = queries.connect()
    delta.relation(connection, "batch", batch_uri(rig.settings, rig.pipeline))
    query = "SELECT epoch_us(window_start), k, _n, ids::BIGINT, squares::BIGINT FROM batch"
    return {(row[0], (row[1],)): tuple(map(int, row[2:])) for row in connection.execute(query).fetchall()}


def recorded(rig: Rig) -> tuple[Loss, ...]:
    """Return what was recorded."""
    return losses.list_losses(rig.settings, rig.pipeline)


def unread(rig: Rig, loss: Loss) -> list[OracleRecord]:
    """Return what the oracle sent into the lost range."""
    return [
        sent
        for sent in rig.oracle.records
        if (sent.topic_id, sent.partition) == (loss.topic_id, loss.partition)
        and sent.offset is not None
        and loss.first <= sent.offset < (sent.offset + 1 if loss.next is None else loss.next)
    ]


def the_stream_said_so_before_it_wrote(rig: Rig) -> Iterator[str]:
    """One message, no stack, no commit since; a look at the step records nothing and opens nothing."""
    said, seen = str(rig.evidence["said"]), rig.evidence
    if "Caused by" in said or "\tat " in said or "accept-loss" not in said:
        yield f"expected one message that names the step, got: {said}"
    if seen["recorded by a look"]:
        yield f"a look recorded {seen['recorded by a look']} rows"
    if not seen["shown as recorded"]:
        yield "what was recorded is not what was shown"


def the_lost_range_is_named(rig: Rig) -> Iterator[str]:
    """The message: partition, expected offset, where the log starts, how many are gone."""
    end = rig.records()[-1].end  # of partitions only: offsets are those of the recorded rows
    for loss in recorded(rig):
        gone = (loss.next or 0) - loss.first
        text = (
            f"partition {loss.partition}: expected offset {loss.first}, log starts at {loss.next}: {gone} offsets are"
        )
        if loss.partition not in end or text not in str(rig.evidence["said"]):
            yield f"expected `{text}` in: {rig.evidence['said']}"


def the_rows_name_exactly_what_was_lost(rig: Rig) -> Iterator[str]:
    """No acked id of a recorded range is counted or in the ledger, and every acked id outside is read."""
    inside = {sent.id for loss in recorded(rig) for sent in unread(rig, loss)}
    if not inside:
        yield "no acked id lies in a recorded range"
    ends, first = rig.records()[-1].end, {loss.partition: loss.first for loss in recorded(rig)}
    for sent in rig.oracle.records:
        skipped = sent.offset is not None and first.get(sent.partition, ends[sent.partition]) <= sent.offset
        cut_to = rig.evidence["cut to"].get(sent.partition, 0)
        if sent.offset is not None and (sent.id in inside) != (skipped and sent.offset < cut_to):
            yield f"id {sent.id} at partition {sent.partition}, offset {sent.offset}: in the rows {sent.id in inside}"


def every_lost_window_reads_incomplete(rig: Rig) -> Iterator[str]:
    """Windows of lost records that were not final: in the rows, in the serving view and in the batch's run."""
    ranges = losses.find_touched_windows(recorded(rig))
    fed = {s.window_start for one in recorded(rig) for s in unread(rig, one) if s.window_start is not None}
    final = {start for start, _ in rig.evidence["batch before"]}
    for start in sorted(fed - final):
        if not losses.is_touched(start, ranges):
            yield f"window {start}: lost records, and no recorded row touches it"
    yield from _states(rig, ranges)
    if not any(entry.reason == "lost" for entry in rig.runs[-1].incomplete):
        yield f"the batch run names no lost window: {rig.runs[-1].incomplete}"


def _states(rig: Rig, ranges: Iterable[tuple[int, int]]) -> Iterator[str]:
    spans = tuple(ranges)
    for view in ("serving", "streaming"):
        query = f"SELECT DISTINCT epoch_us(window_start), _state FROM {view}"  # noqa: S608 -- one of two names of ours
        for start, state in views.connect(rig.settings, rig.pipeline).execute(query).fetchall():
            if losses.is_touched(start, spans) != (state == "incomplete(lost)"):
                yield f"{view}, window {start}: reads {state}"


def the_report_leaves_them_out_and_says_so(rig: Rig) -> Iterator[str]:
    """Counted as lost, named with their ranges, never compared; what is compared lies outside."""
    last = rig.reconciliations[-1]
    if not last.finding.windows.incomplete_because.get("lost") or last.finding.loss is None or not last.finding.losses:
        yield f"the report does not say what was lost: {last.finding.windows}, {last.finding.loss}"
    if not last.finding.windows.compared:
        yield "no window behind the loss was compared"
    counted = rig.counted()
    spans = losses.find_touched_windows(recorded(rig))
    outside = {start for start, _ in counted if not losses.is_touched(start, spans)}
    if last.finding.windows.compared > len(outside):
        yield f"{last.finding.windows.compared} windows were compared, {len(outside)} are not touched"


def no_touched_window_was_replaced(rig: Rig) -> Iterator[str]:
    """The batch table holds of every touched window what it held before, whole; and nothing new."""
    spans, now = losses.find_touched_windows(recorded(rig)), batch_rows(rig)
    before = {cell: value for cell, value in rig.evidence["batch before"].items() if losses.is_touched(cell[0], spans)}
    after = {cell: value for cell, value in now.items() if losses.is_touched(cell[0], spans)}
    if before != after:
        yield f"touched windows of the batch table: {len(before)} rows before, {len(after)} after, not the same"


def the_gate_was_shut(rig: Rig) -> Iterator[str]:
    """With a named reason, as long as the evidence is from before the loss."""
    if _GATE not in rig.evidence["gate"]:
        yield f"the gate asked for {rig.evidence['gate']}"


def the_old_table_holds_no_id_of_the_new_log(rig: Rig) -> Iterator[str]:
    """It stays as it was, beside the new version."""
    old, new = versions.list_versions(rig.settings, rig.pipeline)
    log = EpochLog(old.uri)
    if log.transaction(old.app_id) != rig.evidence["table before"]:
        yield f"the old table went on to epoch {log.transaction(old.app_id)}"
    ids = {record.topic_id for record in log.records()}
    if ids != {rig.evidence["old id"]}:
        yield f"the old table was read from {ids}"
    fresh = {record.topic_id for record in EpochLog(new.uri).records()}
    if fresh != {rig.client.topic_id(rig.topic)}:
        yield f"the new table was read from {fresh}"


def everything_that_the_old_log_fed_is_touched(rig: Rig) -> Iterator[str]:
    """The new log cannot give it again."""
    spans, old = losses.find_touched_windows(recorded(rig)), rig.evidence["old id"]
    fed = {sent.window_start for sent in rig.oracle.records if sent.topic_id == old and sent.window_start is not None}
    yield from (f"window {start} is not touched" for start in sorted(fed) if not losses.is_touched(start, spans))


_ALWAYS = (
    the_stream_said_so_before_it_wrote,
    the_report_leaves_them_out_and_says_so,
    no_touched_window_was_replaced,
    the_gate_was_shut,
)


def _passed(variant: str, title: str, inject: Callable[[Rig], None]) -> Fault:
    return Fault(
        id="F08",
        variant=variant,
        family="loss",
        title=f"retention passed the reader: {title}",
        inject=inject,
        happened=the_log_begins_behind_the_reader,
        heal=go_on,
        holds=(
            *_ALWAYS,
            the_lost_range_is_named,
            the_rows_name_exactly_what_was_lost,
            every_lost_window_reads_incomplete,
        ),
        alert="LogDataLost",
        may=HEADROOM,
        exit_code=2,
        within=400,
    )


def _made_again(variant: str, count: int, *, longer: bool, running: bool) -> Fault:
    return Fault(
        id="F09",
        variant=variant,
        family="loss",
        title=f"topic made again, {'longer' if longer else 'shorter'}, {'running' if running else 'stopped'}",
        inject=partial(make_again, count=count, running=running),
        happened=partial(the_topic_is_another, longer=longer),
        heal=go_on,
        holds=(*_ALWAYS, the_old_table_holds_no_id_of_the_new_log, everything_that_the_old_log_fed_is_touched),
        alert="TopicIdentityChanged",
        exit_code=2,
        within=400,
    )


FAULTS = (
    _passed("a-stopped", "stopped", lose_while_stopped),
    _passed("b-running", "running", lose_while_running),
    _made_again("a-shorter", 12, longer=False, running=False),
    _made_again("b-longer", 150, longer=True, running=False),
    _made_again("c-shorter-running", 12, longer=False, running=True),
    _made_again("d-longer-running", 150, longer=True, running=True),
)
