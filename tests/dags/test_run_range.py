"""Which windows a run of the batch DAG computes, as a table."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from run_range import RunRange, requested_range

from cutover.errors import DefinitionError

FEB_8 = datetime(2013, 2, 8, tzinfo=UTC)
FEB_9 = datetime(2013, 2, 9, tzinfo=UTC)
NOON = datetime(2013, 2, 8, 12, tzinfo=UTC)
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
    assert expected == requested_range(params, run_type=run_type, logical_date=logical_date)


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
        requested_range(params, run_type="manual", logical_date=None)
