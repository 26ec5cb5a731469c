from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.batch.plan.dirty import (
    PlanBounds,
    RunPlan,
    TouchedWindow,
    cover_recomputable,
    inside,
    list_left_out,
    plan,
)
from cutover.definition.windows.sliding import SlidingWindows
from cutover.definition.windows.window_fn import Interval
from cutover.lake.batch_runs import Range

TEN = SlidingWindows(size=10, every=10)


def planned(scans: dict[int, int], history: Sequence[Sequence[Range]], **horizon: object) -> RunPlan:
    """Plan over windows of ten units; `scans` names the newest scan that touched each start."""
    touches = [TouchedWindow(window=Interval(start, start + 10), scan=scan) for start, scan in scans.items()]
    return plan(touches, history, PlanBounds(**{"window": TEN, "closed": 110, **horizon}))  # type: ignore[arg-type]  # a table


def starts(windows: Sequence[Interval]) -> tuple[int, ...]:
    return tuple(window.start for window in windows)


def test_a_window_that_was_never_computed_is_dirty() -> None:
    assert planned({0: 0, 10: 0}, []).computed == ((0, 20),)


def test_a_window_touched_since_it_was_computed_is_dirty_and_its_neighbours_are_not() -> None:
    assert planned({0: 0, 10: 1, 20: 0}, [[(0, 30)]]).compute == (Interval(10, 20),)


def test_a_window_left_out_of_a_run_stays_dirty() -> None:
    assert planned({0: 0, 10: 0}, [[(0, 10)], []]).compute == (Interval(10, 20),)


def test_an_open_window_is_not_computed() -> None:
    assert planned({0: 0, 10: 0}, [], closed=15).computed == ((0, 10),)


def test_without_a_watermark_no_window_is_closed() -> None:
    assert planned({0: 0}, [], closed=None) == RunPlan(compute=(), computed=(), stale=(), expired=())


def test_a_stretch_that_no_record_touched_splits_no_run() -> None:
    assert planned({0: 0, 50: 0}, []).computed == ((0, 60),)


def test_a_clean_window_splits_a_run() -> None:
    assert planned({0: 1, 10: 0, 20: 1}, [[(10, 20)]]).computed == ((0, 10), (20, 30))


def test_with_a_wanted_range_clean_windows_are_computed_too_and_dirty_ones_outside_are_stale() -> None:
    found = planned({0: 0, 10: 0, 20: 1, 30: 1}, [[(0, 40)]], wanted=((0, 30),))

    assert (starts(found.compute), found.stale) == ((0, 10, 20), ((30, 40),))


def test_a_window_that_reaches_over_the_wanted_range_is_not_computed() -> None:
    assert planned({0: 0, 10: 0}, [], wanted=((0, 15),)).compute == (Interval(0, 10),)


@pytest.mark.parametrize(("scan", "expected"), [(1, (0,)), (0, ())])
def test_only_a_dirty_window_expires_and_it_is_never_computed(scan: int, expected: tuple[int, ...]) -> None:
    found = planned({0: scan}, [[(0, 10)]], expired=lambda start: start == 0, wanted=((0, 10),))

    assert (found.compute, starts(found.expired)) == ((), expected)


def test_at_an_older_cut_nothing_is_computed_and_what_lies_beyond_it_is_stale() -> None:
    found = planned({0: 0, 10: 0, 20: 1}, [[(0, 20)]], ahead=frozenset({10}))

    assert (found.compute, found.stale) == ((), ((10, 30),))


def test_windows_that_overlap_are_computed_when_they_lie_wholly_inside() -> None:
    sliding = planned({0: 0, 5: 0, 10: 1}, [[(0, 15)]], window=SlidingWindows(size=10, every=5))

    assert sliding.computed == ((10, 20),)


