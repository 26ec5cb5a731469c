"""Checks of a schedule: cron expressions that every scheduler interprets in the same way.

Airflow's cron library accepts more: a step beyond its field (`*/90` minutes is hourly there), a reversed range (all
other values), seconds, and random values that each process draws separately.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cutover.definition.checks.measures import reject_field

_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_EXPECTED = "cron such as `0 * * * *` or `@daily`"
_PART = re.compile(r"(?:(?P<all>[*?])|(?P<first>[0-9a-z]+)(?:-(?P<last>[0-9a-z]+))?)(?:/(?P<step>[0-9]+))?")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of the months, in a leap year
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """Field of a cron expression."""

    name: str
    minimum: int
    maximum: int
    names: Mapping[str, int] = field(default_factory=dict)

    def parse(self, text: str, *, ends_range: bool = False) -> int:
        """Parse a value by number or name; `sun` at the end of a range is the day after `sat`."""
        number = self.names.get(text)
        if number is None:
            return int(text) if text.isdecimal() else self.minimum
        return 7 if ends_range and text == "sun" else number


_FIELDS = (
    _Field(name="minute", minimum=0, maximum=59),
    _Field(name="hour", minimum=0, maximum=23),
    _Field(name="day of the month", minimum=1, maximum=31),
    _Field(name="month", minimum=1, maximum=12, names={name: n for n, name in enumerate(_MONTHS, start=1)}),
    _Field(
        name="day of the week",
        minimum=0,
        maximum=6,
        names={name: n for n, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))},
    ),
)


def check_schedule(schedule: str) -> None:
    """Reject an invalid cron expression, and one that schedulers would misinterpret.

    Raises:
        DefinitionError: The message names the expected value and the field.
    """
    from croniter import CroniterBadDateError, croniter  # noqa: PLC0415 -- a tenth of a second that most can do without

    actual = f"`{schedule[:80]}`"
    if not croniter.is_valid(schedule):
        reject_field("schedule", _EXPECTED, actual)
    if not schedule.strip().startswith("@"):
        _check_fields(schedule.lower().split(), actual)
    try:
        croniter(schedule, _SOME_DAY).get_next()
    except CroniterBadDateError:
        reject_field("schedule", "cron that fires, got one of a day that no calendar has", actual)


def _check_fields(texts: list[str], actual: str) -> None:
    if len(texts) != len(_FIELDS):
        reject_field(
            "schedule", f"{_EXPECTED}, of five fields: minute, hour, day of the month, month, day of the week", actual
        )
    for kind, text in zip(_FIELDS, texts, strict=True):
        for part in text.split(","):
            _check_part(kind, part, actual)
    days, months = (list(_list_values(kind, text)) for kind, text in zip(_FIELDS[2:4], texts[2:4], strict=True))
    if days and not any(day <= _DAYS[month - 1] for day in days for month in months or range(1, 13)):
        reject_field("schedule", "cron that fires, got one of a day that no calendar has", actual)


def _check_part(kind: _Field, part: str, actual: str) -> None:
    if part[0] in "hr" and not part.startswith(tuple(kind.names)):
        reject_field("schedule", f"{_EXPECTED}; the {kind.name} `{part}` is random in each process", actual)
    match = _PART.fullmatch(part)
    if match is None:  # such as `L`, `15w`, `mon#2`, which the library has checked
        return
    start = kind.minimum if match["all"] else kind.parse(match["first"])
    range_end = start if match["last"] is None else kind.parse(match["last"], ends_range=True)
    if range_end < start:
        reject_field(
            "schedule",
            f"{_EXPECTED}; the {kind.name} `{part}` ends before it starts; write two ranges with a comma",
            actual,
        )
    end = range_end if match["last"] else kind.maximum
    if match["step"] and int(match["step"]) > end - start:
        expected = f"a step of at most {end - start} from {start} to {end}"
        reject_field("schedule", f"{_EXPECTED}; the {kind.name} `{part}` needs {expected}", actual)


def _list_values(kind: _Field, text: str) -> Iterator[int]:
    """Yield the listed values of a field; none for `*`, or for a special form."""
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is not None and not match["all"]:
            start = kind.parse(match["first"])
            end = kind.parse(match["last"]) if match["last"] else kind.maximum if match["step"] else start
            yield from range(start, end + 1, int(match["step"] or 1))
