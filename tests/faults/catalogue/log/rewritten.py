"""A log restored from a copy and written again under its topic id: its content identifies it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cutover.lake.control import losses
from cutover.reconcile.result.finding import Verdict
from tests.faults.catalogue.log import loss
from tests.faults.fault import STREAM, Fault, Part
from tests.faults.running.rig import Rig
from tests.support.log.rewritten import LogCopy
from tests.support.oracle.records import append

BROKER = STREAM | {Part.BROKER}


def write_again(rig: Rig, *, count: int) -> None:
    """Read and compare a log to its end; while no path reads it, restore its beginning and write `count` others."""
    loss.agree_on_whole_log(rig)
    copy = LogCopy(rig.broker, rig.topic, rig.settings.home / "copy")
    rig.note("kept", rig.client.latest(rig.topic))
    removed = rig.send(rig.draw(60))
    rig.drain()
    rig.batch()
    rig.reconcile()
    _note_end(rig, "before")
    copy.restore()
    append(rig.oracle_file, [replace(oracle_record, outcome="aborted") for oracle_record in removed])
    rig.send(rig.draw(count))
    _note_refusals(rig)


def write_again_beside_a_driver(rig: Rig, *, count: int) -> None:
    """Rewrite the log while a driver is cut off; the driver continues by itself once the broker is back."""
    loss.agree_on_whole_log(rig)
    driver = rig.background()
    rig.send(rig.draw(20))
    rig.until(lambda: rig.unread() == 0)  # it runs: one that starts needs a broker
    copy = LogCopy(rig.broker, rig.topic, rig.settings.home / "copy")
    rig.note("kept", rig.client.latest(rig.topic))
    removed = rig.send(rig.draw(60))
    rig.until(lambda: rig.unread() == 0)
    rig.batch()
    rig.reconcile()
    _note_end(rig, "before")
    copy.restore()
    append(rig.oracle_file, [replace(oracle_record, outcome="aborted") for oracle_record in removed])
    rig.send(rig.draw(count))
    rig.until(lambda: not driver.thread.is_alive())
    rig.note("driver", str(driver.failure))
    _note_refusals(rig)


def _note_end(rig: Rig, key: str) -> None:
    """Keep id, ends and the record at the last offset that was read: for `happened`, and for what must be named."""
    end = dict(rig.records()[-1].end) if key == "before" else rig.evidence["before"][1]
    last_offsets = {p: offset - 1 for p, offset in end.items()}
    values = {r.partition: r.value for r in rig.client.read(rig.topic, {p: [at] for p, at in last_offsets.items()})}
    rig.note(key, (rig.client.topic_id(rig.topic), end, values))


def _note_refusals(rig: Rig) -> None:
    """Run both paths and the reconciler on such a log; keep their messages."""
    _note_end(rig, "after")
    loss.reject(rig)
    message = str(rig.evidence["said"])
    rig.refused(rig.batch)
    report = rig.reconcile()
    rig.note(
        "stood",
        [report.finding.verdict.value, report.finding.exit_code, str(report.finding.runbook), report.finding.sentence],
    )
    rig.note("said", message)


def another_record_stands_where_the_last_one_was(rig: Rig) -> bool:
    """Return whether the topic id is the same, and the record at the last offset read is not."""
    (old_id, _, old), (new_id, _, new) = rig.evidence["before"], rig.evidence["after"]
    return bool(old_id == new_id and all(new.get(p) != value for p, value in old.items()))


def nothing_was_judged_while_it_stood(rig: Rig) -> Iterator[str]:
    """The reconciler, at a cut where both sides had agreed: NOT_COMPARABLE, with the stream's own reason."""
    verdict, code, runbook, sentence = rig.evidence["stood"]
    if (verdict, code, runbook) != (
        Verdict.NOT_COMPARABLE.value,
        2,
        "LogDataLost",
    ) or "expected at offset" not in sentence:
        yield f"it said {verdict}, exit code {code}, runbook {runbook}: {sentence}"


