"""The log loses unread records, or is recreated: nothing overwrites its results, and the loss is recorded."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from cutover.clock import SystemClock
from cutover.definition import Lateness
from cutover.definition.model.policy import Stage
from cutover.engine import queries
from cutover.lake.control import losses, versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.journal_rows import Loss
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


def agree_on_whole_log(rig: Rig) -> None:
    """Make both paths agree over a log that is whole: what later is lost has a history before it."""
    rig.define(lateness=LATENESS)
    rig.send(rig.draw(120))  # enough to close windows: nothing compared would be no agreement
    rig.drain()
    rig.batch()
    rig.reconcile()


def cut_behind_the_end(rig: Rig) -> None:
    """Let the log delete half of the records read: a second such step would reach the reader: low headroom."""
    rig.alerts()
    harm.cut_away(rig.settings, rig.topic, {p: (end + 1) // 2 for p, end in rig.records()[-1].end.items()})
    rig.note("headroom", text_of(rig, "RetentionHeadroomLow"))


def lose(rig: Rig, count: int, count_after: int) -> None:
    """Send records, then more, and let the log delete the first ones before they are read."""
    lost_records = rig.send(rig.draw(count))
    rig.send(rig.draw(count_after))
    keep = {
        p: 1 + max(s.offset or 0 for s in lost_records if s.partition == p) for p in {s.partition for s in lost_records}
    }
    harm.cut_away(rig.settings, rig.topic, keep)
    rig.note("cut to", keep)


def lose_while_stopped(rig: Rig) -> None:
    """Retention passes the end of the newest epoch of a stream that does not run."""
    agree_on_whole_log(rig)
    cut_behind_the_end(rig)
    lose(rig, 40, 100)
    reject(rig)


def lose_while_running(rig: Rig) -> None:
    """Let retention pass the reader of a driver that is inside an epoch, with more to read than it has fetched."""
    agree_on_whole_log(rig)
    cut_behind_the_end(rig)
    newest = rig.newest()
    rig.send(rig.draw(20))
    driver = rig.start(block=("epoch.planned", newest + 1))
    driver.marker()
    lose(rig, 200, 100)
    driver.release()
    rig.expect_end(driver)
    reject(rig)


def reject(rig: Rig) -> None:
    """Start the stream, which has to end before it writes; keep what it said and what the table was."""
    rig.note("table before", rig.transaction())
    rig.refused(rig.drain)
    rig.note("said", rig.said)


def the_log_begins_behind_the_reader(rig: Rig) -> bool:
    """Return whether the earliest offset of a partition is greater than the end of the newest epoch."""
    earliest, end = rig.client.earliest(rig.topic), rig.records()[-1].end
    return any(earliest[p] > end[p] for p in end)


def make_again(rig: Rig, *, count: int, running: bool) -> None:
    """Delete the topic and recreate it under its name, with `count` new records."""
    agree_on_whole_log(rig)
    rig.note("old id", rig.client.topic_id(rig.topic))
    if running:
        rig.send(rig.draw(20))
        driver = rig.start(block=("epoch.planned", rig.newest() + 1))
        driver.marker()
        _recreate(rig, count)
        driver.release()
        rig.expect_end(driver)
    else:
        _recreate(rig, count)
    reject(rig)


def _recreate(rig: Rig, count: int) -> None:
    rig.note("old end", dict(rig.records()[-1].end))
    harm.recreate(rig.settings, rig.topic)
    rig.send(rig.draw(count))


def the_topic_is_another(rig: Rig, *, longer: bool) -> bool:
    """Return whether the topic id differs, and the new log's end stands to the old end as the variant says."""
    old, ends = rig.evidence["old end"], rig.client.latest(rig.topic)
    beyond = all(ends[p] > end for p, end in old.items()) if longer else all(ends[p] < end for p, end in old.items())
    return beyond and rig.client.topic_id(rig.topic) != rig.evidence["old id"]


def accept_and_continue(rig: Rig) -> None:
    """Preview the step, which records nothing and leaves the stream refused; take it; read on."""
    preview = accept_loss.preview_losses(rig.lake, CLOCK)
    rig.note("recorded by a look", len(losses.list_losses(rig.lake)))
    reject(rig)
    rig.note("batch before", batch_rows(rig))
    step = accept_loss.record_losses(rig.lake, WHY, CLOCK)
    rig.note("shown as recorded", [_shape(loss) for loss in preview.losses] == [_shape(loss) for loss in step.losses])
    gate_evidence = evidence.read_evidence(rig.lake, CLOCK.now())
    decision = decide(Stage.LAMBDA, gate_evidence, "advance", rig.pipeline.policy, CLOCK.now())
    rig.note("gate", [condition.name for condition in decision.conditions if not condition.is_met])
    rig.drain()
    rig.send(rig.draw(150))


