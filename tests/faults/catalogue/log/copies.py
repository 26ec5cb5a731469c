"""Records that come again under the same id with something else in them: duplicates, whatever a measure reads."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from cutover.definition import First, Last, Max, Min, Pipeline, TopK
from cutover.definition.measures.kinds import Measure
from cutover.reconcile.result.finding import Verdict
from cutover.records.classes import Class
from tests.faults.catalogue.log.twice import RECORDS as SENT_TWICE
from tests.faults.catalogue.log.twice import STRICT, both_are_in_the_log
from tests.faults.fault import Fault
from tests.faults.refused import count_of, positions
from tests.faults.running.definition import definition
from tests.faults.running.rig import Rig
from tests.integration.streaming import rig as small
from tests.integration.streaming.rig import Event

CHANGED = 7  # the value in a copy; the first record has none
Copy = Callable[[Event], Event]


def with_values(topic: str) -> Pipeline:
    """Return the definition with measures of a column that copies contradict one another in."""
    pipeline = definition(topic, policy=STRICT, record_id="id", cap=20)
    ends: dict[str, Measure] = {"low": Min("v"), "high": Max("v"), "first": First("v"), "last": Last("v")}
    schema = f"{pipeline.source.schema}, v int"
    source = replace(pipeline.source, schema=schema, id_horizon="2 hours")  # a forgotten id is late
    return replace(pipeline, source=source, measures={**pipeline.measures, **ends, "top": TopK("v", k=3)})


def _copy(event: Event, *, partition: int, key: str | None) -> Event:
    fields = {"id": event.id, "k": key, "at": event.micros // 1000, "v": CHANGED + event.id % 5}
    return replace(event, partition=partition, key=key, raw=json.dumps(fields).encode())


def same_partition(event: Event) -> Event:
    """Return a copy behind the record."""
    return _copy(event, partition=event.partition, key=event.key)


def other_partition(event: Event) -> Event:
    """Return a copy that lies lower in the log for every other record: batch counts it, the stream the first one."""
    return _copy(event, partition=1 - event.partition, key=event.key)


def other_key(event: Event) -> Event:
    """Return a copy in the other partition and under another key."""
    return _copy(event, partition=1 - event.partition, key="b" if event.key == "a" else "a")


def send_copies(rig: Rig, *, copy: Copy) -> None:
    """Send records that the oracle knows, let a driver read them, then send a copy of each."""
    rig.make = partial(with_values, rig.topic)
    events = rig.draw(SENT_TWICE)
    rig.send(events)
    rig.drain()
    small.send(rig.settings, rig.topic, [copy(event) for event in events])
    rig.send(rig.draw(SENT_TWICE // 2))
    rig.drain()


def each_copy_is_a_duplicate_and_nothing_is_unexplained(rig: Rig) -> Iterator[str]:
    """Both ledgers have one of each two, and no difference has another cause."""
    if count_of(rig, Class.DUPLICATE) != SENT_TWICE:
        yield f"expected {SENT_TWICE} duplicates, the epochs counted {count_of(rig, Class.DUPLICATE)}"
    stream, batch = (positions(rig, view, Class.DUPLICATE) for view in ("ledger", "batch_ledger"))
    if len(stream) != SENT_TWICE or not batch:
        yield f"the stream's ledger has {len(stream)} of {SENT_TWICE} duplicates, batch's {len(batch)}"
    report = rig.reconciliations[-1]
    causes = {name for name, cause in report.finding.causes.items() if cause.rows}
    if not causes <= {"duplicate"}:
        yield f"expected no cause but duplicate, got {sorted(causes)}"
    rig.note("rows that differ by duplicates", report.finding.causes["duplicate"].rows)


def _copies(variant: str, title: str, copy: Copy, verdict: Verdict) -> Fault:
    return Fault(
        id="F39",
        variant=variant,
        family="input",
        title=f"each id is sent again with another payload: {title}",
        inject=partial(send_copies, copy=copy),
        happened=both_are_in_the_log,
        holds=(each_copy_is_a_duplicate_and_nothing_is_unexplained,),
        verdicts=frozenset({verdict}),
        alert="DuplicateRateHigh",
        stays=True,
    )


FAULTS = (
    _copies("payload", "in the same partition", same_partition, Verdict.CONSISTENT),
    _copies("partition", "in the other partition", other_partition, Verdict.EXPLAINED),
    _copies("key", "in the other partition, under another key", other_key, Verdict.EXPLAINED),
)
