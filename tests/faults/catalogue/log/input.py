"""Wrong input: dated ahead, delayed, broken, or of another schema. Both paths treat it alike."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cutover.definition import Lateness, Policy
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.records.classes import Class
from tests.faults.fault import Fault
from tests.faults.refused import count_of, every_difference_is_late, no_record_is_late, refuses_alike, says, text_of
from tests.faults.running import producer
from tests.faults.running.producer import Meant
from tests.faults.running.rig import Rig
from tests.integration.streaming import rig as small
from tests.integration.streaming.rig import MINUTE, NOON, Event

HOUR = 60.0  # minutes
YEAR = 365 * 24 * HOUR
A_MOMENT = 1.5 / 60_000  # a millisecond and a half, in minutes: events are dated in milliseconds
CANARY = "canary-7f3a"
LARGEST = 4_000_000  # bytes that the producer sends at most
STRICT = Policy(max_late_share=0.01, max_malformed_share=0.01, max_future_share=0.01)


def ahead(rig: Rig, by: float, *, partition: int = 0) -> Event:
    """Return one event dated `by` minutes after its log timestamp, which is a whole minute."""
    event = replace(rig.draw(1)[0], partition=partition)
    logged = float(math.ceil(event.logged or 0.0))
    return replace(event, minute=logged + by, logged=logged)


# -- F12


def send_future_events(rig: Rig) -> None:
    """Among others: a year ahead, two hours, exactly the limit, a millisecond beyond it."""
    rig.define(policy=STRICT)
    rig.send(rig.draw(60))
    rig.drain()
    rig.send([ahead(rig, YEAR), ahead(rig, 2 * HOUR), ahead(rig, HOUR + A_MOMENT), ahead(rig, HOUR)])
    rig.send(rig.draw(60))
    rig.drain()


def future_events_are_in_the_log(rig: Rig) -> bool:
    """Three that were meant to be future were acknowledged, and the one at the limit was not meant so."""
    return sum(s.intended == "future" and s.outcome == "acked" for s in rig.oracle.records) == 3


def send_a_year_ahead_without_guard(rig: Rig) -> None:
    """The definition takes any event: one in each partition moves the watermark by a year."""
    rig.define(lateness=Lateness(out_of_orderness="5 minutes", max_ahead="10000 days"))
    rig.send(rig.draw(60))
    rig.drain()
    rig.note("before", rig.records()[-1].watermark_after)
    rig.send([ahead(rig, YEAR, partition=0), ahead(rig, YEAR, partition=1)])
    rig.drain()
    rig.note("after", rig.records()[-1].watermark_after)
    rig.send(rig.draw(40))
    rig.drain()


def watermark_jumped(rig: Rig) -> bool:
    """It jumped by more than half a year, and later records are late."""
    return rig.evidence["after"] - rig.evidence["before"] > YEAR / 2 * MINUTE and count_of(rig, Class.LATE) == 40


# -- F14


def delay_and_burst(rig: Rig, *, burst: int) -> None:
    """Keep partition 1 silent for two hours of event time of partition 0; then let it send half an hour of it."""
    idle = Lateness(out_of_orderness="5 minutes", idle_after="1 second")
    rig.define(cap=2_000, lateness=idle, policy=STRICT)
    rig.send(Event(id=i, minute=i / 10, partition=i % 2) for i in range(100))
    driver = rig.background()
    rig.until(lambda: rig.newest() >= 0)
    rig.send(Event(id=1_000 + i, minute=10 + i * 1.2, partition=0) for i in range(100))
    goal = NOON + 100 * MINUTE
    rig.until(lambda: (rig.records()[-1].watermark_after or 0) > goal)
    rig.note("watermark", rig.records()[-1].watermark_after)
    rig.send(
        Event(id=10_000 + i, minute=20 + 30 * i / burst, logged=130, key="ab"[i % 2], partition=1) for i in range(burst)
    )
    rig.until(lambda: rig.unread() == 0)
    driver.stop()
    rig.note("burst", burst)


def burst_is_far_behind(rig: Rig) -> bool:
    """Its newest event lies 40 minutes behind the watermark that its epoch began with."""
    return bool(rig.evidence["watermark"] > NOON + (50 + 40) * MINUTE)


def the_whole_burst_is_late(rig: Rig) -> Iterator[str]:
    """In the ledger, once each."""
    late = count_of(rig, Class.LATE)
    if late != rig.evidence["burst"]:
        yield f"expected {rig.evidence['burst']} late rows, got {late}"


# -- F15


@dataclass(frozen=True, slots=True, kw_only=True)
class Null(Event):
    """A record without a value."""

    @property
    def value(self) -> None:  # type: ignore[override]  # the one record without bytes
        """Return nothing, as a tombstone has it."""
        return


def poisons() -> list[Callable[[Event], Event]]:
    """Return every kind of record that cannot be used."""
    raw: tuple[bytes, ...] = (
        b'{"id": 1, "k": "' + CANARY.encode(),
        b'{"id": "' + CANARY.encode() + b'", "k": "a", "at": 1}',
        b"",
        b'"\xff\xfe' + CANARY.encode() + b'"',
        b'{"k": "' + CANARY.encode() * (1_000_100 // len(CANARY)) + b'"}',
        b'{"k": "' + CANARY.encode() + b'", "at": 1}',
    )
    return [
        *(partial(_with_raw, value) for value in raw),
        lambda e: Null(id=e.id, minute=e.minute, logged=e.logged, partition=e.partition, raw=b""),
    ]


def _with_raw(value: bytes, event: Event) -> Event:
    return replace(event, raw=value)


def send_poison(rig: Rig, *, interval: int) -> None:
    """Break the very first record and each `interval`th, in every way in turn."""
    kinds = poisons()
    rig.define(policy=STRICT, cap=100)
    events = rig.draw(interval * len(kinds))
    sender = producer.new(str(rig.settings.kafka.bootstrap_servers), **{"message.max.bytes": LARGEST})
    mixed = (kinds[i // interval % len(kinds)](e) if i % interval == 0 else e for i, e in enumerate(events))
    rig.send(mixed, by=sender)
    rig.note("kinds", len(kinds))
    rig.drain()


def every_kind_is_in_the_log(rig: Rig) -> bool:
    """One of each, by the oracle; the first at offset 0 of its partition."""
    bad = [s for s in rig.oracle.records if s.intended == "malformed" and s.outcome == "acked"]
    return len(bad) == rig.evidence["kinds"] and bad[0].offset == 0


def each_has_its_reason(rig: Rig) -> Iterator[str]:
    """One reason of each kind."""
    query = "SELECT p.reason FROM (SELECT unnest(_positions) AS p FROM rows WHERE _class = 'malformed')"
    reasons = sorted(row[0] for row in small.query_rows(rig.lake, query))
    expected = sorted(["json", "type", "empty", "utf8", "too_large", "missing", "null_value"])
    if reasons != expected:
        yield f"expected the reasons {expected}, got {reasons}"


def no_payload_is_kept(rig: Rig) -> Iterator[str]:
    """Neither in the epoch log nor in an alert."""
    query = f"SELECT 1 FROM rows WHERE rows::VARCHAR LIKE '%{CANARY}%'"  # noqa: S608 -- a constant
    if small.query_rows(rig.lake, query):
        yield "a row of the epoch log holds a piece of a broken record"
    alert_texts = " ".join(alert.text for alert in rig.firing)
    if CANARY in alert_texts:
        yield f"an alert shows a piece of a broken record: {alert_texts}"


# -- F18


def fields(**changes: Any) -> Callable[[Event], dict[str, Any]]:
    """Return how the producer writes an event after its change; a field of `...` is left out."""

    def write(event: Event) -> dict[str, Any]:
        value: dict[str, Any] = {"id": event.id, "k": event.key, "at": event.micros // 1000}
        value |= {name: new(event) if callable(new) else new for name, new in changes.items()}
        return {name: new for name, new in value.items() if new is not ...}

    return write


def change_schema(rig: Rig, *, write: Callable[[Event], dict[str, Any]], intended: str, fires: bool) -> None:
    """The producer changes midway, in one partition after the other."""
    rig.define(cap=200)  # one epoch: the first record reported is the first of the lowest partition
    rig.send(rig.draw(40))
    changed_events = [replace(e, raw=json.dumps(write(e)).encode()) for e in rig.draw(40, keys=(None,))]
    rows = rig.send(changed_events, mean=lambda event: _meaning(event, intended))
    rig.note("first", min((s.partition, s.offset) for s in rows if s.offset is not None))
    rig.send(rig.draw(20))
    rig.drain()
    rig.note("text", text_of(rig, "SchemaChanged") if fires else "")


def _meaning(event: Event, intended: str) -> Meant:
    if intended == "malformed":
        return "malformed", None, ()
    return "accepted", event.micros // (10 * MINUTE) * 10 * MINUTE, (None,)


def ids_lie_on_both_sides(rig: Rig) -> bool:
    """Records before the change and after it are in the log."""
    partition, offset = rig.evidence["first"]
    offsets = [s.offset for s in rig.oracle.records if s.partition == partition and s.offset is not None]
    return bool(min(offsets) < offset < max(offsets))


def table_schema_is_unchanged(rig: Rig) -> Iterator[str]:
    """Nothing that a record says becomes a column, or another type."""
    names = set(epoch_log_schema(rig.pipeline).names)
    columns = {f.name for f in delta.open_table(rig.version.uri).schema().fields}
    if columns != names:
        yield f"the table's columns changed: {sorted(columns ^ names)}"


def _schema(variant: str, title: str, *, intended: str, field_name: str | None, **changes: Any) -> Fault:
    def first_record(rig: Rig) -> list[str]:
        partition, offset = rig.evidence["first"]
        return [f"field `{field_name}`", f"partition {partition}, offset {offset}"]

    refused = (refuses_alike(Class.MALFORMED),) if intended == "malformed" else ()
    return Fault(
        id="F18",
        variant=variant,
        family="input",
        title=f"the producer changes its schema midway: {title}",
        inject=partial(change_schema, write=fields(**changes), intended=intended, fires=field_name is not None),
        happened=ids_lie_on_both_sides,
        holds=(table_schema_is_unchanged, *refused, *(() if field_name is None else (says(first_record),))),
        alert=None if field_name is None else "SchemaChanged",
        stays=True,
    )


def _poison(variant: str, interval: int, *, quick: bool) -> Fault:
    return Fault(
        id="F15",
        variant=variant,
        family="input",
        title=f"invalid records of every kind: every {interval}th record and the first one",
        inject=partial(send_poison, interval=interval),
        happened=every_kind_is_in_the_log,
        holds=(refuses_alike(Class.MALFORMED), each_has_its_reason, no_payload_is_kept),
        alert="MalformedRateHigh",
        also=("SchemaChanged",),
        stays=True,
        quick=quick,
    )


def _burst(variant: str, burst: int, *, quick: bool) -> Fault:
    return Fault(
        id="F14",
        variant=variant,
        family="input",
        title=f"a producer holds back half an hour of event time, then sends {burst:,} records at once",
        inject=partial(delay_and_burst, burst=burst),
        happened=burst_is_far_behind,
        holds=(the_whole_burst_is_late, every_difference_is_late),
        alert="LateRateHigh",
        stays=True,
        quick=quick,
    )


FAULTS = (
    Fault(
        id="F12",
        family="input",
        title="events dated ahead by a year, by two hours, by the limit, and by a millisecond more than the limit",
        inject=send_future_events,
        happened=future_events_are_in_the_log,
        holds=(no_record_is_late, refuses_alike(Class.FUTURE)),
        alert="FutureEvents",
        stays=True,
    ),
    Fault(
        id="F12",
        variant="control",
        family="input",
        title="events dated a year ahead, with a definition that accepts every event",
        inject=send_a_year_ahead_without_guard,
        happened=watermark_jumped,
        holds=(every_difference_is_late,),
        alert="WatermarkAheadOfClock",
        stays=True,
    ),
    _burst("", 5_000, quick=False),
    _poison("", 50, quick=False),
    _poison("quick", 5, quick=True),
    _schema("new", "a field more", intended="accepted", field_name="extra", extra=lambda e: e.id),
    _schema("optional", "an optional field is left out", intended="accepted", field_name=None, k=...),
    _schema("required", "a required field is left out", intended="malformed", field_name="id", id=...),
    _schema("type", 'an integer becomes the text "12"', intended="malformed", field_name="id", id=lambda _: "12"),
    _schema(
        "rename", "a field gets another name", intended="malformed", field_name="ident", id=..., ident=lambda e: e.id
    ),
)
