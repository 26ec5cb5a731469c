"""Every further measure in one definition, records for it, and the partial state of one record."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from cutover.definition import (
    ApproxDistinct,
    Bag,
    Count,
    First,
    Fixed,
    Last,
    Lateness,
    Pipeline,
    Quantile,
    Stddev,
    Topic,
    TopK,
    Variance,
)
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures.kinds import EXPONENT_BIAS, Measure
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.log.kafka import RawRecord
from cutover.records.fold import finish_sql, fold_sql
from cutover.records.reference.measures import spark_hash
from tests.support.log.logs import PARTITIONS
from tests.support.rows.digits import digits_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LONG = "more than the thirty-two bytes that a stripe of a hash takes, ß at the end"
MEASURES: Mapping[str, Measure] = {
    "n": Count(),
    "spread": Variance("v"),
    "cents": Stddev("m"),
    "noisy": Stddev("x"),
    "opens": First("t"),
    "closes": Last("x"),
    "day": Last("d"),
    "flag": First("yes"),
    "price": Last("m"),
    "sight": Last("seen"),
    "places": TopK("t", 2),
    "numbers": TopK("b"),
    "days": TopK("d", 1),
    "prices": TopK("m", 3),
    "median": Quantile("v", 0.5),
    "high": Quantile("x", 0.9, error=0.001),
    "low": Quantile("m", 0),
    "texts": ApproxDistinct("t"),
    "integers": ApproxDistinct("v", k=4),
    "bigints": ApproxDistinct("b", k=3),
    "sums": ApproxDistinct("m", k=5),
    "moments": ApproxDistinct("seen", k=2),
    "dates": ApproxDistinct("d", k=2),
    "flags": ApproxDistinct("yes"),
    "rows": Bag("x", most=3),
    "words": Bag("t"),
    "paid": Bag("m"),
}
PIPELINE = Pipeline(
    name="measured",
    source=Topic(
        name="t",
        schema="at timestamp NOT NULL, k string, v int, b bigint, m decimal(9,2), x double, t string, d date, "
        "yes boolean, seen timestamp",
        event_time="at",
        time_format="millis",
    ),
    key=("k",),
    window=Fixed(hours=1),
    measures=MEASURES,
    lateness=Lateness(allowed="1 hour", max_ahead="1 hour"),
)


COLUMNS = ("v", "b", "m", "x", "t", "d", "yes", "seen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One accepted record of the one window and key."""

    at: int  # microseconds of event time
    partition: int
    offset: int
    columns: Mapping[str, Any]


def columns() -> st.SearchStrategy[Mapping[str, Any]]:
    """Draw the columns of one record other than its time and key."""
    values: dict[str, st.SearchStrategy[Any]] = {
        "v": st.one_of(st.integers(-5, 300), st.sampled_from([2**31 - 1, -(2**31)])),
        "b": st.one_of(st.integers(0, 9), st.sampled_from([2**63 - 1, -(2**63)])),
        "m": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents) / 100),
        "x": st.one_of(st.sampled_from([0.1, -2.5, 1e-300, 1e9 + 0.1, 3.0]), st.floats(-1e12, 1e12).map(_plain)),
        "t": st.sampled_from(["", "a", "b", "ß", "a,b", LONG]),
        "d": st.dates(datetime(1969, 12, 30, tzinfo=UTC).date(), datetime(1970, 1, 3, tzinfo=UTC).date()),
        "yes": st.booleans(),
        "seen": st.sampled_from([EPOCH, EPOCH - HOUR]),
    }
    return st.fixed_dictionaries({name: st.one_of(st.none(), value) for name, value in values.items()})


def _plain(number: float) -> float:
    return number + 0.0  # minus zero is zero


@st.composite
def records_of_group(draw: st.DrawFn, *, max_size: int = 12) -> list[Taken]:
    """Draw the records of a group: event times out of order and equal, positions in two partitions."""
    records = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), columns()), max_size=max_size))
    return [
        Taken(at=at * 1_000_000, partition=partition, offset=offset, columns=values)
        for offset, (at, partition, values) in enumerate(records)
    ]


def single(row: Taken, pipeline: Pipeline = PIPELINE) -> dict[str, Any]:
    """Return the partial row of one record."""
    states: dict[str, Any] = {}
    for name, measure in pipeline.measures.items():
        value = 1 if measure.expression is None else row.columns[measure.expression]
        states |= _state(measure, name, value, row, compile_pipeline(pipeline).measured_type(name))
    return {
        "_class": "accepted",
        "window_start": EPOCH,
        "window_end": EPOCH + HOUR,
        "k": "a",
        "_n": 1,
        "_unknown": 0,
        **states,
    }


