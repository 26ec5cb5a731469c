from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.batch.plan import (
    PlanBounds,
    RunPlan,
    TouchedWindow,
    cover_recomputable,
    is_inside,
    list_skipped,
    plan,
)
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import Interval
from cutover.lake.batch_runs import Range

TEN = SlidingWindows(size=10, every=10)


def make_plan(scans: dict[int, int], history: Sequence[Sequence[Range]], **horizon: object) -> RunPlan:
    """Plan over windows of ten units; `scans` names the newest scan that touched each start."""
    touches = [TouchedWindow(window=Interval(start, start + 10), scan=scan) for start, scan in scans.items()]
    return plan(touches, history, PlanBounds(**{"window": TEN, "closed": 110, **horizon}))  # type: ignore[arg-type]  # a table


def starts(windows: Sequence[Interval]) -> tuple[int, ...]:
    return tuple(window.start for window in windows)


def test_a_window_that_was_never_computed_is_dirty() -> None:
    assert make_plan({0: 0, 10: 0}, []).computed == ((0, 20),)


def test_a_window_touched_since_it_was_computed_is_dirty_and_its_neighbours_are_not() -> None:
    assert make_plan({0: 0, 10: 1, 20: 0}, [[(0, 30)]]).compute == (Interval(10, 20),)


def test_a_window_excluded_from_a_run_stays_dirty() -> None:
    assert make_plan({0: 0, 10: 0}, [[(0, 10)], []]).compute == (Interval(10, 20),)


def test_an_open_window_is_not_computed() -> None:
    assert make_plan({0: 0, 10: 0}, [], closed=15).computed == ((0, 10),)


def test_without_a_watermark_no_window_is_closed() -> None:
    assert make_plan({0: 0}, [], closed=None) == RunPlan(compute=(), computed=(), stale=(), expired=())


def test_a_gap_without_records_does_not_split_a_run() -> None:
    assert make_plan({0: 0, 50: 0}, []).computed == ((0, 60),)


def test_a_clean_window_splits_a_run() -> None:
    assert make_plan({0: 1, 10: 0, 20: 1}, [[(10, 20)]]).computed == ((0, 10), (20, 30))


def test_requested_range_computes_clean_windows_and_leaves_others_stale() -> None:
    plan = make_plan({0: 0, 10: 0, 20: 1, 30: 1}, [[(0, 40)]], requested=((0, 30),))

    assert (starts(plan.compute), plan.stale) == ((0, 10, 20), ((30, 40),))


def test_a_window_that_exceeds_the_requested_range_is_not_computed() -> None:
    assert make_plan({0: 0, 10: 0}, [], requested=((0, 15),)).compute == (Interval(0, 10),)


@pytest.mark.parametrize(("scan", "expected"), [(1, (0,)), (0, ())])
def test_only_a_dirty_window_expires_and_it_is_never_computed(scan: int, expected: tuple[int, ...]) -> None:
    plan = make_plan({0: scan}, [[(0, 10)]], expired=lambda start: start == 0, requested=((0, 10),))

    assert (plan.compute, starts(plan.expired)) == ((), expected)


def test_an_older_cut_computes_nothing_and_leaves_later_windows_stale() -> None:
    plan = make_plan({0: 0, 10: 0, 20: 1}, [[(0, 20)]], ahead=frozenset({10}))

    assert (plan.compute, plan.stale) == ((), ((10, 30),))


def test_overlapping_windows_are_computed_if_they_are_entirely_inside() -> None:
    sliding = make_plan({0: 0, 5: 0, 10: 1}, [[(0, 15)]], window=SlidingWindows(size=10, every=5))

    assert sliding.computed == ((10, 20),)


@pytest.mark.parametrize(
    ("horizon", "expected"),
    [
        ({"requested": ((-30, 60),)}, ((-30, 60),)),  # rows before the first record, between two and behind the last go
        ({"requested": ((-30, 600),)}, ((-30, 110),)),  # as far as windows are closed
        ({"requested": ((-30, -10),)}, ((-30, -10),)),  # where there is no record at all
        ({"requested": ((-30, -25),)}, ()),  # too short for a window
        ({"requested": ((-30, 60),), "expired": lambda start: start < 0}, ((0, 30),)),  # a window may have lost records
        ({"requested": ((-30, 60),), "closed": None}, ()),
        ({"requested": ((-30, 60),), "ahead": frozenset()}, ()),
    ],
)
def test_a_requested_range_is_computed_to_its_ends_if_no_record_is_missing(
    horizon: dict[str, object], expected: tuple[Range, ...]
) -> None:
    assert make_plan({0: 0, 20: 0}, [[(0, 30)]], **horizon).computed == expected


