"""Windows of another zone than UTC, which no definition with a job has: the zone is found from the log."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from cutover.adoption.completion import list_variants
from cutover.adoption.draft import NO_FILTER, JobDraft
from cutover.adoption.search import LocalWindows, find_local_windows, group_zones
from cutover.adoption.trial import Fold, JobReading, evaluate_draft
from cutover.definition import Fixed
from cutover.timestamps import MICROSECONDS, to_micros
from tests.unit.adoption.test_hypotheses import DRAFT, PAYMENTS, SHAPE, Record, read_log

TOKYO = ZoneInfo("Asia/Tokyo")
DAYS = replace(DRAFT, window=Fixed(days=1), output_mode="complete")


def read_days(label: Callable[[datetime], date], passes: Callable[[Record], bool] = lambda _: True) -> JobReading:
    """Return the log, with the table of a job that groups by days of Tokyo."""
    groups = defaultdict[tuple[date, str], list[Decimal]](list)
    for each in filter(passes, PAYMENTS):
        groups[label(datetime.fromisoformat(each["at"])), each["merchant"]].append(Decimal(each["amount"]))
    rows = [
        {"hour": day, "merchant": key, "payments": len(amounts), "total": sum(amounts)}
        for (day, key), amounts in groups.items()
    ]
    return replace(read_log(lambda _: True), rows=rows)


def find(draft: JobDraft, reading: JobReading) -> LocalWindows | None:
    return find_local_windows(
        [evaluate_draft(draft, (), reading)],
        lambda each: [
            evaluate_draft(replace(each, types=variant.types), variant.choices, reading)
            for variant in list_variants(each, SHAPE)
        ],
        reading,
        is_filtered=False,
    )


def midnight(moment: datetime) -> datetime:
    return moment.astimezone(TOKYO).replace(hour=0, minute=0)


@pytest.mark.parametrize(
    "label",
    [
        lambda moment: moment.astimezone(TOKYO).date(),  # to_date(from_utc_timestamp(at, 'Asia/Tokyo'))
        lambda moment: midnight(moment).replace(tzinfo=UTC),  # date_trunc('day', from_utc_timestamp(...))
        lambda moment: midnight(moment).astimezone(UTC),  # date_trunc('day', at) in a session with this zone
    ],
)
def test_the_zone_whose_days_reproduce_a_table_is_found(label: Callable[[datetime], date]) -> None:
    windows = find(DAYS, read_days(label, lambda each: each["status"] == "settled"))

    assert windows is not None
    assert (windows.is_exact, windows.cells) == (True, 12)  # 2 days, 3 shops, 2 columns
    assert "Asia/Tokyo" in windows.zones
    assert "have the same local times at these records" in windows.describe()


def test_windows_that_are_shifted_to_the_hours_of_a_zone_are_found() -> None:
    windows = find(DRAFT, read_days(lambda moment: moment.astimezone(TOKYO).replace(minute=0, tzinfo=UTC)))

    assert windows is not None
    assert (windows.is_exact, windows.size, "Asia/Tokyo" in windows.zones) == (True, MICROSECONDS["hour"], True)


def test_days_that_are_those_of_no_zone_come_as_close_as_they_do() -> None:
    windows = find(DAYS, read_days(lambda moment: (moment + timedelta(hours=8, minutes=20)).date()))

    assert windows is None or not windows.is_exact


def test_zones_are_told_apart_once_their_clocks_differ() -> None:
    winter, summer = (to_micros(datetime(2026, month, 1, 12, tzinfo=UTC)) for month in (1, 7))

    def group_of(name: str, *events: int) -> tuple[str, ...]:
        return next(names for names in group_zones(events) if name in names)

    assert "Africa/Lagos" in group_of("Europe/Berlin", winter)
    assert "Africa/Lagos" not in group_of("Europe/Berlin", winter, summer)
    assert group_of("Europe/Berlin", winter, summer)[0] == "Europe/Berlin"


def test_a_query_whose_state_has_no_watermark_drops_no_late_record() -> None:
    reading = read_log(lambda _: True)
    (batch,) = reading.plan.batches
    watermark = to_micros(datetime(2026, 3, 1, 14, tzinfo=UTC))  # the first two hours are over
    plan = replace(reading.plan, batches=(replace(batch, judged_by=watermark),))
    trial = evaluate_draft(DRAFT, (), reading)

    def count_rows(draft: JobDraft) -> int:
        return len(Fold(replace(trial, draft=draft), replace(reading, plan=plan)).group(NO_FILTER))

    assert count_rows(DRAFT) == 2 * 3
    assert count_rows(replace(DRAFT, drops_late=False)) == 4 * 3
