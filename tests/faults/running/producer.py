"""The test's own producer: what it sent, what the broker said of it, and what each record was meant to be."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from confluent_kafka import KafkaError, Message, Producer

from cutover.definition import Pipeline
from cutover.definition.windows.window_fn import select_last_window
from tests.integration.streaming.rig import MINUTE, NOON, Event
from tests.support.oracle.records import OracleRecord, append

Intended = Literal["accepted", "malformed", "filtered", "future"]
Outcome = Literal["acked", "failed", "unknown", "aborted"]
Meant = tuple[Intended, int | None, tuple[object, ...]]  # class, window start in microseconds, key

_UNSURE = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})
_ONE_WRITER = threading.Lock()
FLUSH_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Answer of the broker to one record."""

    event: Event
    partition: int
    offset: int | None
    error: KafkaError | None


def intend(pipeline: Pipeline) -> Callable[[Event], Meant]:
    """Return the function that gives the intended class, window and key of a record under its definition."""
    window, max_ahead = pipeline.window, pipeline.lateness.max_ahead_micros

    def of(event: Event) -> Meant:
        if event.raw is not None:
            return "malformed", None, ()
        if event.key == "drop":
            return "filtered", None, ()
        logged = NOON + int((event.minute if event.logged is None else event.logged) * MINUTE)
        kind: Intended = "future" if event.micros > logged // 1000 * 1000 + max_ahead else "accepted"
        return kind, select_last_window(window, event.micros // 1000 * 1000).start, (event.key,)

    return of


def new(bootstrap: str, **options: object) -> Producer:
    """Return a producer whose records keep their order and are written once."""
    defaults = {"bootstrap.servers": bootstrap, "linger.ms": 1, "enable.idempotence": True, "log_level": 0}
    return Producer({**defaults, **options})


def deliver(producer: Producer, topic: str, events: Iterable[Event], *, flush: float = FLUSH_SECONDS) -> list[Report]:
    """Send events in order and return the broker's answer to each; without an answer: a timeout."""
    reports: dict[int, Report] = {}
    event_list = list(events)
    for place, event in enumerate(event_list):
        logged = event.minute if event.logged is None else event.logged
        producer.produce(
            topic,
            event.value,
            partition=event.partition,
            timestamp=(NOON + int(logged * MINUTE)) // 1000,
            on_delivery=_note(reports, place, event),
        )
        producer.poll(0)
    producer.flush(flush)
    silent = KafkaError(KafkaError._MSG_TIMED_OUT)
    nothing = (Report(event=e, partition=e.partition, offset=None, error=silent) for e in event_list)
    return [reports.get(place, unanswered) for place, unanswered in enumerate(nothing)]


def record(
    oracle: Path, topic_id: str, reports: Iterable[Report], mean: Callable[[Event], Meant], outcome: Outcome | None
) -> list[OracleRecord]:
    """Append what became of records to the oracle; `outcome` overrules what the broker said of those it took."""
    rows = [_row(topic_id, report, mean(report.event), outcome) for report in reports]
    with _ONE_WRITER:
        append(oracle, rows)
    return rows


def _row(topic_id: str, report: Report, meaning: Meant, outcome: Outcome | None) -> OracleRecord:
    intended, window, key = meaning
    return OracleRecord(
        id=report.event.id,
        outcome=outcome if outcome is not None and report.error is None else _outcome(report),
        topic_id=topic_id,
        partition=report.partition,
        offset=report.offset,
        intended=intended,
        window_start=window,
        key=key,
    )


def _outcome(report: Report) -> Outcome:
    if report.error is None:  # without an offset the log had it already, by an attempt whose answer was lost: somewhere
        return "unknown" if report.offset is None else "acked"
    return "unknown" if report.error.code() in _UNSURE else "failed"


def _note(reports: dict[int, Report], place: int, event: Event) -> Callable[[KafkaError | None, Message], None]:
    def note(error: KafkaError | None, message: Message) -> None:
        offset = None if error is not None else message.offset()
        reports[place] = Report(event=event, partition=event.partition, offset=offset, error=error)

    return note
