"""Windows that a run of the batch DAG computes, as a table."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cutover_tasks.task_parts import RunRange, requested_range

from cutover.definition import Daily, Fixed
from cutover.errors import DefinitionError

FEB_8 = datetime(2013, 2, 8, tzinfo=UTC)
FEB_9 = datetime(2013, 2, 9, tzinfo=UTC)
NOON = datetime(2013, 2, 8, 12, tzinfo=UTC)
HOURLY = Fixed(hours=1)
NEW_YORK = timezone(timedelta(hours=-5))


@pytest.mark.parametrize(
    ("params", "run_type", "logical_date", "expected"),
    [
        ({}, "scheduled", NOON, RunRange()),
        ({}, "manual", None, RunRange()),
        ({"from": None, "to": "", "day": None}, "manual", NOON, RunRange()),
        ({"day": "2013-02-08"}, "manual", None, RunRange(FEB_8, FEB_9)),
        ({"from": "2013-02-08", "to": "2013-02-09"}, "manual", None, RunRange(FEB_8, FEB_9)),
        ({"from": "2013-02-08T00:00Z"}, "manual", None, RunRange(FEB_8, None)),
        ({"to": "2013-02-07T19:00-05:00"}, "manual", None, RunRange(None, FEB_8)),
        ({}, "backfill", NOON, RunRange(FEB_8, FEB_9)),
        ({"day": "2013-05-05"}, "backfill", NOON, RunRange(FEB_8, FEB_9)),
        ({}, "backfill", datetime(2013, 2, 7, 20, tzinfo=NEW_YORK), RunRange(FEB_8, FEB_9)),
        ({"day": "2013-02-08"}, "backfill", None, RunRange(FEB_8, FEB_9)),
    ],
)
def test_run_takes_the_range_that_its_start_asks_for(
    params: dict[str, object], run_type: str, logical_date: datetime | None, expected: RunRange
) -> None:
    assert expected == requested_range(params, HOURLY, run_type=run_type, logical_date=logical_date)


@pytest.mark.parametrize(
    ("params", "run_type", "logical_date"),
    [
        ({"day": "2013-03-31"}, "manual", None),
        ({"from": "2013-03-31", "to": "2013-04-01"}, "manual", None),
        ({"from": "2013-03-31T03:00Z", "to": "2013-04-01"}, "manual", None),
        ({}, "backfill", datetime(2013, 3, 31, tzinfo=UTC)),
    ],
)
def test_a_day_is_one_of_the_business_zone(
    params: dict[str, object], run_type: str, logical_date: datetime | None
) -> None:
    # Berlin's 31 March 2013 has 23 hours; a shop's day there begins at six.
    shop = Daily(zone="Europe/Berlin", offset="6 hours")

    run_range = requested_range(params, shop, run_type=run_type, logical_date=logical_date)

    begins = 3 if params.get("from") == "2013-03-31T03:00Z" else 4
    assert run_range == RunRange(datetime(2013, 3, 31, begins, tzinfo=UTC), datetime(2013, 4, 1, 4, tzinfo=UTC))


def test_a_day_that_the_zone_left_out_is_an_empty_range() -> None:
    island = Daily(zone="Pacific/Apia")  # went from 29 to 31 December 2011

    run_range = requested_range({"day": "2011-12-30"}, island, run_type="manual", logical_date=None)

    assert run_range == RunRange(datetime(2011, 12, 30, 10, tzinfo=UTC), datetime(2011, 12, 30, 10, tzinfo=UTC))


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ({"day": "2013-02-08", "from": "2013-02-08"}, "`day`, or `from` and `to`"),
        ({"day": "yesterday"}, "a date such as 2013-02-08, got 'yesterday'"),
        ({"from": "8 Feb"}, "parameter `from`"),
        ({"to": "{{ ds }}"}, "parameter `to`"),
        ({"from": "2013-02-09", "to": "2013-02-08"}, "expected from < to"),
        ({"from": "2013-02-08", "to": "2013-02-08"}, "expected from < to"),
    ],
)
def test_bad_range_is_refused_with_what_was_expected(params: dict[str, object], part: str) -> None:
    with pytest.raises(DefinitionError, match=part):
        requested_range(params, HOURLY, run_type="manual", logical_date=None)