@pytest.mark.parametrize(
    ("horizon", "expected"),
    [
        ({"wanted": ((-30, 60),)}, ((-30, 60),)),  # rows before the first record, between two and behind the last go
        ({"wanted": ((-30, 600),)}, ((-30, 110),)),  # as far as windows are closed
        ({"wanted": ((-30, -10),)}, ((-30, -10),)),  # where there is no record at all
        ({"wanted": ((-30, -25),)}, ()),  # too short for a window
        ({"wanted": ((-30, 60),), "expired": lambda start: start < 0}, ((0, 30),)),  # a window may have lost records
        ({"wanted": ((-30, 60),), "closed": None}, ()),
        ({"wanted": ((-30, 60),), "ahead": frozenset()}, ()),
    ],
)
def test_a_wanted_range_is_computed_to_its_ends_where_records_are_not_missing(
    horizon: dict[str, object], expected: tuple[Range, ...]
) -> None:
    assert planned({0: 0, 20: 0}, [[(0, 30)]], **horizon).computed == expected


def covered(computed: Sequence[Range], former: Sequence[Range], *barriers: Range, **bounds: object) -> list[Range]:
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
def test_a_run_that_reads_all_again_covers_what_earlier_runs_left(
    computed: list[Range], former: list[Range], expected: list[Range]
) -> None:
    assert covered(computed, former) == expected
    assert covered(computed, former, closed=None) == computed


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
    assert covered([(0, 60)], [], *barriers) == expected


def test_only_wanted_ranges_are_covered() -> None:
    assert covered([(0, 60)], [], (20, 30), wanted=((10, 40), (50, 55))) == [(10, 20), (30, 40)]


@given(
    every=st.sampled_from([5, 10]),
    former=st.tuples(st.integers(-4, 4), st.integers(5, 12)),
    barriers=st.lists(st.tuples(st.integers(-6, 12), st.integers(0, 4)), max_size=3),
    closed=st.integers(0, 120),
)
def test_a_window_is_covered_exactly_if_it_is_held_closed_and_can_be_computed(
    every: int, former: tuple[int, int], barriers: list[tuple[int, int]], closed: int
) -> None:
    kind, held = SlidingWindows(size=10, every=every), (former[0] * 10, former[1] * 10)
    starts_gone = [(first * every, (first + count) * every) for first, count in barriers]
    ranges = covered([], [held], *starts_gone, window=kind, closed=closed)

    for start in range(-80, 160, every):
        window = Interval(start, start + 10)
        gone = any(first <= start < end for first, end in starts_gone)
        expected = inside(window, held) and window.end <= closed and not gone
        assert any(inside(window, span) for span in ranges) == expected, window


def test_left_out_windows_of_a_range_are_named_with_the_reason() -> None:
    bounds = PlanBounds(window=TEN, closed=45, wanted=((0, 20), (30, 60)))
    barriers = {"lost": [Interval(30, 40)], "expired": [Interval(-100, 10)]}

    assert list_left_out(bounds, barriers) == {"lost": ((30, 40),), "expired": ((0, 10),), "open": ((40, 60),)}
    assert list_left_out(replace(bounds, ahead=frozenset()), barriers) == {"ahead": ((0, 20), (30, 60))}
    assert list_left_out(replace(bounds, wanted=None), barriers) == {}
    assert list_left_out(replace(bounds, closed=None, wanted=((0, 20),)), {}) == {"open": ((0, 20),)}


def test_of_several_wanted_windows_each_is_computed_and_what_lies_between_is_left() -> None:
    found = planned({0: 0, 10: 1, 20: 0, 30: 1}, [[(0, 40)]], wanted=((0, 10), (20, 30), (50, 60)))

    assert found.compute == (Interval(0, 10), Interval(20, 30))
    assert found.computed == ((0, 10), (20, 30), (50, 60))
    assert found.stale == ((10, 20), (30, 40))


def test_with_nothing_wanted_every_dirty_window_is_left_stale() -> None:
    found = planned({0: 0, 10: 1}, [[(0, 40)]], wanted=())

    assert (found.compute, found.computed, found.stale) == ((), (), ((10, 20),))
