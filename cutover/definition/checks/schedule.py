"""Whether a scheduler can keep the schedule of a definition."""

from cutover.definition.checks.measures import refuse


def check_schedule(schedule: str) -> None:
    """Refuse what is no cron expression.

    Raises:
        DefinitionError: Says what is expected.
    """
    from croniter import croniter  # noqa: PLC0415 -- a tenth of a second that most commands can do without

    if not croniter.is_valid(schedule):
        refuse("schedule", "cron such as `0 * * * *` or `@daily`", f"`{schedule[:80]}`")
