"""Sessions fold to the same from any split: those of plain Python, whatever was folded before, and in which order."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Count, Pipeline, Sessions, Sum, Topic, TopK
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.records.fold import fold_sql
from tests.support.suite.depth import depth

GAP = 10
PIPELINE = Pipeline(
    name="s",
    source=Topic(name="s", schema="k string, at timestamp, v int", event_time="at"),
    key=("k",),
    window=Sessions(f"{GAP} milliseconds"),
    measures={"n": Count(), "v": Sum("v"), "most": TopK("k")},
)
KEYS = st.sampled_from([None, "", "a", "b"])
Event = tuple[str | None, int, int]  # key, time (milliseconds), value
Shown = Mapping[tuple[str | None, Interval], tuple[int, int, Mapping[str, int]]]  # records, sum, count of each value

# Steps of the gap and its neighbours: rows touch exactly, fall one short, bridge.
TIMES = st.integers(-3, 12).flatmap(lambda n: st.integers(n * GAP - 1, n * GAP + 1))
EVENTS = st.lists(st.tuples(KEYS, TIMES, st.integers(-5, 5)), max_size=25)


def moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def milliseconds(time: datetime) -> int:
    return (time - moment(0)) // timedelta(milliseconds=1)


def alone(events: Sequence[Event], cls: str = "accepted") -> pa.Table:
    rows = [
        {
            "_class": cls,
            "window_start": moment(at),
            "window_end": moment(at + GAP),
            "k": key,
            "n": 1,
            "v": value,
            "most__counts": [{"value": key, "count": 1}] if key is not None else None,
            "_n": 1,
        }
        for key, at, value in events
    ]
    return pa.Table.from_pylist(rows, schema=partial_schema(PIPELINE))


def fold_parts(parts: Sequence[pa.Table]) -> pa.Table:
    """Return what parts fold to, as rows that can be folded again."""
    with duckdb.connect() as connection:
        connection.register("parts", pa.concat_tables(parts))
        other_columns = "'accepted' AS _class, NULL AS _positions, NULL AS _partition, NULL AS _unknown"
        rows = queries.query_table(connection, f"SELECT *, {other_columns} FROM ({fold_sql(PIPELINE, 'parts')})")  # noqa: S608 -- ours
    schema = partial_schema(PIPELINE)
    return rows.select(schema.names).cast(schema)


def sessions_of(table: pa.Table) -> Shown:
    rows = table.to_pylist()
    assert len({(row["k"], row["window_start"]) for row in rows}) == len(rows)
    return {
        (row["k"], Interval(milliseconds(row["window_start"]), milliseconds(row["window_end"]))): (
            row["n"],
            int(row["v"]),
            {entry["value"]: entry["count"] for entry in row["most__counts"] or ()},
        )
        for row in rows
    }


def truth(events: Sequence[Event]) -> Shown:
    expected: dict[tuple[str | None, Interval], tuple[int, int, Mapping[str, int]]] = {}
    for key in {event[0] for event in events}:
        key_events = [(at, value) for k, at, value in events if k == key]
        for session in merge_intervals(Interval(at, at + GAP) for at, _ in key_events):
            session_values = [value for at, value in key_events if session.start <= at <= session.end]
            expected[key, session] = (
                len(session_values),
                sum(session_values),
                {} if key is None else {key: len(session_values)},
            )
    return expected


@depth(few=25, many=2000)
@given(events=EVENTS, data=st.data())
def test_any_split_of_rows_in_any_order_folds_to_the_sessions_of_plain_python(
    events: list[Event], data: st.DataObject
) -> None:
    parts: dict[int, list[Event]] = {}
    for event in data.draw(st.permutations(events)):
        parts.setdefault(data.draw(st.integers(0, 3)), []).append(event)
    tables = [alone(part) for part in parts.values()]
    while len(tables) > 1 and data.draw(st.booleans()):  # a fold of some, then folds of folds
        some = data.draw(st.integers(1, len(tables)))
        tables = [*tables[some:], fold_parts(tables[:some])]

    assert sessions_of(fold_parts(tables or [alone([])])) == truth(events)


def test_a_row_that_is_not_asked_for_bridges_nothing() -> None:
    apart: list[Event] = [("a", 0, 1), ("a", 2 * GAP, 2)]
    table = pa.concat_tables([alone(apart), alone([("a", GAP, 4)], cls="late")])

    assert sessions_of(fold_parts([table])) == truth(apart)
    assert len(truth([*apart, ("a", GAP, 4)])) == 1
