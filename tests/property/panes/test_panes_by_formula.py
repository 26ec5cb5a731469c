"""Panes of plain triggers against a formula for each, which knows nothing of how the reference works."""

from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    EachEpoch,
    Every,
    Global,
    Repeat,
    Sum,
)
from cutover.definition.model.triggers import Trigger
from cutover.definition.windows.kinds import SlidingWindows, Window
from cutover.definition.windows.window_fn import FOREVER
from cutover.panes import reference
from cutover.panes.model import InputRow, Outcome, Setting, Watermark, WatermarkStep

MILLISECOND = 1_000
TIMES = st.integers(-40, 40).map(lambda time: time * MILLISECOND)
ROWS = st.lists(
    st.builds(
        InputRow,
        event_time=TIMES,
        processing_time=TIMES,
        columns=st.fixed_dictionaries({"value": st.integers(-9, 9)}),
    ),
    max_size=14,
).map(lambda rows: tuple(sorted(rows, key=lambda row: row.processing_time)))
Shown = list[tuple[int, int, str]]  # processing time, value, kind


def run(
    rows: tuple[InputRow, ...],
    trigger: Trigger,
    window: Window | None = None,
    watermark: Watermark = (),
    epochs: tuple[int, ...] = (),
) -> Outcome:
    return reference.run(
        Setting(
            rows=rows,
            measure=Sum("value"),
            window=window or Global(),
            trigger=trigger,
            accumulation=Accumulation.DISCARDING,
            watermark=watermark,
            epochs=epochs,
        )
    )


def list_panes(outcome: Outcome) -> Shown:
    return [(pane.processing_time, int(pane.value), pane.kind) for pane in outcome.panes]


def total(rows: list[InputRow]) -> int:
    return sum(row.columns["value"] for row in rows)


@given(rows=ROWS, period=st.integers(1, 30).map(lambda period: period * MILLISECOND))
def test_each_period_shows_the_rows_behind_the_last_one_and_up_to_its_end(
    rows: tuple[InputRow, ...], period: int
) -> None:
    ends = sorted({-(-row.processing_time // period) * period for row in rows})
    expected = [
        (end, total([row for row in rows if end - period < row.processing_time <= end]), "early") for end in ends
    ]

    assert list_panes(run(rows, Repeat(Every(f"{period // MILLISECOND} milliseconds")))) == expected


@given(rows=ROWS, size=st.integers(1, 5))
def test_each_count_shows_its_rows_as_the_last_one_arrives(rows: tuple[InputRow, ...], size: int) -> None:
    chunks = [list(rows[at : at + size]) for at in range(0, len(rows) - size + 1, size)]

    assert list_panes(run(rows, Repeat(AfterCount(size)))) == [
        (chunk[-1].processing_time, total(chunk), "early") for chunk in chunks
    ]


@given(rows=ROWS, ends=st.sets(TIMES, max_size=6).map(sorted))
def test_each_epoch_shows_the_rows_behind_the_last_one_and_up_to_its_end(
    rows: tuple[InputRow, ...], ends: list[int]
) -> None:
    expected = []
    for start, end in zip([-FOREVER, *ends], ends, strict=False):
        epoch_rows = [row for row in rows if start < row.processing_time <= end]
        expected += [(end, total(epoch_rows), "early")] if epoch_rows else []

    assert list_panes(run(rows, Repeat(EachEpoch()), epochs=tuple(ends))) == expected


@given(rows=ROWS, delay=st.integers(1, 30).map(lambda delay: delay * MILLISECOND))
def test_each_delay_shows_the_rows_up_to_its_end_and_begins_with_the_first_of_them(
    rows: tuple[InputRow, ...], delay: int
) -> None:
    remaining, expected = list(rows), []
    while remaining:
        end = remaining[0].processing_time + delay
        delay_rows = [row for row in remaining if row.processing_time <= end]
        expected.append((end, total(delay_rows), "early"))
        remaining = remaining[len(delay_rows) :]

    assert list_panes(run(rows, Repeat(AfterDelay(f"{delay // MILLISECOND} milliseconds")))) == expected


@given(rows=ROWS, size=st.integers(1, 30), passes=TIMES)
def test_watermark_that_fires_always_shows_what_is_new_or_nothing(
    rows: tuple[InputRow, ...], size: int, passes: int
) -> None:
    window = SlidingWindows(size=size * MILLISECOND, every=size * MILLISECOND)
    trigger = AtWatermark(early=AfterCount(2), late=AfterCount(1), always=True)
    outcome = run(rows, trigger, window, (WatermarkStep(processing_time=passes, watermark=FOREVER),))

    for start in {window.assign_windows(row.event_time)[0].start for row in rows}:
        window_rows = [row for row in rows if window.assign_windows(row.event_time)[0].start == start]
        in_time = [row for row in window_rows if row.processing_time <= passes]
        pairs = [in_time[at : at + 2] for at in range(0, len(in_time) - 1, 2)]
        expected: list[object] = [(pair[-1].processing_time, total(pair), "early") for pair in pairs]
        unpaired = in_time[2 * len(pairs) :]
        expected += [(passes, total(unpaired) if unpaired else None, "on_time")] if in_time else []
        expected += [(row.processing_time, total([row]), "late") for row in window_rows if row.processing_time > passes]
        panes = [pane for pane in outcome.panes if pane.window.start == start]
        assert [(pane.processing_time, pane.value, pane.kind) for pane in panes] == expected


@given(rows=ROWS, size=st.integers(1, 30), passes=TIMES)
def test_watermark_shows_what_is_in_and_then_each_late_row(rows: tuple[InputRow, ...], size: int, passes: int) -> None:
    window = SlidingWindows(size=size * MILLISECOND, every=size * MILLISECOND)
    outcome = run(rows, Repeat(AtWatermark()), window, (WatermarkStep(processing_time=passes, watermark=FOREVER),))

    for start in {window.assign_windows(row.event_time)[0].start for row in rows}:
        window_rows = [row for row in rows if window.assign_windows(row.event_time)[0].start == start]
        in_time = [row for row in window_rows if row.processing_time <= passes]
        late = [row for row in window_rows if row.processing_time > passes]
        expected = [(passes, total(in_time), "on_time")] if in_time else []
        expected += [(row.processing_time, total([row]), "late") for row in late]
        assert (
            list_panes(Outcome(panes=tuple(pane for pane in outcome.panes if pane.window.start == start))) == expected
        )
