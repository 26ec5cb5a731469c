"""Early results of the stream, compared epoch by epoch with a plain fold of the same records."""

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from cutover.definition import Count, Sessions
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.early import answers
from cutover.reconcile.early.settlement import AGES
from cutover.reconcile.report import page
from cutover.reconcile.result.lateness_text import describe_early
from cutover.reconcile.result.measurements import EarlyAnswers
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    CLOSED_UNTIL,
    HOUR,
    PIPELINE,
    Lake,
    Sale,
    lake_of,
    micros,
    reconcile,
    write,
)

MINUTE = HOUR // 60
CLOSES = 60 * MINUTE
STEP = 3 * MINUTE  # event time between two epochs
HOURS = 12


def event_time_before(epoch: int) -> int | None:
    """Return how far time had come before an epoch; None: nothing was known before the first."""
    return None if epoch == 0 else micros(0) + epoch * STEP


def draw_sales(seed: int) -> list[Sale]:
    """Return sales of some hours: most come before its end, others minutes behind it, some too late."""
    draw = random.Random(seed)  # noqa: S311 -- no secret
    sales = []
    for number in range(240):
        hour = number % HOURS
        arrival = (hour + 1) * 60 + draw.choice((-50, -20, -5, 3, 8, 20, 40, 55, 75))
        epoch = max(0, arrival * MINUTE // STEP)
        delay = epoch * STEP - (hour + 1) * HOUR
        kind = "late" if epoch and delay >= CLOSES else "accepted"
        sales.append(
            Sale(epoch=epoch, hour=hour, shop=draw.choice(("a", "b", None)), amount=draw.randint(1, 9), kind=kind)
        )
    return sales


def lake(sales: list[Sale]) -> Lake:
    """Return the lake of sales, with time that advances from epoch to epoch."""
    lake_content = lake_of(sales)
    epochs = tuple(
        replace(
            epoch,
            watermark_before=event_time_before(epoch.epoch),
            watermark_after=micros(CLOSED_UNTIL)
            if epoch is lake_content.epochs[-1]
            else event_time_before(epoch.epoch + 1),
        )
        for epoch in lake_content.epochs
    )
    return replace(lake_content, epochs=epochs)


def compute_expected_errors(sales: list[Sale], age: int) -> dict[str, list[float]]:
    """Return by measure the error of each window at an age: sums over shops of what differs, over all there is."""
    errors = defaultdict(list)
    for hour in (hour for hour in range(HOURS) if is_known(hour, age)):
        hour_sales = [sale for sale in sales if sale.hour == hour]
        shown_sales = [sale for sale in hour_sales if sale.kind == "accepted" and not is_beyond(sale, age)]
        for measure in ("records", "revenue"):
            by_shop = {
                shop: [
                    sum(1 if measure == "records" else sale.amount for sale in some if sale.shop == shop)
                    for some in (shown_sales, hour_sales)
                ]
                for shop in {sale.shop for sale in hour_sales}
            }
            off = sum(abs(a - b) for a, b in by_shop.values())
            errors[measure].append(off / sum(b for _, b in by_shop.values()))
    return {name: sorted(some) for name, some in errors.items()}


def is_known(hour: int, age: int) -> bool:
    """Return whether the epoch in which a window came to an age ended before it came to the next one."""
    beyond = next((later_age for later_age in AGES if age < later_age < CLOSES), CLOSES)
    last_epoch = max(epoch for epoch in range(10_000) if (event_time_before(epoch) or 0) < micros(hour + 1) + age)
    return age == CLOSES or micros(0) + (last_epoch + 1) * STEP < micros(hour + 1) + beyond


def is_beyond(sale: Sale, age: int) -> bool:
    """Return whether the epoch of a sale began when its window had come to an age."""
    reached_before = event_time_before(sale.epoch)
    return reached_before is not None and reached_before - micros(sale.hour + 1) >= age


def early(settings: Settings, sales: list[Sale]) -> EarlyAnswers:
    write(settings, lake(sales))
    report: Report = reconcile(PipelineLake(settings, PIPELINE))
    assert report.early is not None
    assert describe_early(report.early) in page.render_page(report)
    return report.early


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_errors_by_age_are_those_of_a_plain_fold(settings: Settings, seed: int) -> None:
    sales = draw_sales(seed)

    early_answers = early(settings, sales)

    ages = [*(age for age in AGES if age < CLOSES), CLOSES]
    assert [point.minutes * MINUTE for point in early_answers.points] == ages
    assert [point.is_open for point in early_answers.points] == [True] * (len(ages) - 1) + [False]
    for age, point in zip(ages, early_answers.points, strict=True):
        expected_answers = compute_expected_errors(sales, age)
        by_name = {error.measure: error for error in point.errors}
        for name, errors in expected_answers.items():
            assert by_name[name].largest == pytest.approx(errors[-1])
            assert by_name[name].p50 == pytest.approx(errors[(len(errors) - 1) // 2])
            assert point.within.of == len(errors) > 0
    assert early_answers.points[0].errors[0].largest > early_answers.points[-1].errors[0].largest > 0


def test_windows_that_came_whole_are_right_from_the_first_minute_on(settings: Settings) -> None:
    early_answers = early(settings, [Sale(hour=hour, epoch=hour * 20) for hour in range(HOURS)])

    assert all(point.within.hits == point.within.of >= HOURS - 2 for point in early_answers.points)
    assert {error.largest for point in early_answers.points for error in point.errors} == {0.0}
    live = replace(early_answers, is_replay=False)
    text = describe_early(live).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert text.startswith("Early answers were within 4 % of batch from 1 min after the end of their window on: 1")


def test_one_epoch_says_nothing_of_early_answers(settings: Settings) -> None:
    early_answers = early(settings, [Sale(hour=hour) for hour in range(HOURS)])

    assert [point.is_open for point in early_answers.points] == [False]
    assert early_answers.unknown == "All records were read in one epoch: nothing was shown before it."
    assert describe_early(early_answers).startswith(
        "Of early answers nothing is known. All records were read in one epoch"
    )


def test_of_sessions_nothing_is_known_and_that_is_said(settings: Settings) -> None:
    visits = replace(PIPELINE, name="visits", window=Sessions(gap="30 minutes"), measures={"sales": Count()})
    write(settings, lake_of([Sale(hour=hour) for hour in range(0, 40, 4)], visits), visits)

    early = reconcile(PipelineLake(settings, visits)).early

    assert early is not None
    assert (early.points, describe_early(early)) == (
        (),
        "Of early answers nothing is known. Sessions grow and join: none has an age.",
    )


@pytest.mark.quick("16-4")
@pytest.mark.parametrize(("limit", "windows"), [(17, 5), (16, 4), (1, 3)])  # both sides have 4 rows a window
def test_the_newest_windows_are_looked_at_as_far_as_their_rows_allow(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, limit: int, windows: int
) -> None:
    monkeypatch.setattr(answers, "LEAST", 3)
    monkeypatch.setattr(answers, "MOST_ROWS", limit)

    early_answers = early(
        settings, [Sale(hour=hour, shop=shop, epoch=hour * 20) for hour in range(HOURS) for shop in "ab"]
    )

    assert early_answers.windows == windows


def test_of_many_keys_some_are_looked_at_on_both_sides_alike(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of each key's sales come 21 minutes behind the end: every choice of keys has the same error."""
    monkeypatch.setattr(answers, "MOST_ROWS", 200)
    shops = [f"shop {number}" for number in range(40)]

    early_answers = early(
        settings,
        [Sale(hour=hour, shop=shop, epoch=hour * 20 + more) for hour in range(9) for shop in shops for more in (0, 27)],
    )

    assert (early_answers.one_of, early_answers.windows) == (-(-9 * 2 * len(shops) // 200), 9)
    assert {
        error.largest for point in early_answers.points[:1] for error in point.errors if error.measure == "sales"
    } == {0.5}
    assert [point.within.of for point in early_answers.points[-1:]] == [9]
