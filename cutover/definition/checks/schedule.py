"""Whether a scheduler can keep the schedule of a definition."""

from datetime import UTC, datetime

from cutover.definition.checks.measures import refuse

_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def check_schedule(schedule: str) -> None:
    """Refuse what is no cron expression.

    Raises:
        DefinitionError: Says what is expected.
    """
    from croniter import CroniterBadDateError, croniter  # noqa: PLC0415 -- a tenth of a second that most can do without

    if not croniter.is_valid(schedule):
        refuse("schedule", "cron such as `0 * * * *` or `@daily`", f"`{schedule[:80]}`")
    try:
        croniter(schedule, _SOME_DAY).get_next()
    except CroniterBadDateError:
        refuse("schedule", "cron that comes round, got one of a day that no calendar has", f"`{schedule[:80]}`")
