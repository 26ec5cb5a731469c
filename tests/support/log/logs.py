"""Logs as Hypothesis draws them: disorder, nulls, late and future events, malformed records, several partitions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hypothesis import strategies as st

from cutover.definition import (
    Avg,
    Count,
    Daily,
    Fixed,
    Global,
    Join,
    Lateness,
    Max,
    Min,
    Monthly,
    Pipeline,
    SelfJoin,
    Sessions,
    Sum,
    Topic,
)
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, How
from cutover.definition.windows.kinds import SlidingWindows, Window
from cutover.log.kafka import RawRecord

MICROS = 1_000_000
START = 1_357_000_000
"""Unix seconds at which a drawn log begins."""

PARTITIONS = 3

KEYS = st.sampled_from([None, "", "a", "b", "ß", "a,b"])
VALUES = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**31 - 1, -(2**31)]))
AMOUNTS = st.one_of(st.none(), st.integers(-(10**4), 10**4).map(lambda cents: cents / 4))
IDS = st.one_of(st.integers(0, 1_000), st.integers(0, 8))
Joined = tuple[Literal["one", "two", "range"], How]
JOINS: tuple[Joined, ...] = (
    ("two", "inner"),
    ("one", "left"),
    ("two", "full"),
    ("one", "inner"),
    ("two", "left"),
    ("one", "full"),
    ("range", "inner"),
)
"""Topics that take part, for fixed windows perhaps by a range of times, and whose rows are kept."""
RANGES = (("0 seconds", "0 seconds"), ("0 seconds", "25 minutes"), ("-2 hours", "-3 minutes"), ("-5 minutes", "1 hour"))
BROKEN = st.sampled_from([None, b"", b"{", b"[]", b"\xff", b'{"at":"soon"}', b'{"at":1357000000,"v":1.5}', b"{}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One record to write, or a place where the log has offsets without records."""

    partition: int
    wait: int = 0  # seconds of log time since the one before
    ahead: int = 0  # seconds of the event time after the log time; below 0: behind it
    fields: Mapping[str, Any] | bytes | None = None  # next to the event time; bytes or None: the whole value
    repeats: int = 0  # the bytes of the record that many before it once more, as a producer's retry sends them
    payload: Mapping[str, Any] | None = None  # of a repeat: the same id and event time with other fields
    aborted: bool = False  # before it, a transaction of one record that was aborted: two offsets without a record


GAP = 2
"""Offsets that an aborted transaction of one record takes: the record and the marker."""


def log_of(sends: Iterable[Send], *, preceding: Sequence[RawRecord] = ()) -> tuple[RawRecord, ...]:
    """Return the records that the log holds for `sends`, behind those of `preceding`: log time goes forward."""
    log = max((record.log_time_micros for record in preceding), default=START * MICROS) // MICROS
    following = {record.partition: record.offset + 1 for record in preceding}
    raw_records: list[RawRecord] = []
    for send in sends:
        log += send.wait
        offset = following.get(send.partition, 0) + (GAP if send.aborted else 0)
        value = _value(send, log, [*preceding, *raw_records])
        raw_records.append(
            RawRecord(partition=send.partition, offset=offset, log_time_micros=log * MICROS, value=value),
        )
        following[send.partition] = offset + 1
    return tuple(raw_records)


def _value(send: Send, log: int, raw_records: Sequence[RawRecord]) -> bytes | None:
    if 0 < send.repeats <= len(raw_records):
        return _repeated(raw_records[-send.repeats].value, send.payload)
    if not isinstance(send.fields, Mapping):
        return send.fields
    return json.dumps({"at": log + send.ahead, **send.fields}).encode()


def _repeated(value: bytes | None, payload: Mapping[str, Any] | None) -> bytes | None:
    """Return the value of a record sent once more; with other fields if `payload` has any and the record has an id."""
    if payload is None or value is None or b'"i"' not in value:
        return value
    return json.dumps(json.loads(value) | dict(payload)).encode()


