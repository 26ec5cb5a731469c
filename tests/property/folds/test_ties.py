"""Ties of every kind: equal rows fold, join and differ to the same result, however an engine orders them.

Two windows of one DuckDB query may order equal rows otherwise where several threads sort them: in three of eight
queries over four tables of 200,000 rows on 4 threads. So the tables are large, and each query runs several times.
"""

import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from cutover.definition import Count, Pipeline, Sessions, Sum, Topic
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.reconcile.comparison.diff import diff_relations
from cutover.reconcile.comparison.layout import Layout, Value
from cutover.records.fold import fold_sql, group_sessions_sql

GAP = 500
SIDES = 4  # as many as a comparison has: batch, and the stream after each class
RUNS = 4
PIPELINE = Pipeline(
    name="s",
    source=Topic(name="s", schema="k string, j int, at timestamp, v int", event_time="at"),
    key=("k", "j"),
    window=Sessions(f"{GAP} milliseconds"),
    measures={"n": Count(), "v": Sum("v")},
)
Key = tuple[str, int]


@pytest.fixture(scope="module")
def rows() -> list[tuple[Key, int]]:
    """Return keys and starts; each row is on every side, so that it has three equals."""
    rng = random.Random(11)  # noqa: S311 -- made-up data, the same every time
    return [
        ((f"a key that is no short text {rng.randrange(120_000)}", rng.randrange(5)), rng.randrange(400_000))
        for _ in range(120_000)
    ]


@pytest.fixture(scope="module")
def lake(rows: list[tuple[Key, int]]) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"threads": 4})
    connection.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
    rng = random.Random(12)  # noqa: S311 -- as above
    for side in range(SIDES):
        shuffled_rows = rng.sample(rows, len(rows))
        connection.register(
            "given",
            pa.table(
                {
                    "k": [k for (k, _), _ in shuffled_rows],
                    "j": [j for (_, j), _ in shuffled_rows],
                    "t": [at for _, at in shuffled_rows],
                }
            ),
        )
        connection.execute(
            f"CREATE TABLE side_{side} AS SELECT 'accepted' AS _class, make_timestamptz(t * 1000000) AS window_start,"  # noqa: S608 -- ours
            f" make_timestamptz(t * 1000000 + {GAP * 1000}) AS window_end, k, j::INTEGER AS j, 1::BIGINT AS n,"
            " t::DECIMAL(38,0) AS v, 1::BIGINT AS _n FROM given"
        )
    yield connection
    connection.close()


def union_of_sides(columns: str = "*") -> str:
    return " UNION ALL ".join(f"SELECT {columns} FROM side_{side}" for side in range(SIDES))  # noqa: S608 -- ours


def truth(rows: list[tuple[Key, int]]) -> dict[tuple[Key, int, int], int]:
    """Return the records of each session, by key, start and end in microseconds."""
    by_key: dict[Key, list[int]] = {}
    for key, at in rows:
        by_key.setdefault(key, []).append(at * 1_000_000)
    records_by_session: Counter[tuple[Key, int, int]] = Counter()
    for key, starts in by_key.items():
        sessions = sorted(merge_intervals(Interval(start, start + GAP * 1_000) for start in starts))
        of_start = {start: next(s for s in reversed(sessions) if s.start <= start) for start in set(starts)}
        records_by_session.update(
            (key, of_start[start].start, of_start[start].end) for start in starts for _ in range(SIDES)
        )
    return dict(records_by_session)


def test_equal_intervals_fold_to_the_sessions_of_plain_python_each_time(
    lake: duckdb.DuckDBPyConnection, rows: list[tuple[Key, int]]
) -> None:
    fold = fold_sql(PIPELINE, f"({union_of_sides()})")
    query = f"SELECT k, j, epoch_us(window_start), epoch_us(window_end), _n FROM ({fold})"  # noqa: S608 -- ours
    expected = truth(rows)
    for _ in range(RUNS):
        sessions = lake.execute(query).fetchall()
        assert {((k, j), start, end): n for k, j, start, end, n in sessions} == expected
        assert len(sessions) == len(expected)


def test_equal_intervals_of_several_sides_are_in_one_session_each_time(
    lake: duckdb.DuckDBPyConnection, rows: list[tuple[Key, int]]
) -> None:
    sessions = group_sessions_sql(PIPELINE.key, f"({union_of_sides('k, j, window_start, window_end')})")
    query = f"SELECT count(*) FROM (SELECT DISTINCT k, j, __session FROM ({sessions}))"  # noqa: S608 -- ours

    assert {lake.execute(query).fetchall()[0][0] for _ in range(RUNS)} == {len(truth(rows))}


def test_copies_of_a_row_are_paired_alike_each_time(lake: duckdb.DuckDBPyConnection) -> None:
    layout = Layout(
        keys=("window_start", "k"),
        values=(Value(name="j"), Value(name="v")),
        group="window_start",
        wide=frozenset({"v"}),
    )
    lake.execute("CREATE OR REPLACE TEMP TABLE missing AS SELECT * FROM side_1 WHERE j > 0")
    outcomes = set()
    for _ in range(RUNS // 2):
        diff_relations(lake, layout, "side_0", "missing", into="apart")
        outcomes.add(tuple(lake.execute("FROM apart ORDER BY ALL").fetchall()))
    assert len(outcomes) == 1
