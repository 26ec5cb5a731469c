"""Event time at real speed: the arrays compared with a plain simulation of one instant after the other."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic
from cutover.engine import queries
from cutover.reconcile.advisor import log_lateness
from cutover.reconcile.advisor.predict import UNKNOWN, Appended, compute_watermarks, find_append_times
from tests.support.log.real_speed import Record, quantile, simulate

RECORDS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 60), st.one_of(st.none(), st.integers(0, 80))), max_size=60
)


def arrays(records: list[Record]) -> Appended:
    columns = zip(*records, strict=True) if records else ([], [], [])
    partitions, log_times, events = (np.array([UNKNOWN if x is None else x for x in of], np.int64) for of in columns)
    return Appended(partitions=partitions, log_times=log_times, events=events)


@given(RECORDS, st.integers(1, 90))
def test_event_time_reached_is_that_of_a_plain_simulation(drawn_records: list[Record], idle_after: int) -> None:
    records = sorted(
        drawn_records, key=lambda record: record[0]
    )  # by partition; within it in the order drawn, as offsets have it

    assert compute_watermarks(arrays(records), idle_after).tolist() == simulate(records, idle_after)


@pytest.mark.quick
@given(RECORDS, st.integers(1, 90))
def test_no_result_depends_on_the_order_of_partitions(drawn_records: list[Record], idle_after: int) -> None:
    names = [3, 1, 0, 2]
    in_order = sorted(drawn_records, key=lambda record: record[0])
    in_other_order = sorted(drawn_records, key=lambda record: names[record[0]])

    results = [
        sorted(zip(some, compute_watermarks(arrays(some), idle_after).tolist(), strict=True), key=repr)
        for some in (in_order, in_other_order)
    ]

    assert results[0] == results[1]


@given(RECORDS)
def test_a_log_time_that_goes_back_is_that_of_the_record_before(drawn_records: list[Record]) -> None:
    records = sorted(drawn_records, key=lambda record: record[0])

    append_times = find_append_times(arrays(records)).tolist()

    for number, (partition, log_time, _) in enumerate(records):
        assert append_times[number] >= log_time
        assert append_times[number] == max(record[1] for record in records[: number + 1] if record[0] == partition)


SECOND = 1_000_000
PIPELINE = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(seconds=10),
    measures={"sales": Count()},
    lateness=Lateness(out_of_orderness="3 seconds", allowed="2 seconds"),
)
JUDGED = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["a", "b", None, "'; --", "\x1b[31m"]),
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(0, 90)),
    st.one_of(st.none(), st.integers(0, 90)),
)


@given(st.lists(JUDGED, min_size=1, max_size=80))
def test_quantiles_and_late_records_are_those_of_a_plain_fold(
    records: list[tuple[int, str | None, int, int | None, int | None]],
) -> None:
    """Each record: partition, key, event time, and how far time had come before it was appended, and read."""
    ends = [event // 10 * 10 + 10 for _, _, event, _, _ in records]
    rows = [
        {"__partition": p, "__offset": at, "__log": 0, "__event": event * SECOND, "__ends": end * SECOND, "k": key}
        for at, ((p, key, event, _, _), end) in enumerate(zip(records, ends, strict=True))
    ]
    reached_rows = [
        {"__partition": p, "__offset": at, "__reached": UNKNOWN if real is None else real * SECOND}
        for at, (p, _, _, real, _) in enumerate(records)
    ]
    reads = [
        {"__partition": p, "__first": at, "__read": None if read is None else read * SECOND}
        for at, (p, _, _, _, read) in enumerate(records)
    ]
    with queries.open_duckdb() as connection:
        connection.register("given", pa.Table.from_pylist(rows))
        connection.execute("CREATE OR REPLACE TEMP TABLE pairs AS SELECT * FROM given")
        connection.execute("DROP TABLE IF EXISTS judged")
        schema = pa.schema([(name, pa.int64()) for name in ("__partition", "__first", "__read")])
        connection.register("reached", pa.Table.from_pylist(reached_rows))
        log_lateness.create_judged_table(connection, PIPELINE, pa.Table.from_pylist(reads, schema=schema))
        shares = log_lateness.count_late(connection, None)
        quantiles = log_lateness.measure_quantiles(connection)
        histogram = log_lateness.count_by_lateness(connection)
        segments = log_lateness.list_segments(connection, PIPELINE.key)

    delays = [0 if real is None else max(0, real - event) for _, _, event, real, _ in records]
    assert quantiles is not None
    assert (quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999, quantiles.largest) == (
        *(quantile(delays, share) for share in (0.5, 0.9, 0.99, 0.999)),
        max(delays),
    )
    times = [(end, real, read) for (_, _, _, real, read), end in zip(records, ends, strict=True)]
    late = sum(real is not None and end + 2 <= real - 3 for end, real, _ in times)
    missed = sum(read is not None and end + 2 <= read - 3 for end, _, read in times)
    assert (shares.pairs, shares.at_real_speed, shares.as_read) == (len(records), late, missed)
    assert sum(bucket.records for bucket in histogram) == len(records)
    assert {(int(str(segment.value)), segment.records) for segment in segments if segment.column is None} == {
        (p, sum(row[0] == p for row in records)) for p in {row[0] for row in records}
    }