def the_rows_name_exactly_what_was_counted_and_is_gone(rig: Rig) -> Iterator[str]:
    """From where the copy ended to where the newest epoch did, in each partition; and so does the message."""
    kept_ends, (_, end, _) = rig.evidence["kept"], rig.evidence["before"]
    expected = {p: (kept_ends[p], end[p]) for p in end if kept_ends[p] < end[p]}
    recorded_ranges = {
        recorded_loss.partition: (recorded_loss.first, recorded_loss.next)
        for recorded_loss in loss.list_recorded(rig)
        if recorded_loss.again
    }
    if recorded_ranges != expected:
        yield f"expected the ranges {expected}, recorded are {recorded_ranges}"
    for partition, (first_offset, next_one) in expected.items():
        text = f"Topic {rig.topic}, partition {partition}: expected at offset "
        if text not in rig.evidence["said"] or f"offsets {first_offset} to {next_one - 1} " not in rig.evidence["said"]:
            yield f"expected `{text}..., offsets {first_offset} to {next_one - 1} ...` in: {rig.evidence['said']}"


def every_window_of_what_is_gone_is_touched(rig: Rig) -> Iterator[str]:
    """The log cannot give it again."""
    spans = losses.find_touched_windows(loss.list_recorded(rig))
    lost_windows = {
        oracle_record.window_start
        for oracle_record in rig.oracle.records
        if oracle_record.outcome == "aborted" and oracle_record.window_start is not None
    }
    yield from (
        f"window {start} is not touched" for start in sorted(lost_windows) if not losses.is_touched(start, spans)
    )


def restart(rig: Rig) -> None:
    """The broker goes and comes back twice, its leaders are others, its records the same; a driver lives through it."""
    rig.send(rig.draw(60))
    driver = rig.background()
    rig.until(lambda: rig.unread() == 0)
    _note_end(rig, "before")
    leaders = {p: end.leader_epoch for p, end in rig.client.log_ends(rig.topic).items()}
    copy = LogCopy(rig.broker, rig.topic, rig.settings.home / "copy")
    copy.restore()
    _note_end(rig, "after")
    now = {p: end.leader_epoch for p, end in rig.client.log_ends(rig.topic).items()}
    rig.note("leaders grew", all(now[p] > leader for p, leader in leaders.items()))
    rig.send(rig.draw(60))
    rig.until(lambda: rig.unread() == 0)
    driver.stop()
    rig.note("driver", str(driver.failure))


def leaders_grew_and_records_stayed(rig: Rig) -> bool:
    """Return whether each partition has a later leader, and the record at the last offset read is the same."""
    return bool(rig.evidence["leaders grew"] and rig.evidence["before"] == rig.evidence["after"])


def the_driver_went_on(rig: Rig) -> Iterator[str]:
    """One driver, no failure."""
    if rig.evidence["driver"] != "None" or len({record.run_id for record in rig.records()[:-1]}) > 2:
        yield f"the driver ended: {rig.evidence['driver']}"


def _rewritten_log(variant: str, title: str, count: int, *, alive: bool) -> Fault:
    return Fault(
        id="F34",
        variant=variant,
        family="loss",
        title=f"log rewritten under its topic id: {title}",
        inject=partial(write_again_beside_a_driver if alive else write_again, count=count),
        happened=another_record_stands_where_the_last_one_was,
        needs=BROKER,
        heal=loss.accept_and_continue,
        holds=(
            loss.the_stream_said_so_before_it_wrote,
            loss.the_report_leaves_them_out_and_says_so,
            loss.no_touched_window_was_replaced,
            loss.the_gate_was_shut,
            nothing_was_judged_while_it_stood,
            the_rows_name_exactly_what_was_counted_and_is_gone,
            every_window_of_what_is_gone_is_touched,
        ),
        alert="LogDataLost",
        may=frozenset({"KafkaUnreachable"}),
        exit_code=2,
    )


FAULTS = (
    _rewritten_log("a-shorter", "shorter", 16, alive=False),
    _rewritten_log("b-longer", "longer", 150, alive=False),
    _rewritten_log("c-longer-running", "longer, a driver cut off", 150, alive=True),
    Fault(
        id="F34",
        variant="control",
        family="loss",
        title="control: leaders change, records do not",
        inject=restart,
        happened=leaders_grew_and_records_stayed,
        needs=BROKER,
        holds=(the_driver_went_on,),
        may=frozenset({"KafkaUnreachable"}),
    ),
)
