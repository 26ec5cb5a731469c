"""Advised settings for drawn delays, compared with an exhaustive search; and grids without duplicate rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.advisor.predict import ALWAYS, Delays, RecordDelays, choose_settings, make_grid, predict

DAY = 86_400_000_000
DELAYS = st.lists(st.integers(-3, 40) | st.integers(0, 5_000), min_size=1, max_size=300)


def make_delays(days: Sequence[int], *, real: Sequence[int] | None = None, is_live: bool = False) -> Delays:
    """Return the delays of windows of one record each, in days."""
    read = make_single_record_windows(days)
    ascending = np.arange(len(days), dtype=np.int64)
    return Delays(
        read=read,
        real=None if real is None else make_single_record_windows(real),
        is_live=is_live,
        firsts=np.array(days, np.int64) * DAY,
        first_epochs=ascending,
        closing_firsts=read.rows,
        closes=ascending * DAY,
        passes=ascending * DAY,
        epochs=ascending,
        newest=ascending * DAY,
        slowest=ascending * DAY,
        unit=DAY,
    )


def make_single_record_windows(days: Sequence[int]) -> RecordDelays:
    micros = np.sort(np.array(days, np.int64) * DAY)
    return RecordDelays(windows=micros, rows=micros, records=micros)


@given(DELAYS)
def test_no_shorter_whole_day_meets_the_target_of_a_setting(days: list[int]) -> None:
    fastest, balanced, exact = (setting.prediction for setting in choose_settings(make_delays(days)))

    def need(share: float) -> int:
        return next(wait for wait in range(5_002) if sum(day < wait for day in days) >= share * len(days))

    nearly = need(0.999)
    assert (fastest.out_of_orderness, exact.late) == (0, 0)
    assert fastest.exact == balanced.exact >= 0.999 * len(days)
    assert balanced.on_time >= 0.99 * len(days)
    assert fastest.allowed <= nearly * DAY
    assert balanced.out_of_orderness <= need(0.99) * DAY
    assert exact.out_of_orderness + exact.allowed <= need(1.0) * DAY


def test_balanced_setting_ignores_the_end_of_a_heavy_tail() -> None:
    days = [0] * 9_000 + list(range(351)) + [4_672] * 9

    balanced = {setting.name: setting.prediction for setting in choose_settings(make_delays(days))}["balanced"]

    assert balanced.out_of_orderness + balanced.allowed <= 351 * DAY
    assert balanced.exact >= 0.999 * balanced.windows


@given(DELAYS, st.integers(0, 50), st.integers(0, 50))
def test_grid_has_each_outcome_once_with_its_shortest_wait_and_the_current_setting(
    days: list[int], out_of_orderness: int, allowed: int
) -> None:
    current = (out_of_orderness * DAY, allowed * DAY)

    grid = make_grid(make_delays(days), current)

    outcomes = [
        replace(prediction, out_of_orderness=0, allowed=0)
        for prediction in grid.predictions
        if (prediction.out_of_orderness, prediction.allowed) != current
    ]
    assert len(outcomes) == len(set(outcomes))
    assert current in {(prediction.out_of_orderness, prediction.allowed) for prediction in grid.predictions}
    assert grid.setting_count >= len(grid.predictions)


@given(DELAYS, st.data(), st.integers(0, 60), st.integers(0, 60))
def test_figures_at_real_speed_are_counted_from_the_delays_at_real_speed(
    days: list[int], data: st.DataObject, out_of_orderness: int, allowed: int
) -> None:
    real = [data.draw(st.integers(-3, 80)) for _ in days]

    real_speed = predict(make_delays(days, real=real), out_of_orderness * DAY, allowed * DAY).real

    assert real_speed is not None
    assert real_speed.late == real_speed.late_rows == sum(day >= out_of_orderness + allowed for day in real)
    assert real_speed.exact == len(days) - real_speed.late
    assert real_speed.on_time == sum(day < out_of_orderness for day in real)


@given(DELAYS, st.data())
def test_settings_for_a_replay_are_those_of_its_records_at_real_speed(days: list[int], data: st.DataObject) -> None:
    real = [data.draw(st.integers(-3, 80)) for _ in days]

    def list_lengths_of(delays: Delays) -> list[tuple[int, int]]:
        return [(s.prediction.out_of_orderness, s.prediction.allowed) for s in choose_settings(delays)]

    replayed, live = make_delays(days, real=real), make_delays(days, real=real, is_live=True)

    assert list_lengths_of(replayed) == list_lengths_of(make_delays(real))
    assert list_lengths_of(live) == list_lengths_of(make_delays(days))
    exact = choose_settings(replayed)[-1].prediction
    assert exact.real is not None
    assert exact.real.late == 0
    assert exact.late == predict(make_delays(days), exact.out_of_orderness, exact.allowed).late
    assert any(setting.real and setting.real.late == 0 for setting in make_grid(replayed, (0, 0)).predictions)


def test_real_speed_is_unknown_without_log_times() -> None:
    assert predict(make_delays([1, 2]), 0, 0).real is None


@pytest.mark.parametrize("days", [[ALWAYS // DAY], [-1, -2]])
def test_no_wait_is_advised_if_none_is_needed(days: list[int]) -> None:
    assert {
        (setting.prediction.out_of_orderness, setting.prediction.allowed)
        for setting in choose_settings(make_delays(days))
    } == {(0, 0)}