def sends(*, partitions: int = PARTITIONS, latest: int = 10_800, gaps: bool = False) -> st.SearchStrategy[Send]:
    """Draw one record to write: disorder, repeats, broken values and dates beyond what is allowed.

    Args:
        partitions: Partitions to write to.
        latest: Seconds that an event time lies behind the log time, at most; now and then it is twice as many.
        gaps: Whether aborted transactions lie between records.
    """
    payload = {"k": KEYS, "v": VALUES, "x": AMOUNTS}
    good = st.fixed_dictionaries({**payload, "i": IDS})
    return st.builds(
        Send,
        partition=st.integers(0, partitions - 1),
        wait=st.integers(0, 1_800),
        ahead=st.one_of(
            st.integers(-latest, 300), st.sampled_from([-2 * latest, -2 * latest, 3_600, 3_601, 2_700_000_000])
        ),
        fields=_mostly(good, BROKEN),
        repeats=_mostly(st.just(0), st.integers(1, 20)),
        payload=_mostly(st.none(), st.fixed_dictionaries(payload)),
        aborted=_rarely() if gaps else st.just(value=False),
    )


def _mostly(usual: st.SearchStrategy[Any], seldom: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda number: seldom if number == 9 else usual)


def _rarely() -> st.SearchStrategy[bool]:
    return st.integers(0, 9).map(lambda number: number == 9)


def event_logs(*, max_size: int = 40, gaps: bool = False) -> st.SearchStrategy[tuple[RawRecord, ...]]:
    """Draw a log: log time that goes forward, event time around it, by up to six hours late."""
    one_send = sends(gaps=gaps)
    # A list without a smallest size is short: five records on average, in which little happens.
    return st.integers(0, max_size).flatmap(lambda size: st.lists(one_send, min_size=size, max_size=size)).map(log_of)


def split(log: Sequence[RawRecord], pipeline: Pipeline) -> tuple[RawRecord, ...]:
    """Return a log as its pipeline numbers it: where it joins two topics, the last partition is one of the right's."""
    if not isinstance(pipeline.join, Join):
        return tuple(log)
    return tuple(replace(r, partition=RIGHT_PARTITION_BASE) if r.partition == PARTITIONS - 1 else r for r in log)


def ends_split(end: Mapping[int, int], pipeline: Pipeline) -> dict[int, int]:
    """Return next offsets as their pipeline numbers them; both topics have as many partitions."""
    if not isinstance(pipeline.join, Join):
        return dict(end)
    last_partition = PARTITIONS - 1
    other_ends = {partition: 0 for start in (0, RIGHT_PARTITION_BASE) for partition in range(start, start + PARTITIONS)}
    return (
        other_ends
        | {p: offset for p, offset in end.items() if p != last_partition}
        | {RIGHT_PARTITION_BASE: end.get(last_partition, 0)}
    )


def ends_of(log: Iterable[RawRecord], partitions: int = PARTITIONS) -> dict[int, int]:
    """Return the next offset of every partition."""
    return {p: max((r.offset + 1 for r in log if r.partition == p), default=0) for p in range(partitions)}


@st.composite
def borders(draw: st.DrawFn, log: Sequence[RawRecord], *, max_count: int = 3) -> tuple[dict[int, int], ...]:
    """Draw the ends of epochs over a log: next offsets by partition, ascending; the last one reads all."""
    ends = ends_of(log)
    cuts = [
        {p: draw(st.integers(0, end)) for p, end in ends.items()} for _ in range(draw(st.integers(0, max_count - 1)))
    ]
    epoch_ends: list[dict[int, int]] = []
    for cut in cuts:
        previous = epoch_ends[-1] if epoch_ends else dict.fromkeys(ends, 0)
        epoch_ends.append({p: max(previous[p], cut[p]) for p in ends})
    return (*epoch_ends, ends)


