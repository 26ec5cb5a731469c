"""Panes against what they must add up to: rows, windows, triggers and watermarks are drawn, the result is known.

Times are small whole numbers of milliseconds, so that ties (period ends, touching sessions, steps of the watermark) are
common.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    Count,
    Daily,
    EachEpoch,
    Every,
    Global,
    Max,
    Min,
    Repeat,
    RepeatUntil,
    Sessions,
    Sum,
    Until,
)
from cutover.definition import Sequence as InTurn
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.triggers import Trigger
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import FOREVER, Interval, WindowFn
from cutover.panes import reference
from cutover.panes.model import (
    Estimator,
    Ideal,
    InputRow,
    Key,
    Outcome,
    Pane,
    Setting,
    Timing,
    Watermark,
    WatermarkStep,
)

MILLISECOND = 1_000
HORIZON = 60
AFTER_ALL = WatermarkStep(processing_time=10 * HORIZON * MILLISECOND, watermark=FOREVER)

TIMES = st.integers(-HORIZON, HORIZON).map(lambda time: time * MILLISECOND)
ROWS = st.lists(
    st.builds(
        InputRow,
        event_time=TIMES,
        processing_time=TIMES,
        key=st.sampled_from(["a", "b"]),
        columns=st.fixed_dictionaries({"value": st.integers(-9, 9)}),
    ),
    max_size=14,
).map(tuple)
WINDOWS = st.one_of(
    st.builds(
        lambda period, more, offset: SlidingWindows(
            size=(period + more) * MILLISECOND, every=period * MILLISECOND, offset=offset
        ),
        st.integers(1, 30),
        st.integers(0, 30),
        st.integers(0, 999),
    ),
    st.integers(1, 20).map(lambda gap: Sessions(f"{gap} milliseconds")),
    st.just(Global()),
    st.just(Daily(zone="Europe/Berlin")),
)
ONCE = st.one_of(
    st.integers(1, 4).map(AfterCount),
    st.integers(1, 30).map(lambda period: Every(f"{period} milliseconds")),
    st.integers(1, 30).map(lambda delay: AfterDelay(f"{delay} milliseconds")),
    st.just(EachEpoch()),
)
ON_TIME = st.booleans().map(lambda always: AtWatermark(always=always))
EARLY_AND_LATE = st.builds(AtWatermark, early=st.none() | ONCE, late=st.none() | ONCE, always=st.booleans())
COMPLETE = st.one_of(
    ON_TIME.map(Repeat),
    st.builds(lambda once, end: InTurn(RepeatUntil(once, end), Repeat(AtWatermark())), ONCE, ON_TIME),
)
"""Triggers that show every row once all input is in."""
TRIGGERS = st.one_of(COMPLETE, EARLY_AND_LATE, ONCE.map(Repeat), st.builds(InTurn, ONCE, ONCE), ONCE)


@st.composite
def watermarks(draw: st.DrawFn) -> Watermark:
    """Draw a watermark whose last step is that all input is in."""
    moments = sorted(draw(st.lists(TIMES, max_size=5)))
    marks = sorted(draw(st.lists(TIMES, min_size=len(moments), max_size=len(moments))))
    steps = [WatermarkStep(processing_time=at, watermark=to) for at, to in zip(moments, marks, strict=True)]
    return (*steps, AFTER_ALL)


@dataclass(frozen=True)
class Drawn:
    """Strategies of settings."""

    windows: st.SearchStrategy[WindowFn]
    triggers: st.SearchStrategy[Trigger]
    watermarks: st.SearchStrategy[Watermark]

    def settings(self, accumulation: Accumulation) -> st.SearchStrategy[Setting]:
        return st.builds(
            Setting,
            rows=ROWS,
            measure=st.sampled_from([Sum("value"), Count(), Min("value"), Max("value")]),
            window=self.windows,
            trigger=self.triggers,
            accumulation=st.just(accumulation),
            watermark=self.watermarks,
            allowed_lateness=st.none() | st.integers(0, 20).map(lambda allowed: allowed * MILLISECOND),
            epochs=st.sets(TIMES, max_size=5).map(lambda ends: tuple(sorted(ends))),
        )


ANY = Drawn(WINDOWS, TRIGGERS, watermarks() | st.just(Ideal()) | st.just(Estimator(out_of_orderness=5 * MILLISECOND)))
TO_THE_END = Drawn(WINDOWS, COMPLETE, watermarks())
ALIGNED = Drawn(WINDOWS.filter(lambda window: not isinstance(window, Sessions)), TRIGGERS, watermarks())


def compute_measure(measure: Measure, rows: Sequence[InputRow]) -> object:
    """Return a measure of rows in the plainest way there is."""
    values = [row.columns["value"] for row in rows]
    if isinstance(measure, Count):
        return len(rows)
    return sum(values) if isinstance(measure, Sum) else max(values) if isinstance(measure, Max) else min(values)


def last_values(outcome: Outcome) -> dict[tuple[Key, Interval], object]:
    """Return the last value of every window; retracted ones are removed."""
    values: dict[tuple[Key, Interval], object] = {}
    for pane in outcome.panes:
        if pane.is_retraction:
            assert values.pop((pane.key, pane.window)) == pane.value
        else:
            values[pane.key, pane.window] = pane.value
    return values


def without_dropped_rows(setting: Setting, outcome: Outcome) -> Setting:
    """Return the setting with the rows that were not dropped; for windows of which a row has exactly one."""
    dropped = Counter(id(row.row) for row in outcome.dropped)
    return replace(setting, rows=tuple(row for row in setting.rows if not dropped[id(row)]))


@given(setting=TO_THE_END.settings(Accumulation.RETRACTING))
def test_panes_and_retractions_telescope_to_the_batch_result_of_the_rows_that_were_taken(setting: Setting) -> None:
    without_lateness = replace(setting, allowed_lateness=None)
    outcome = reference.run(without_lateness)

    expected = {(pane.key, pane.window): pane.value for pane in reference.run_batch(without_lateness).panes}
    assert last_values(outcome) == expected
    assert not outcome.dropped
    assert not outcome.waiting


@given(setting=TO_THE_END.settings(Accumulation.RETRACTING))
def test_rows_that_came_too_late_are_all_that_is_missing(setting: Setting) -> None:
    if isinstance(setting.window, SlidingWindows):
        setting = replace(setting, window=replace(setting.window, every=setting.window.size))
    outcome = reference.run(setting)

    expected = {
        (pane.key, pane.window): pane.value
        for pane in reference.run_batch(without_dropped_rows(setting, outcome)).panes
    }
    assert last_values(outcome) == expected


@given(setting=ALIGNED.settings(Accumulation.ACCUMULATING))
def test_last_accumulating_pane_is_the_sum_of_all_discarding_panes(setting: Setting) -> None:
    setting = replace(setting, measure=Sum("value"))
    accumulating = reference.run(setting)
    discarding = reference.run(replace(setting, accumulation=Accumulation.DISCARDING))

    sums: Counter[tuple[Key, Interval]] = Counter()
    for pane in discarding.panes:
        sums[pane.key, pane.window] += pane.value or 0
    assert last_values(accumulating) == dict(sums)


@given(setting=ANY.settings(Accumulation.DISCARDING))
def test_every_row_is_shown_once_or_waiting_or_dropped(setting: Setting) -> None:
    outcome = reference.run(replace(setting, measure=Count()))

    shown_rows = sum(pane.value for pane in outcome.panes) + sum(waiting.rows for waiting in outcome.waiting)
    assert shown_rows + len(outcome.dropped) == sum(
        len(setting.window.assign_windows(row.event_time)) for row in setting.rows
    )


@given(setting=ANY.settings(Accumulation.ACCUMULATING))
def test_accumulation_changes_neither_moments_nor_kinds(setting: Setting) -> None:
    def outline(accumulation: Accumulation) -> list[tuple[Interval, Key, str, int, int]]:
        panes = reference.run(replace(setting, accumulation=accumulation)).panes
        return [(p.window, p.key, p.kind, p.index, p.processing_time) for p in panes if not p.is_retraction]

    assert outline(Accumulation.ACCUMULATING) == outline(Accumulation.DISCARDING) == outline(Accumulation.RETRACTING)


@given(setting=ANY.settings(Accumulation.RETRACTING))
def test_a_retraction_takes_back_a_pane_that_stands_in_the_same_firing_as_its_successor(setting: Setting) -> None:
    standing: Counter[tuple[Key, Interval, object]] = Counter()
    back: list[Pane] = []
    for pane in reference.run(setting).panes:
        if pane.is_retraction:
            back.append(pane)
            continue
        assert {(retraction.processing_time, retraction.key, retraction.index) for retraction in back} <= {
            (pane.processing_time, pane.key, pane.index)
        }
        assert back == sorted(back, key=lambda retraction: retraction.window)
        for retraction in back:
            assert standing[retraction.key, retraction.window, retraction.value] == 1
            assert pane.window.start <= retraction.window.start
            assert retraction.window.end <= pane.window.end
            del standing[retraction.key, retraction.window, retraction.value]
        standing[pane.key, pane.window, pane.value] += 1
        back = []
    assert back == []


@given(setting=ANY.settings(Accumulation.ACCUMULATING))
def test_panes_come_in_the_order_of_time_and_accumulated_ones_are_never_empty(setting: Setting) -> None:
    panes = reference.run(replace(setting, measure=Count())).panes

    assert [pane.processing_time for pane in panes] == sorted(pane.processing_time for pane in panes)
    assert all(pane.value > 0 for pane in panes)


def without_always(trigger: Trigger) -> Trigger:
    """Return a trigger of which no pane comes out without rows."""
    match trigger:
        case AtWatermark(early=early, late=late):
            return AtWatermark(early=early, late=late)
        case Repeat(of=of):
            return Repeat(without_always(of))
        case Until(of=of, until=AtWatermark()):
            return Until(of, AtWatermark())
        case InTurn(parts=parts):
            return InTurn(*map(without_always, parts))
        case _:
            return trigger


@given(setting=ANY.settings(Accumulation.DISCARDING))
def test_pane_that_comes_always_is_one_more_without_rows_and_changes_no_other(setting: Setting) -> None:
    setting = replace(setting, measure=Count())
    plain = reference.run(replace(setting, trigger=without_always(setting.trigger)))
    always = reference.run(setting)

    def outline(panes: Sequence[Pane]) -> list[object]:
        return [(pane.window, pane.key, pane.value, pane.timing, pane.processing_time) for pane in panes]

    assert outline([pane for pane in always.panes if pane.value]) == outline(plain.panes)
    empty = [pane for pane in always.panes if not pane.value]
    assert {pane.timing for pane in empty} <= {Timing.ON_TIME}
    assert len({(pane.key, pane.window) for pane in empty}) == len(empty)
    assert (always.dropped, always.waiting) == (plain.dropped, plain.waiting)


@given(setting=TO_THE_END.settings(Accumulation.ACCUMULATING))
def test_stream_with_a_watermark_that_knows_everything_is_batch(setting: Setting) -> None:
    last_time = max((row.processing_time for row in setting.rows), default=0)
    perfect = replace(
        setting, watermark=(WatermarkStep(processing_time=last_time, watermark=FOREVER),), trigger=Repeat(AtWatermark())
    )

    assert reference.run(perfect) == reference.run_batch(perfect)


@given(rows=ROWS, order=st.randoms(use_true_random=False), gap=st.integers(1, 20))
def test_sessions_do_not_depend_on_the_order_of_arrival(rows: tuple[InputRow, ...], order: Random, gap: int) -> None:
    arrivals = list(range(len(rows)))
    order.shuffle(arrivals)
    setting = Setting(
        rows=rows,
        measure=Sum("value"),
        window=Sessions(f"{gap} milliseconds"),
        trigger=Repeat(AfterCount(1)),
        accumulation=Accumulation.RETRACTING,
    )
    shuffled = tuple(replace(row, processing_time=at) for row, at in zip(rows, arrivals, strict=True))

    assert last_values(reference.run(setting)) == last_values(reference.run(replace(setting, rows=shuffled)))


@given(setting=ANY.settings(Accumulation.RETRACTING))
def test_batch_is_what_the_rows_of_each_window_give(setting: Setting) -> None:
    if isinstance(setting.window, Sessions):
        setting = replace(setting, window=Global())
    groups: dict[tuple[Key, Interval], list[InputRow]] = {}
    for row in setting.rows:
        for window in setting.window.assign_windows(row.event_time):
            groups.setdefault((row.key, window), []).append(row)

    expected = {group: compute_measure(setting.measure, rows) for group, rows in groups.items()}
    assert last_values(reference.run_batch(setting)) == expected
