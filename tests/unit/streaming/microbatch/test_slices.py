"""Rows of windows computed from rows of slices, for any sliding window."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Max, Pipeline, Sum, Topic
from cutover.definition.windows.kinds import SlidingWindows
from cutover.lake.tables.schemas import partial_schema
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, StreamSettings
from cutover.streaming.microbatch import aggregate

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOPIC = Topic(name="t", schema="k string, v bigint, at timestamp", event_time="at")
EVENT = st.tuples(st.integers(-60, 60), st.sampled_from(["x", "y", None]), st.integers(-5, 5))


def pipeline_of(window: SlidingWindows) -> Pipeline:
    return Pipeline(
        name="p",
        source=TOPIC,
        key=("k",),
        window=window,
        measures={"n": Count(), "total": Sum("v"), "most": Max("v")},
    )


@st.composite
def sliding(draw: st.DrawFn) -> SlidingWindows:
    size = draw(st.integers(2, 24))
    step = draw(st.integers(1, size - 1))
    return SlidingWindows(size=size, every=step, offset=draw(st.integers(0, step - 1)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slices")


def moment(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def accepted(start: int, end: int, key: str | None, values: Sequence[int]) -> dict[str, Any]:
    return {
        "_class": "accepted",
        "window_start": moment(start),
        "window_end": moment(end),
        "k": key,
        "n": len(values),
        "total": sum(values),
        "most": max(values),
        "_n": len(values),
        "_unknown": 1,
    }


def late(start: int, end: int) -> dict[str, Any]:
    position = {"partition": 0, "offset": 1, "event_time": moment(start), "reason": None}
    row = accepted(start, end, "x", [1])
    return row | {"_class": "late", "_positions": [position]}


def table(pipeline: Pipeline, rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=partial_schema(pipeline))


def by_place(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(row[name] for name in ("_class", "window_start", "window_end", "k", "n", "total", "most", "_n"))
        for row in rows.to_pylist()
    )


@settings(deadline=None)
@given(window=sliding(), events=st.lists(EVENT, max_size=12), late_events=st.lists(EVENT, max_size=4))
def test_windows_have_the_totals_of_their_slices(
    home: Path,
    window: SlidingWindows,
    events: list[tuple[int, str | None, int]],
    late_events: list[tuple[int, str | None, int]],
) -> None:
    pipeline, length = pipeline_of(window), window.slice_micros
    assert length is not None
    grid = [(at - (at - window.offset) % length, key, value) for at, key, value in events]
    rows = [accepted(start, start + length, key, [value]) for start, key, value in grid]
    # In addition, records that are late in some of their windows: they keep a row for each.
    apart = [(interval, key, value) for at, key, value in late_events for interval in window.assign_windows(at)]
    rows += [accepted(*interval, key, [value]) for interval, key, value in apart]
    rows += [late(0, window.size)]

    values: dict[tuple[int, int, str | None], list[int]] = {}
    for at, key, value in events:
        for interval in window.assign_windows(at):
            values.setdefault((*interval, key), []).append(value)
    for interval, key, value in apart:
        values.setdefault((*interval, key), []).append(value)
    expected = [accepted(*place, of_place) for place, of_place in values.items()]

    opened = aggregate.open_slices(table(pipeline, rows), PipelineLake(Settings(home=home), pipeline))

    assert opened is not None
    assert by_place(opened) == by_place(table(pipeline, [*expected, late(0, window.size)]))


def test_more_rows_than_the_limit_are_left_to_spark(home: Path) -> None:
    pipeline = pipeline_of(SlidingWindows(size=10, every=2))
    rows = table(pipeline, [accepted(0, 2, key, [1]) for key in "abc"])

    def made(limit: int) -> pa.Table | None:
        settings = Settings(home=home, stream=StreamSettings(overflow_rows=limit))
        return aggregate.open_slices(rows, PipelineLake(settings, pipeline))

    assert made(15) is not None
    assert made(14) is None


def test_only_sliding_windows_have_slices() -> None:
    windows = (SlidingWindows(size=10, every=2), SlidingWindows(size=10, every=10), Fixed(hours=1))

    assert [aggregate.uses_slices(pipeline_of(window)) for window in windows] == [True, False, False]


@pytest.mark.parametrize(("slices_found", "limit", "is_made"), [(24, 6, True), (25, 6, False), (20, 5, False)])
def test_slices_are_opened_up_to_twenty_times_the_limit(
    home: Path, slices_found: int, limit: int, *, is_made: bool
) -> None:
    pipeline = pipeline_of(SlidingWindows(size=10, every=2))  # each slice lies in five windows
    rows = [accepted(0, 2, "a", [1])] * slices_found + [late(0, 10)]
    settings = Settings(home=home, stream=StreamSettings(overflow_rows=limit))

    opened = aggregate.open_slices(table(pipeline, rows), PipelineLake(settings, pipeline))

    assert (None if opened is None else opened.num_rows) == (5 + 1 if is_made else None)
