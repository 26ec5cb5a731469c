"""How the error of a window shrinks as it ages, from the ledger."""

from dataclasses import replace

import pytest

from cutover.definition import Count, Lateness, Pipeline, Sessions
from cutover.reconcile.report import page
from cutover.reconcile.result.outcome import Reconciliation, Settlement
from cutover.reconcile.result.text import describe_settlement
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import CLOSED_UNTIL, PIPELINE, Sale, lake_of, reconcile, write

HOURS = 40
CLOSES = 60.0  # minutes: the allowed lateness


def settled(settings: Settings, sales: list[Sale], pipeline: Pipeline = PIPELINE) -> Settlement:
    write(settings, lake_of(sales, pipeline), pipeline)
    found: Reconciliation = reconcile(settings, pipeline)
    assert found.settlement is not None
    assert describe_settlement(found.settlement).split(":")[0] in page.render(found)
    return found.settlement


def clean(hours: int = HOURS) -> list[Sale]:
    return [Sale(hour=hour, shop=shop) for hour in range(hours) for shop in "ab"]


def test_windows_without_late_records_are_settled_when_they_close(settings: Settings) -> None:
    found = settled(settings, clean())

    assert (found.settled_minutes, found.settled.hits, found.settled.of) == (CLOSES, HOURS, HOURS)
    assert [(point.minutes, point.largest) for point in found.points] == [(CLOSES, 0.0)]


def test_a_late_record_is_missing_until_its_epoch_has_read_it(settings: Settings) -> None:
    """The epoch behind the late record began when time had come to hour 100: window 2 was 97 hours old."""
    found = settled(settings, [*clean(), Sale(epoch=2, hour=2, shop="a", kind="late")])

    largest = {point.minutes: point.largest for point in found.points}
    age = (CLOSED_UNTIL - 3) * 60
    assert {minutes: share for minutes, share in largest.items() if minutes <= age} == {
        minutes: pytest.approx(1 / 3) for minutes in largest if minutes <= age
    }
    assert [minutes for minutes, share in largest.items() if not share] == [min(m for m in (7200, 14_400) if m > age)]
    assert (found.settled.of, found.settled.hits) == (HOURS, HOURS)
    assert found.settled_minutes == min(m for m in (7200, 14_400) if m > age)


def test_one_record_in_more_than_a_thousand_may_be_missing(settings: Settings) -> None:
    found = settled(settings, [*clean(), *[Sale(hour=2)] * 1_200, Sale(epoch=2, hour=2, shop="a", kind="late")])

    assert (found.settled_minutes, found.settled.hits) == (CLOSES, HOURS)
    assert 0 < found.points[0].largest < 1 / 1_000


def test_sessions_have_a_curve_too(settings: Settings) -> None:
    visits = replace(
        PIPELINE,
        name="visits",
        window=Sessions(gap="30 minutes"),
        measures={"sales": Count()},
        lateness=Lateness(allowed="1 hour"),
    )
    sales = [Sale(hour=hour, shop=shop) for hour in range(0, 80, 4) for shop in "ab"]

    found = settled(settings, [*sales, Sale(epoch=2, hour=8, shop="a", kind="late")], visits)

    assert found.settled.of == len(sales)
    assert max(point.largest for point in found.points) == pytest.approx(1 / 2)