WINDOWS: Mapping[str, tuple[Window, ...]] = {
    "fixed": (Fixed(hours=1), Fixed(minutes=20), Fixed(minutes=20, offset="7 minutes")),
    "sliding": (
        SlidingWindows(size=3_600 * MICROS, every=1_500 * MICROS),
        SlidingWindows(size=3_600 * MICROS, every=1_800 * MICROS, offset=420 * MICROS),
    ),
    "daily": (Daily(zone="Europe/Berlin", offset="90 minutes"),),
    "monthly": (Monthly(zone="Europe/Berlin", offset="90 minutes"), Monthly(zone="America/New_York")),
    "global": (Global(),),
    # With a wait of half an hour at most, rows of a key make sessions of some, and late ones fall between them.
    "sessions": (Sessions("10 minutes"), Sessions("25 minutes")),
}
"""Every kind of window, some with an offset."""


def windows(kind: str | None = None) -> st.SearchStrategy[Window]:
    """Draw a window of one kind; of any where none is named."""
    choices = [window for name, some in WINDOWS.items() for window in some if kind in {None, name}]
    return st.sampled_from(choices)


@st.composite
def pipelines(
    draw: st.DrawFn,
    *,
    topic: str = "t",
    ids: bool = True,
    joined: Joined | None = None,
    window: st.SearchStrategy[Window] | None = None,
) -> Pipeline:
    """Draw a definition over the records of `event_logs`, with any window or one of these.

    Half of them know records by their ids.

    With `joined` it joins the topic: with itself, or with `<topic>-right`, of which each record in the last partition
    is then meant.
    """
    plain = draw(_plain(topic, windows() if window is None else window, ids=ids and joined is None))
    if joined is None:
        return plain
    topics, join_type = joined
    join: SelfJoin | Join
    if topics == "one":
        join = SelfJoin(on=plain.key, left="x IS NULL OR x < 900", right="w > 0", how=join_type, prefix="r_")
    else:
        on = {name: name for name in plain.key}
        right = replace(plain.source, name=f"{topic}-right")
        join = Join(right=right, on=on, how=join_type, prefix="r_", where="v <> 2", derive={"w": "v * 2"})
        if topics == "range" and plain.window in WINDOWS["fixed"]:
            join = replace(join, between=draw(st.sampled_from(RANGES)), ids=("i", "i"))
    further: dict[str, Measure] = {"low": Min("r_w"), "far": Sum("v - r_v")}
    return replace(plain, join=join, measures={**plain.measures, **further})


@st.composite
def _plain(draw: st.DrawFn, topic: str, some: st.SearchStrategy[Window], *, ids: bool) -> Pipeline:
    window = draw(some)
    record_id = draw(st.sampled_from([None, "i"])) if ids and not isinstance(window, Sessions) else None
    horizons = ["30 minutes", "2 hours"] if isinstance(window, Global) else [None, None, "30 minutes", "4 hours"]
    return Pipeline(
        name="p",
        source=Topic(
            name=topic,
            schema="at timestamp NOT NULL, k string, v int, x double, i bigint NOT NULL",
            event_time="at",
            time_format="seconds",
            record_id=record_id,
            id_horizon=None if record_id is None else draw(st.sampled_from(horizons)),
        ),
        where=draw(st.sampled_from([None, "v <> 3", "k IS NOT NULL OR x > 0"])),
        derive={"w": draw(st.sampled_from(["v", "v + 1", "CASE WHEN v > 0 THEN 10 / v END"]))},
        key=draw(st.sampled_from([("k",), ("k", "v")])),
        window=window,
        measures={"n": Count(), "total": Sum("v"), "low": Min("w"), "high": Max("k"), "mean": Avg("x")},
        lateness=Lateness(
            out_of_orderness=draw(st.sampled_from(["0 seconds", "20 minutes"])),
            allowed=draw(st.sampled_from(["0 seconds", "1 hour"])),
            max_ahead="1 hour",
        ),
    )
