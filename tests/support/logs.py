"""Logs as Hypothesis draws them: disorder, nulls, late and future events, malformed records, several partitions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from cutover.definition import Avg, Count, Fixed, Lateness, Max, Min, Pipeline, Sliding, Sum, Topic
from cutover.definition.windows import Sliding as Window
from cutover.log.kafka import RawRecord

MICROS = 1_000_000
START = 1_357_000_000
"""Unix seconds at which a drawn log begins."""

PARTITIONS = 3

KEYS = st.sampled_from([None, "", "a", "b", "ß", "a,b"])
VALUES = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**31 - 1, -(2**31)]))
AMOUNTS = st.one_of(st.none(), st.integers(-(10**4), 10**4).map(lambda cents: cents / 4))
BROKEN = st.sampled_from([None, b"", b"{", b"[]", b"\xff", b'{"at":"soon"}', b'{"at":1357000000,"v":1.5}', b"{}"])


def _record(partition: int, offset: int, log: int, value: Mapping[str, Any] | bytes | None) -> RawRecord:
    raw = json.dumps(value).encode() if isinstance(value, Mapping) else value
    return RawRecord(partition=partition, offset=offset, log_time_micros=log * MICROS, value=raw)


@st.composite
def event_logs(draw: st.DrawFn, *, most: int = 40) -> tuple[RawRecord, ...]:
    """Draw a log: offsets without gaps, log time that goes forward, event time around it, by up to three hours late."""
    found: list[RawRecord] = []
    following = [0] * PARTITIONS
    log = START
    for _ in range(draw(st.integers(0, most))):
        log += draw(st.integers(0, 1_800))
        partition = draw(st.integers(0, PARTITIONS - 1))
        distance = draw(st.one_of(st.integers(-10_800, 300), st.sampled_from([3_600, 3_601, 2_700_000_000])))
        event = {"at": log + distance, "k": draw(KEYS), "v": draw(VALUES), "x": draw(AMOUNTS)}
        value = draw(BROKEN) if draw(st.integers(0, 9)) == 0 else event
        found.append(_record(partition, following[partition], log, value))
        following[partition] += 1
    return tuple(found)


@st.composite
def borders(draw: st.DrawFn, log: Sequence[RawRecord], *, most: int = 3) -> tuple[dict[int, int], ...]:
    """Draw the ends of epochs over a log: next offsets by partition, ascending; the last one reads all."""
    ends = {p: sum(1 for record in log if record.partition == p) for p in range(PARTITIONS)}
    cuts = [{p: draw(st.integers(0, end)) for p, end in ends.items()} for _ in range(draw(st.integers(0, most - 1)))]
    found: list[dict[int, int]] = []
    for cut in cuts:
        before = found[-1] if found else dict.fromkeys(ends, 0)
        found.append({p: max(before[p], cut[p]) for p in ends})
    return (*found, ends)


def windows() -> st.SearchStrategy[Window]:
    """Draw a fixed or sliding window."""
    sliding = Sliding(size=3_600 * MICROS, every=1_500 * MICROS)
    return st.sampled_from([Fixed(hours=1), Fixed(minutes=20), sliding])


@st.composite
def pipelines(draw: st.DrawFn, *, topic: str = "t") -> Pipeline:
    """Draw a definition over the records of `event_logs`."""
    return Pipeline(
        name="p",
        source=Topic(
            name=topic,
            schema="at timestamp NOT NULL, k string, v int, x double",
            event_time="at",
            time_format="seconds",
        ),
        where=draw(st.sampled_from([None, "v <> 3", "k IS NOT NULL OR x > 0"])),
        derive={"w": draw(st.sampled_from(["v", "v + 1", "CASE WHEN v > 0 THEN 10 / v END"]))},
        key=draw(st.sampled_from([("k",), ("k", "v")])),
        window=draw(windows()),
        measures={"n": Count(), "total": Sum("v"), "low": Min("w"), "high": Max("k"), "mean": Avg("x")},
        lateness=Lateness(
            out_of_orderness=draw(st.sampled_from(["0 seconds", "20 minutes"])),
            allowed=draw(st.sampled_from(["0 seconds", "1 hour"])),
            max_ahead="1 hour",
        ),
    )
