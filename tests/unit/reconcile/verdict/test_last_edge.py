"""Upper edge of the histogram of lateness: no record is beyond it, as it is printed."""

from hypothesis import example, given
from hypothesis import strategies as st

from cutover.reconcile.report.sections import find_last_edge
from cutover.reconcile.result.text import THIN, minutes
from cutover.timestamps import parse_duration

_WEEK = 7 * 24 * 60


@given(st.floats(_WEEK, 100 * 365 * 24 * 60))
@example(_WEEK + 20 * 60 + 59.9)
def test_the_printed_edge_is_beyond_the_latest_record(lateness: float) -> None:
    printed = minutes(find_last_edge(lateness)).replace(THIN, " ")

    assert parse_duration(printed, of="edge") / 60_000_000 > lateness


def test_a_zero_length_has_a_unit() -> None:
    assert minutes(0) == f"0{THIN}s"
