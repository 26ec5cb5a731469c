"""Changes between two comparisons, and the state of one window in each."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.result.finding import Cause, Difference, Verdict
from cutover.reconcile.result.measurements import WindowPoint
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict.records import RecordedComparison, WindowState, compare_runs, window_state
from cutover.timestamps import parse_micros
from tests.support.history.reports import make_report

FIRST, SECOND = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
START = parse_micros(FIRST)


def cell(window: str = FIRST, shop: str = "a", amount: int = 1, cause: str = "late") -> Difference:
    return Difference(
        window_start=window,
        key={"shop": shop},
        measure="amount",
        kind="changed",
        streaming=amount,
        batch=0,
        difference=amount,
        cause=cause,
    )


def run(
    name: str,
    *cells: Difference,
    total: int | None = None,
    unexplained: int = 0,
    series: tuple[WindowPoint, ...] = (),
) -> Report:
    return make_report(
        pipeline="sales",
        run_id=name,
        at=FIRST,
        verdict=Verdict.EXPLAINED,
        exit_code=0,
        sentence="",
        differences=cells,
        differences_total=len(cells) if total is None else total,
        window_series=series,
        causes={"unexplained": Cause(rows=unexplained)},
    )


LINE = RecordedComparison(
    run_id="a",
    key="",
    content="",
    first_recorded=datetime(2026, 1, 1, tzinfo=UTC),
    last_recorded=datetime(2026, 1, 1, tzinfo=UTC),
    settled=datetime(2026, 1, 1, tzinfo=UTC),
    times=1,
    first_sequence=0,
    sequence=0,
    fingerprint="f",
    version=0,
    epoch=0,
    has_cut=True,
    covers_all_windows=True,
    verdict=Verdict.EXPLAINED,
    exit_code=0,
    result={},
    skipped_ranges=(),
    report=None,
)


def test_each_cell_is_new_gone_or_has_another_cause_or_amount() -> None:
    earlier = run("a", cell(shop="gone"), cell(shop="same"), cell(shop="cause"), cell(shop="amount"))
    later = run(
        "b", cell(shop="same"), cell(shop="cause", cause="unexplained"), cell(shop="amount", amount=2), cell(SECOND)
    )

    runs = compare_runs(earlier, later)

    assert ([c.key["shop"] for c in runs.gone], [(c.window_start, c.key["shop"]) for c in runs.new]) == (
        ["gone"],
        [(SECOND, "a")],
    )
    assert [(c.before.cause, c.after.cause) for c in runs.other_cause] == [("late", "unexplained")]
    assert [(c.before.streaming, c.after.streaming) for c in runs.other_amount] == [(1, 2)]
    assert (runs.same, runs.changes, runs.is_whole) == (1, 4, True)


def test_an_incomplete_list_is_reported() -> None:
    assert not compare_runs(run("a", cell()), run("b", cell(), total=900)).is_whole


def test_copies_of_one_key_are_distinguished() -> None:
    runs = compare_runs(
        run("a", cell(amount=1), cell(amount=2)), run("b", cell(amount=2), cell(amount=1), cell(amount=3))
    )

    assert ([c.streaming for c in runs.new], runs.gone, runs.same) == ([3], (), 2)


@given(st.lists(st.builds(cell, st.sampled_from([FIRST, SECOND]), st.sampled_from("abc"), st.integers(0, 2))))
def test_a_run_compared_with_itself_has_no_change(cells: list[Difference]) -> None:
    runs = compare_runs(run("a", *cells), run("b", *reversed(cells)))

    assert (runs.changes, runs.same) == (0, len(cells))


def point(window: str, different: int, windows: int = 1) -> WindowPoint:
    return WindowPoint(window_start=window, streaming=1, batch=1, different_rows=different, windows=windows)


BOTH = (point(FIRST, 0), point(SECOND, 2))


@pytest.mark.parametrize(
    ("report", "window", "state"),
    [
        (run("a", series=BOTH), FIRST, WindowState.EQUAL),
        (run("a", cell(SECOND), series=BOTH), SECOND, WindowState.EXPLAINED),
        (
            run("a", cell(SECOND), cell(SECOND, "b", cause="late + unexplained"), series=BOTH),
            SECOND,
            WindowState.UNEXPLAINED,
        ),
        (run("a", total=2, series=BOTH), SECOND, WindowState.DIFFERS),
        (run("a", cell(SECOND), total=900, unexplained=1, series=BOTH), SECOND, WindowState.DIFFERS),
        (
            run("a", cell(SECOND), cell(FIRST, cause="unexplained"), total=900, unexplained=1, series=BOTH),
            SECOND,
            WindowState.EXPLAINED,
        ),
        (run("a", total=900, series=BOTH), FIRST, WindowState.EQUAL),
        (run("a", total=900, series=(point(FIRST, 1),)), FIRST, WindowState.DIFFERS),
        (run("a", series=BOTH), "2026-01-01T00:30:00Z", WindowState.UNJUDGED),
        (run("a", series=BOTH), "2025-12-31T00:00:00Z", WindowState.UNJUDGED),
        (run("a", cell(SECOND), series=(point(FIRST, 1, 2),)), FIRST, WindowState.EQUAL),
        (run("a", cell(SECOND), series=(point(FIRST, 1, 2),)), SECOND, WindowState.EXPLAINED),
        (run("a", total=900, series=(point(FIRST, 900, 2),)), SECOND, WindowState.UNKNOWN),
        (None, FIRST, WindowState.UNKNOWN),
    ],
)
def test_window_state_follows_from_a_comparison(report: Report | None, window: str, state: WindowState) -> None:
    assert window_state(LINE, report, parse_micros(window)) is state


@pytest.mark.parametrize(
    ("bounds", "state"),
    [
        ({"to": FIRST}, WindowState.UNJUDGED),
        ({"from": SECOND}, WindowState.UNJUDGED),
        ({"from": FIRST, "to": SECOND}, WindowState.EQUAL),
    ],
)
def test_a_window_outside_the_range_of_a_comparison_is_not_compared(bounds: dict[str, str], state: WindowState) -> None:
    line = replace(LINE, result={**LINE.result, **bounds})

    assert window_state(line, run("a", series=(point(FIRST, 0, 2),)), START) is state


def test_an_excluded_window_is_not_compared() -> None:
    skipping_line = replace(LINE, skipped_ranges=((START - 1, START), (START, START + 1)))
    adjacent_line = replace(LINE, skipped_ranges=((START - 1, START),))
    refused = replace(LINE, verdict=Verdict.NOT_COMPARABLE)

    assert window_state(adjacent_line, run("a", series=BOTH), START) is WindowState.EQUAL

    for line in (skipping_line, refused):
        assert window_state(line, run("a", series=BOTH), START) is WindowState.UNJUDGED
