"""Formats of times that are proposed from the values of a column."""

import pytest

from cutover.records.parsing.parsed_record import JsonNumber
from cutover.records.proposal.guess import Guess, Survey


def guess(times: list[object]) -> Guess:
    survey = Survey(is_cells=False)
    for line, time in enumerate(times, start=1):
        survey.add(line, {"event_time": JsonNumber(str(time)) if isinstance(time, int) else time, "k": "a"})
    return survey.guess()


@pytest.mark.parametrize(
    ("times", "time_format"),
    [
        ([1357035300000007], "micros"),
        ([1357035300000000007], "nanos"),
        (["02.03.2026 10:00", "13.03.2026 10:00"], "dd.MM.yyyy HH:mm"),
        (["02/03/2026", "03/13/2026"], "MM/dd/yyyy"),
        (["02/03/2026 01:00:00.5 PM", "03/13/2026 01:00:00.123456 PM"], "MM/dd/yyyy hh:mm:ss.SSSSSSSSS a"),
    ],
)
def test_format_of_the_times_is_proposed(times: list[object], time_format: str) -> None:
    guessed = guess(times)

    assert (guessed.event_time, guessed.time_format) == ("event_time", time_format)


@pytest.mark.parametrize("times", [["02/03/2026", "03/04/2026"], ["13/01/2026", "01/13/2026"], ["13.01.2026", "soon"]])
def test_pattern_that_some_values_lack_or_that_is_one_of_two_is_not_proposed(times: list[object]) -> None:
    guessed = guess(times)

    assert (guessed.event_time, guessed.columns[0].type) == (None, "string")
