"""Delays that settings are predicted from: the tables of DuckDB compared with a plain count over drawn records."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Lateness, Pipeline, Sliding, Topic
from cutover.engine import queries
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.advisor.gather import collect_delays, make_delays
from cutover.reconcile.advisor.predict import UNKNOWN, Delays, choose_settings, make_grid, predict

SECOND = 1_000_000
AHEAD = 3
FIXED = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(seconds=10),
    measures={"sales": Count()},
    lateness=Lateness(out_of_orderness=f"{AHEAD} seconds", allowed="2 seconds"),
)
SLIDING = replace(FIXED, window=Sliding(size="10 seconds", every="5 seconds"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One record: key, event time, epoch that read it, and event time reached before it was appended (seconds)."""

    key: str | None
    event: int
    epoch: int
    real: int | None


RECORDS = st.lists(
    st.builds(
        Drawn,
        key=st.sampled_from(["a", "b", None, "'; --"]),
        event=st.integers(0, 80),
        epoch=st.integers(0, 5),
        real=st.none() | st.integers(0, 120),
    ),
    min_size=1,
    max_size=60,
)
REACHED = st.lists(st.integers(0, 30), min_size=6, max_size=6)


def gather(pipeline: Pipeline, drawn_records: Sequence[Drawn], newest_by_epoch: Sequence[int]) -> Delays:
    rows = [
        {
            "__partition": 0,
            "__offset": offset,
            "__starts": window.start,
            "__ends": window.end,
            "k": record.key,
            "__epoch": record.epoch,
        }
        for offset, record in enumerate(drawn_records)
        for window in pipeline.window.assign_windows(record.event * SECOND)
    ]
    appended = [
        {"__partition": 0, "__offset": at, "__reached": UNKNOWN if record.real is None else record.real * SECOND}
        for at, record in enumerate(drawn_records)
    ]
    records = [make_epoch(number, newest_by_epoch) for number in range(len(newest_by_epoch))]
    with queries.open_duckdb() as connection:
        connection.register("pairs", pa.Table.from_pylist(rows))
        connection.register("reached", pa.Table.from_pylist(appended))
        make_delays(connection, pipeline, records)
        return collect_delays(connection, pipeline, records, has_real=True, is_live=True)


def make_epoch(number: int, newest_by_epoch: Sequence[int]) -> EpochRecord:
    marks = [None if at < 0 else (newest_by_epoch[at] - AHEAD) * SECOND for at in (number - 1, number)]
    return EpochRecord(
        epoch=number,
        run_id="r",
        topic="t",
        topic_id="i",
        cluster_id="c",
        start={},
        end={},
        max_event={0: newest_by_epoch[number] * SECOND},
        watermark_before=marks[0],
        watermark_after=marks[1],
    )


def is_late(watermark: int | None, end: int, wait: int) -> bool:
    return watermark is not None and (watermark - wait) * SECOND >= end


@given(RECORDS, REACHED, st.sampled_from([FIXED, SLIDING]), st.integers(0, 40), st.integers(0, 40))
def test_figures_are_those_of_a_plain_count_as_read_and_at_real_speed(
    records: list[Drawn], steps: list[int], pipeline: Pipeline, out_of_orderness: int, allowed: int
) -> None:
    newest_by_epoch = [sum(steps[: number + 1]) for number in range(len(steps))]

    prediction = predict(gather(pipeline, records, newest_by_epoch), out_of_orderness * SECOND, allowed * SECOND)

    wait = out_of_orderness + allowed
    read, real, in_time = defaultdict[tuple[int, str | None], int](int), 0, defaultdict[int, bool](lambda: True)
    windows = defaultdict[int, bool](lambda: True)
    for record in records:
        watermark = None if record.epoch == 0 else newest_by_epoch[record.epoch - 1]
        for window in pipeline.window.assign_windows(record.event * SECOND):
            late = is_late(watermark, window.end, wait)
            read[window.start, record.key] += late
            windows[window.start] &= not late
            in_time[window.start] &= not is_late(watermark, window.end, out_of_orderness)
            real += is_late(record.real, window.end, wait)
    assert (prediction.windows, prediction.exact, prediction.on_time) == (
        len(windows),
        sum(windows.values()),
        sum(in_time.values()),
    )
    assert (prediction.late, prediction.late_rows) == (sum(read.values()), sum(late > 0 for late in read.values()))
    assert prediction.real is not None
    assert prediction.real.late == real


@given(RECORDS, REACHED)
def test_what_is_advised_keeps_its_definition_and_the_grid_has_the_shortest_of_equal_settings(
    records: list[Drawn], steps: list[int]
) -> None:
    delays = gather(FIXED, records, [sum(steps[: number + 1]) for number in range(len(steps))])

    fastest, balanced, exact = (choice.prediction for choice in choose_settings(delays))
    grid = make_grid(delays, (AHEAD * SECOND, 2 * SECOND))

    assert fastest.out_of_orderness == exact.late == 0
    assert balanced.exact >= 0.999 * balanced.windows
    assert balanced.on_time >= 0.99 * balanced.windows
    figures = {
        replace(prediction, out_of_orderness=0, allowed=0): prediction for prediction in reversed(grid.predictions)
    }
    for prediction in (fastest, balanced, exact):
        equal_prediction = figures.get(replace(prediction, out_of_orderness=0, allowed=0))
        assert (
            equal_prediction is None
            or equal_prediction.out_of_orderness + equal_prediction.allowed
            <= prediction.out_of_orderness + prediction.allowed
        )
