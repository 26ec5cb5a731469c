"""Schedules: ambiguous and invalid cron expressions are rejected with the field; common ones are accepted."""

import pytest

from cutover.definition.checks.contract import check_schedule
from cutover.errors import DefinitionError


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("*/90 * * * *", "the minute `*/90` needs a step of at most 59 from 0 to 59"),
        ("5/90 * * * *", "the minute `5/90` needs a step of at most 54 from 5 to 59"),
        ("0-10/20 * * * *", "needs a step of at most 10 from 0 to 10"),
        ("*/60 * * * *", "needs a step of at most 59"),
        ("0 */24 * * *", "the hour `*/24` needs a step of at most 23"),
        ("0 0 */31 * *", "the day of the month `*/31` needs a step of at most 30"),
        ("0 0 1 */12 *", "the month `*/12`"),
        ("0 0 * * */7", "the day of the week `*/7`"),
        ("0,*/90 * * * *", "the minute `*/90`"),
        ("*/0 * * * *", "expected cron"),
        ("61 * * * *", "expected cron"),
        ("60 * * * *", "expected cron"),
        ("1,2,90 * * * *", "expected cron"),
        ("-5 * * * *", "expected cron"),
        ("0 24 * * *", "expected cron"),
        ("0 0 0 * *", "expected cron"),
        ("0 0 32 * *", "expected cron"),
        ("0 0 1 13 *", "expected cron"),
        ("0 0 * * 8", "expected cron"),
        ("50-10 * * * *", "the minute `50-10` ends before it starts"),
        ("0 22-2 * * *", "the hour `22-2` ends before it starts"),
        ("0 0 1 nov-feb *", "the month `nov-feb` ends before it starts"),
        ("0 0 * * fri-mon", "the day of the week `fri-mon` ends before it starts"),
        ("0 0 30 2 *", "a day that no calendar has"),
        ("0 0 30 FEB *", "a day that no calendar has"),
        ("0 0 31 2,4,6 *", "a day that no calendar has"),
        ("0 0 31 4 mon", "a day that no calendar has"),
        ("0 0 30-31 2 *", "a day that no calendar has"),
        ("0 0 * * monday", "expected cron"),
        ("0 0 * * xyz", "expected cron"),
        ("* * * * * *", "of five fields"),
        ("0 0 * * * 0 2027", "of five fields"),
        ("R * * * *", "the minute `r` is random in each process"),
        ("0 R(1-5) * * *", "is random in each process"),
        ("H * * * *", "expected cron"),
        ("@reboot", "expected cron"),
        ("@every 5m", "expected cron"),
        ("hourly", "expected cron"),
        ("", "expected cron"),
    ],
)
def test_misleading_or_invalid_schedule_is_rejected(schedule: str, reason: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        check_schedule(schedule)

    assert reason in str(refusal.value)
    assert f"`{schedule[:80]}`" in str(refusal.value)


@pytest.mark.parametrize(
    "schedule",
    [
        "@hourly",
        "@daily",
        "@midnight",
        "@weekly",
        "0 * * * *",
        "*/15 * * * *",
        "*/59 * * * *",
        "5/10 * * * *",
        "10-50/20 * * * *",
        "0 0-6,22-23 * * *",
        "30 2 29 2 *",
        "0 0 31 * *",
        "0 0 31 1,3 *",
        "0 0 L * *",
        "0 0 * * mon-fri",
        "0 0 * * MON,WED",
        "0 0 * * fri-sun",
        "0 0 * * 5-7",
        "0 0 * * 7",
        "0 0 * * mon#2",
        "0 0 1 jan-mar *",
        "0 0 15W * *",
        "0 0 ? * *",
        "  0   0 * * *  ",
    ],
)
def test_common_schedule_is_accepted(schedule: str) -> None:
    check_schedule(schedule)