def list_covered_ranges(
    computed: Sequence[Range], former: Sequence[Range], *barriers: Range, **bounds: object
) -> list[Range]:
    """Return what a run over windows of ten units covers that reads the whole log again."""
    run_plan = RunPlan(compute=(), computed=tuple(computed), stale=(), expired=())
    limits = PlanBounds(**{"window": TEN, "closed": 60, **bounds})  # type: ignore[arg-type]  # a table
    return list(cover_recomputable(run_plan, former, limits, [Interval(*barrier) for barrier in barriers]).computed)


@pytest.mark.parametrize(
    ("computed", "former", "expected"),
    [
        ([(20, 30)], [(10, 20), (40, 50)], [(10, 50)]),
        ([(20, 30), (40, 50)], [(0, 90)], [(0, 60)]),
        ([(20, 30)], [], [(20, 30)]),
        ([], [(10, 20)], [(10, 20)]),
        ([(0, 60)], [(10, 20)], [(0, 60)]),
    ],
)
def test_a_run_from_the_beginning_covers_windows_of_earlier_runs(
    computed: list[Range], former: list[Range], expected: list[Range]
) -> None:
    assert list_covered_ranges(computed, former) == expected
    assert list_covered_ranges(computed, former, closed=None) == computed


@pytest.mark.parametrize(
    ("barriers", "expected"),
    [
        ([(-100, 20)], [(20, 60)]),  # the first records have left the log
        ([(20, 30)], [(0, 20), (30, 60)]),  # records were lost in between
        ([(0, 10), (50, 60)], [(10, 50)]),
        ([(-100, 100)], []),
        ([(30, 30)], [(0, 60)]),
    ],
)
def test_windows_that_cannot_be_computed_are_not_covered(barriers: list[Range], expected: list[Range]) -> None:
    assert list_covered_ranges([(0, 60)], [], *barriers) == expected


def test_only_requested_ranges_are_covered() -> None:
    assert list_covered_ranges([(0, 60)], [], (20, 30), requested=((10, 40), (50, 55))) == [(10, 20), (30, 40)]


@given(
    step=st.sampled_from([5, 10]),
    former=st.tuples(st.integers(-4, 4), st.integers(5, 12)),
    barriers=st.lists(st.tuples(st.integers(-6, 12), st.integers(0, 4)), max_size=3),
    closed=st.integers(0, 120),
)
def test_a_window_is_covered_exactly_if_it_is_retained_closed_and_computable(
    step: int, former: tuple[int, int], barriers: list[tuple[int, int]], closed: int
) -> None:
    kind, held_range = SlidingWindows(size=10, every=step), (former[0] * 10, former[1] * 10)
    starts_gone = [(start_index * step, (start_index + count) * step) for start_index, count in barriers]
    ranges = list_covered_ranges([], [held_range], *starts_gone, window=kind, closed=closed)

    for start in range(-80, 160, step):
        window = Interval(start, start + 10)
        is_missing = any(barrier_start <= start < end for barrier_start, end in starts_gone)
        expected = is_inside(window, held_range) and window.end <= closed and not is_missing
        assert any(is_inside(window, span) for span in ranges) == expected, window


def test_excluded_windows_of_a_range_are_named_with_the_reason() -> None:
    bounds = PlanBounds(window=TEN, closed=45, requested=((0, 20), (30, 60)))
    barriers = {"lost": [Interval(30, 40)], "expired": [Interval(-100, 10)]}

    assert list_skipped(bounds, barriers) == {"lost": ((30, 40),), "expired": ((0, 10),), "open": ((40, 60),)}
    assert list_skipped(replace(bounds, ahead=frozenset()), barriers) == {"ahead": ((0, 20), (30, 60))}
    assert list_skipped(replace(bounds, requested=None), barriers) == {}
    assert list_skipped(replace(bounds, closed=None, requested=((0, 20),)), {}) == {"open": ((0, 20),)}


def test_several_requested_windows_are_computed_without_those_in_between() -> None:
    plan = make_plan({0: 0, 10: 1, 20: 0, 30: 1}, [[(0, 40)]], requested=((0, 10), (20, 30), (50, 60)))

    assert plan.compute == (Interval(0, 10), Interval(20, 30))
    assert plan.computed == ((0, 10), (20, 30), (50, 60))
    assert plan.stale == ((10, 20), (30, 40))


def test_empty_request_leaves_every_dirty_window_stale() -> None:
    plan = make_plan({0: 0, 10: 1}, [[(0, 40)]], requested=())

    assert (plan.compute, plan.computed, plan.stale) == ((), (), ((10, 20),))