def _shape(loss: Loss) -> tuple[object, ...]:
    return (loss.kind, loss.topic_id, loss.partition, loss.first, loss.next, loss.windows)


def batch_rows(rig: Rig) -> dict[Cell, tuple[int, ...]]:
    """Return the batch table's rows of touched windows after the loss, of all windows before it."""
    connection = queries.open_duckdb()
    delta.relation(connection, "batch", rig.lake.batch_uri())
    query = "SELECT epoch_us(window_start), k, _n, ids::BIGINT, squares::BIGINT FROM batch"
    return {(row[0], (row[1],)): tuple(map(int, row[2:])) for row in connection.execute(query).fetchall()}


def list_recorded(rig: Rig) -> tuple[Loss, ...]:
    """Return the recorded losses."""
    return losses.list_losses(rig.lake)


def unread(rig: Rig, loss: Loss) -> list[OracleRecord]:
    """Return the oracle's records inside the lost range."""
    return [
        oracle_record
        for oracle_record in rig.oracle.records
        if (oracle_record.topic_id, oracle_record.partition) == (loss.topic_id, loss.partition)
        and oracle_record.offset is not None
        and loss.first <= oracle_record.offset < (oracle_record.offset + 1 if loss.next is None else loss.next)
    ]


def the_stream_said_so_before_it_wrote(rig: Rig) -> Iterator[str]:
    """One message, no stack, no commit since; a preview of the step records nothing and opens nothing."""
    message, notes = str(rig.evidence["said"]), rig.evidence
    if "Caused by" in message or "\tat " in message or "accept-loss" not in message:
        yield f"expected one message that names the step, got: {message}"
    if notes["recorded by a look"]:
        yield f"a look recorded {notes['recorded by a look']} rows"
    if not notes["shown as recorded"]:
        yield "the recorded losses differ from the preview"


def the_lost_range_is_named(rig: Rig) -> Iterator[str]:
    """The message: partition, expected offset, where the log starts, how many are missing."""
    end = rig.records()[-1].end  # of partitions only: offsets are those of the recorded rows
    for loss in list_recorded(rig):
        missing = (loss.next or 0) - loss.first
        place = f"partition {loss.partition}: expected offset {loss.first}"
        text = f"{place}, log starts at {loss.next}: {missing} offsets are"
        if loss.partition not in end or text not in str(rig.evidence["said"]):
            yield f"expected `{text}` in: {rig.evidence['said']}"


def the_rows_name_exactly_what_was_lost(rig: Rig) -> Iterator[str]:
    """No acked id of a recorded range is counted or in the ledger, and every acked id outside is read."""
    lost_ids = {oracle_record.id for loss in list_recorded(rig) for oracle_record in unread(rig, loss)}
    if not lost_ids:
        yield "no acked id lies in a recorded range"
    ends, first_lost = rig.records()[-1].end, {loss.partition: loss.first for loss in list_recorded(rig)}
    for oracle_record in rig.oracle.records:
        skipped = (
            oracle_record.offset is not None
            and first_lost.get(oracle_record.partition, ends[oracle_record.partition]) <= oracle_record.offset
        )
        cut_to = rig.evidence["cut to"].get(oracle_record.partition, 0)
        if oracle_record.offset is not None and (oracle_record.id in lost_ids) != (
            skipped and oracle_record.offset < cut_to
        ):
            place = f"partition {oracle_record.partition}, offset {oracle_record.offset}"
            yield f"id {oracle_record.id} at {place}: in the rows {oracle_record.id in lost_ids}"


def every_lost_window_reads_incomplete(rig: Rig) -> Iterator[str]:
    """Windows of lost records that were not final: in the rows, in the serving view and in the batch's run."""
    ranges = losses.find_touched_windows(list_recorded(rig))
    fed = {s.window_start for loss in list_recorded(rig) for s in unread(rig, loss) if s.window_start is not None}
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
        query = f"SELECT DISTINCT epoch_us(window_start), _state FROM {view}"  # noqa: S608 -- one of two constant names
        for start, state in views.open_views(rig.lake).execute(query).fetchall():
            if losses.is_touched(start, spans) != (state == "incomplete(lost)"):
                yield f"{view}, window {start}: reads {state}"


