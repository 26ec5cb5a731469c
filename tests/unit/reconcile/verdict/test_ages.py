"""Measured ages: round ones, four for each doubling beyond 30 days, and the first one of a complete log."""

from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.early.settlement import AGES, MINUTE, CompletedWindow, find_complete_age, list_ages
from cutover.reconcile.result.parts import NEARLY_ALL

DAY = 1440 * MINUTE


def test_ages_extend_to_the_requested_limit() -> None:
    beyond = [age / DAY for age in list_ages(240 * DAY) if age > AGES[-1]]

    assert beyond == [37.5, 45, 52.5, 60, 75, 90, 105, 120, 150, 180, 210]
    assert list(list_ages(2 * MINUTE)) == [MINUTE]
    assert list(list_ages(-(1 << 62))) == []


WINDOWS = st.lists(
    st.tuples(st.integers(-3, 30), st.integers(-20, 30)).map(lambda ages: CompletedWindow(ages[0], min(ages) + 1)),
    min_size=1,
    max_size=40,
)


@given(WINDOWS, st.integers(0, 9), st.sampled_from([1, 10]))
def test_a_log_is_complete_from_the_first_age_from_which_on_nearly_all_windows_are(
    windows: list[CompletedWindow], closing: int, fewest: int
) -> None:
    def is_complete(age: int) -> bool | None:
        old = [window for window in windows if window.reached >= age]
        complete = sum(window.completed <= age for window in old)
        return None if len(old) < fewest else complete >= NEARLY_ALL * len(old)

    ages = [age for age in range(closing, 40) if is_complete(age) is not None]
    first = next((age for age in ages if all(map(is_complete, range(age, ages[-1] + 1)))), None)

    assert find_complete_age(windows, closing, fewest) == first
