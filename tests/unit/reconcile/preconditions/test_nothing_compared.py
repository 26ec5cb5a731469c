"""Messages if nothing was compared: counts of read records, and the next command as a hint."""

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.reconcile.preconditions.checks import make_no_window_breach
from cutover.reconcile.result.finding import Events, Seal, Windows

SALES = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, at timestamp", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)


def explain_nothing_compared(events: Events, *, still_open: int = 0, requested: str | None = None) -> str:
    seal = Seal(epoch=3, watermark="2026-01-01T00:00:00Z")
    return make_no_window_breach(SALES, seal, Windows(open=still_open), events, requested=requested).message


def test_records_that_do_not_count_are_added_up_and_each_class_is_named() -> None:
    message = explain_nothing_compared(Events(malformed=2, future=3, filtered=4, duplicate=5, late=6))

    assert f"got no record of {2 + 3 + 4 + 5 + 6} that counts" in message
    assert "2 malformed, 3 future, 4 filtered, 5 duplicate, 6 late" in message
    assert "`cutover sql sales" in message


@pytest.mark.parametrize("class_name", ["malformed", "future", "filtered", "duplicate", "late"])
def test_one_record_of_any_class_is_no_empty_log(class_name: str) -> None:
    assert f"got no record of 1 that counts: 1 {class_name}." in explain_nothing_compared(Events(**{class_name: 1}))


def test_accepted_records_are_among_those_that_were_read() -> None:
    assert f"got no record of {7 + 1} that counts: 1 late." in explain_nothing_compared(Events(accepted=7, late=1))


def test_an_empty_log_suggests_producing_records() -> None:
    message = explain_nothing_compared(Events())

    assert "got no record at all" in message
    assert "`cutover produce FILE --pipeline sales`" in message


def test_requested_range_is_explained_before_open_windows_and_records() -> None:
    late = Events(late=1)

    assert "got 2 open ones alone (watermark: 2026-01-01" in explain_nothing_compared(late, still_open=2)
    assert "got none that starts on Monday, 2 open ones." in explain_nothing_compared(
        late, still_open=2, requested="on Monday"
    )
    assert "got none that starts on Monday." in explain_nothing_compared(late, requested="on Monday")