def _state(measure: Measure, name: str, value: Any, row: Taken, kind: str | None) -> dict[str, Any]:
    match measure:
        case Variance():
            units = value if value is None or kind in {"int", "double"} else Decimal(value).scaleb(2)
            squares = None if units is None else units * units
            if kind == "double":
                units, squares = (None if number is None else digits_of(float(number)) for number in (units, squares))
            return {f"{name}__count": int(value is not None), f"{name}__sum": units, f"{name}__squares": squares}
        case First():
            return {f"{name}__at": None if value is None else _with_position(row, value)}
        case Count():
            return {name: 1}
        case _:
            (state,) = measure.states(name, kind)
            return {state.column: [] if value is None else [_entry(measure, value, row, kind)]}


def _entry(measure: Measure, value: Any, row: Taken, kind: str | None) -> Any:
    match measure:
        case TopK():
            return {"value": value, "count": 1}
        case Quantile():
            return {"value": bucket(value, measure.bits), "count": 1}
        case Bag():
            return _with_position(row, value)
        case _:
            return spark_hash(value, str(kind))


def _with_position(row: Taken, value: Any) -> dict[str, Any]:
    at = EPOCH + timedelta(microseconds=row.at)
    return {"event_time": at, "partition": row.partition, "offset": row.offset, "value": value}


def bucket(value: Any, bits: int) -> int:
    """Return the number of a value's bucket."""
    mantissa, power = math.frexp(abs(value))
    offset = int((2 * mantissa - 1) * 2**bits)
    return 0 if value == 0 else ((power - 1 + EXPONENT_BIAS) * 2**bits + offset) * (1 if value > 0 else -1)


def fold(parts: Sequence[pa.Table], pipeline: Pipeline = PIPELINE) -> pa.Table:
    """Return the fold of some partials as a partial row again."""
    connection = _holding(parts)
    try:
        folded = f"SELECT 'accepted' AS _class, * FROM ({fold_sql(pipeline, 'parts')})"  # noqa: S608 -- our own text
        return queries.query_table(connection, folded).cast(_schema(pipeline))
    finally:
        connection.close()


def finish_partials(parts: Sequence[pa.Table], pipeline: Pipeline = PIPELINE) -> list[dict[str, Any]]:
    """Return the finished rows of some partials."""
    connection = _holding(parts)
    try:
        query = connection.execute(finish_sql(pipeline, "parts"))
        names = [column[0] for column in query.description]
        return [dict(zip(names, row, strict=True)) for row in query.fetchall()]
    finally:
        connection.close()


def table(rows: Sequence[Taken], pipeline: Pipeline = PIPELINE) -> pa.Table:
    """Return the partial rows of records, one each."""
    return pa.Table.from_pylist([single(row, pipeline) for row in rows], schema=_schema(pipeline))


def _schema(pipeline: Pipeline) -> pa.Schema:
    names = ("_positions", "_partition", "_unknown")
    return pa.schema([field for field in partial_schema(pipeline) if field.name not in names])


def _holding(parts: Sequence[pa.Table]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("parts", pa.concat_tables(parts))
    return connection


def raw_records(number: int, *, first_place: int = 0, hour: int = 0) -> list[RawRecord]:
    """Return records of every kind of value, some null, some records malformed.

    Args:
        number: How many.
        first_place: Place of the first one in the log; partitions take turns.
        hour: Event times lie within two hours from there.
    """
    rng = random.Random(first_place)  # noqa: S311 -- no secret
    return [_raw(rng, place, hour) for place in range(first_place, first_place + number)]


def _raw(rng: random.Random, place: int, hour: int) -> RawRecord:
    at = START + HOUR * hour + timedelta(seconds=rng.choice([60, 60, 61, rng.randrange(7200)]))
    fields = {name: value for name, value in _values(rng).items() if rng.random() < 0.8}
    record = {"at": micros(at) // 1000, "k": rng.choice(["a", "b", None]), **fields}
    return RawRecord(
        partition=place % PARTITIONS,
        offset=place // PARTITIONS,
        log_time_micros=micros(START + 12 * HOUR),
        value=json.dumps(record, default=float).encode() if rng.random() < 0.95 else b"{",
    )


def _values(rng: random.Random) -> dict[str, Any]:
    return {
        "v": rng.choice([rng.randrange(-50, 300), 2**31 - 1, -(2**31)]),
        "b": rng.choice([rng.randrange(10), 2**63 - 1, -(2**63)]),
        "m": Decimal(rng.randrange(-(10**9) + 1, 10**9)) / 100,
        "x": rng.choice([0.1, -2.5, 1e-300, 1e9 + 0.1, rng.uniform(-1e6, 1e6)]),
        "t": rng.choice(["", "a", "b", "ß", "a,b", LONG]),
        "d": (EPOCH.date() + timedelta(days=rng.randrange(-2, 3))).isoformat(),
        "yes": rng.random() < 0.5,
        "seen": rng.randrange(-(10**12), 10**12),
    }


def micros(time: datetime) -> int:
    """Return microseconds since 1970."""
    return (time - EPOCH) // timedelta(microseconds=1)