def the_report_leaves_them_out_and_says_so(rig: Rig) -> Iterator[str]:
    """Counted as lost, named with their ranges, never compared; compared windows lie outside."""
    report = rig.reconciliations[-1]
    if (
        not report.finding.windows.incomplete_because.get("lost")
        or report.finding.loss is None
        or not report.finding.losses
    ):
        yield f"the report does not say what was lost: {report.finding.windows}, {report.finding.loss}"
    if not report.finding.windows.compared:
        yield "no window behind the loss was compared"
    values_by_cell = rig.count_by_cell()
    spans = losses.find_touched_windows(list_recorded(rig))
    untouched = {start for start, _ in values_by_cell if not losses.is_touched(start, spans)}
    if report.finding.windows.compared > len(untouched):
        yield f"{report.finding.windows.compared} windows were compared, {len(untouched)} are not touched"


def no_touched_window_was_replaced(rig: Rig) -> Iterator[str]:
    """The batch table holds of every touched window what it held before, whole; and nothing new."""
    spans, now = losses.find_touched_windows(list_recorded(rig)), batch_rows(rig)
    touched_before = {
        cell: value for cell, value in rig.evidence["batch before"].items() if losses.is_touched(cell[0], spans)
    }
    touched_after = {cell: value for cell, value in now.items() if losses.is_touched(cell[0], spans)}
    if touched_before != touched_after:
        counts = f"{len(touched_before)} rows before, {len(touched_after)} after"
        yield f"touched windows of the batch table: {counts}, not the same"


def the_gate_was_shut(rig: Rig) -> Iterator[str]:
    """With a named reason, as long as the evidence is from before the loss."""
    if _GATE not in rig.evidence["gate"]:
        yield f"the gate lacks {rig.evidence['gate']}"


def the_old_table_holds_no_id_of_the_new_log(rig: Rig) -> Iterator[str]:
    """It stays unchanged, next to the new version."""
    old, new = versions.list_stream_versions(rig.lake)
    log = EpochLog(old.uri)
    if log.transaction(old.app_id) != rig.evidence["table before"]:
        yield f"the old table continued to epoch {log.transaction(old.app_id)}"
    ids = {record.topic_id for record in log.records()}
    if ids != {rig.evidence["old id"]}:
        yield f"the old table was read from {ids}"
    fresh = {record.topic_id for record in EpochLog(new.uri).records()}
    if fresh != {rig.client.topic_id(rig.topic)}:
        yield f"the new table was read from {fresh}"


def everything_that_the_old_log_fed_is_touched(rig: Rig) -> Iterator[str]:
    """The new log cannot give it again."""
    spans, old = losses.find_touched_windows(list_recorded(rig)), rig.evidence["old id"]
    fed = {
        oracle_record.window_start
        for oracle_record in rig.oracle.records
        if oracle_record.topic_id == old and oracle_record.window_start is not None
    }
    yield from (f"window {start} is not touched" for start in sorted(fed) if not losses.is_touched(start, spans))


_ALWAYS = (
    the_stream_said_so_before_it_wrote,
    the_report_leaves_them_out_and_says_so,
    no_touched_window_was_replaced,
    the_gate_was_shut,
)


def _retention_passed(variant: str, title: str, inject: Callable[[Rig], None]) -> Fault:
    return Fault(
        id="F08",
        variant=variant,
        family="loss",
        title=f"retention passed the reader: {title}",
        inject=inject,
        happened=the_log_begins_behind_the_reader,
        heal=accept_and_continue,
        holds=(
            *_ALWAYS,
            the_lost_range_is_named,
            the_rows_name_exactly_what_was_lost,
            every_lost_window_reads_incomplete,
        ),
        alert="LogDataLost",
        may=HEADROOM,
        exit_code=2,
        timeout_seconds=400,
    )


def _made_again(variant: str, count: int, *, longer: bool, running: bool) -> Fault:
    return Fault(
        id="F09",
        variant=variant,
        family="loss",
        title=f"topic recreated, {'longer' if longer else 'shorter'}, {'running' if running else 'stopped'}",
        inject=partial(make_again, count=count, running=running),
        happened=partial(the_topic_is_another, longer=longer),
        heal=accept_and_continue,
        holds=(*_ALWAYS, the_old_table_holds_no_id_of_the_new_log, everything_that_the_old_log_fed_is_touched),
        alert="TopicIdentityChanged",
        exit_code=2,
        timeout_seconds=400,
    )


FAULTS = (
    _retention_passed("a-stopped", "stopped", lose_while_stopped),
    _retention_passed("b-running", "running", lose_while_running),
    _made_again("a-shorter", 12, longer=False, running=False),
    _made_again("b-longer", 150, longer=True, running=False),
    _made_again("c-shorter-running", 12, longer=False, running=True),
    _made_again("d-longer-running", 150, longer=True, running=True),
)
