"""Rows that Spark writes of sessions in append mode: merged, they are the sessions of what was not late."""

from collections.abc import Iterator, Sequence

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Count, Max, Pipeline, Sessions, Sum, Topic
from cutover.reconcile.comparison.digests import PARTS, merge_parts_sql

GAP = 3_000
PIPELINE = Pipeline(
    name="visits",
    source=Topic(name="visits", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Sessions(gap="3 milliseconds"),
    measures={"n": Count(), "total": Sum("at"), "newest": Max("at")},
)
Row = tuple[str | None, int, int, int, int, int]  # key, start, end, records, sum and maximum of their times

BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 40).map(lambda n: n * 500)), max_size=8),
    min_size=1,
    max_size=8,
)


def make_row(key: str | None, times: Sequence[int]) -> Row:
    return key, min(times), max(times) + GAP, len(times), sum(times), max(times)


def group_times(times: Sequence[int]) -> Iterator[list[int]]:
    """Yield the times of each session; a record exactly a gap later belongs to it."""
    session: list[int] = []
    for time in sorted(times):
        if session and time > session[-1] + GAP:
            yield session
            session = []
        session.append(time)
    if session:
        yield session


def run_job(batches: Sequence[Sequence[tuple[str | None, int]]]) -> tuple[list[Row], list[tuple[str | None, int]]]:
    """Repeat what Spark does in append mode: the rows that it writes, and the records that were not late."""
    state: dict[str | None, list[int]] = {}
    rows: list[Row] = []
    accepted: list[tuple[str | None, int]] = []
    judged_by = watermark = newest = 0
    for batch in (*batches, [], [("end", 10**9)], [], []):
        in_time = [(key, time) for key, time in batch if time + GAP > judged_by]
        accepted += [record for record in in_time if record[0] != "end"]
        for key, time in in_time:
            state.setdefault(key, []).append(time)
        for key, times in state.items():
            sessions = list(group_times(times))
            rows += [make_row(key, session) for session in sessions if session[-1] + GAP <= watermark]
            state[key] = [time for session in sessions if session[-1] + GAP > watermark for time in session]
        newest = max([newest, *(time for _, time in batch)])
        judged_by, watermark = watermark, max(watermark, newest)
    return [row for row in rows if row[0] != "end"], accepted


def merge(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE job (k VARCHAR, s BIGINT, e BIGINT, n BIGINT, total BIGINT, newest BIGINT)")
    if rows:
        connection.executemany("INSERT INTO job VALUES (?, ?, ?, ?, ?, ?)", rows)
    job = "SELECT * EXCLUDE (s, e), make_timestamptz(s) AS window_start, make_timestamptz(e) AS window_end FROM job"
    columns = f"k, epoch_us(window_start), epoch_us(window_end), n, total, newest, {PARTS}"
    query = f"SELECT {columns} FROM ({merge_parts_sql(PIPELINE, job)})"  # noqa: S608 -- internal names
    return sorted(connection.execute(query).fetchall(), key=str)


@given(batches=BATCHES)
def test_the_rows_of_a_job_are_the_sessions_of_what_was_in_time(
    batches: list[list[tuple[str | None, int]]],
) -> None:
    rows, accepted = run_job(batches)
    keys = {key for key, _ in accepted}
    sessions = [(key, session) for key in keys for session in group_times([t for k, t in accepted if k == key])]
    merged = merge(rows)

    assert [row[:-1] for row in merged] == sorted((make_row(key, session) for key, session in sessions), key=str)
    assert sum(int(str(row[-1])) for row in merged) == len(rows)


def test_a_row_that_was_written_twice_is_not_merged() -> None:
    row = make_row("a", [1_000, 2_000])

    assert merge([row, row]) == [(*row, 1), (*row, 1)]
    assert [found[-1] for found in merge([row, make_row("a", [2_000])])] == [1, 1]
