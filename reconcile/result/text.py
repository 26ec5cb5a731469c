"""Formats of values for people: numbers, shares, times, texts from data, and the types that `cutover diff` inferred."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from cutover.counts import count_noun as count_noun  # noqa: PLC0414 -- one of the formats of reports
from cutover.output.cells import visible
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import EqualWithin, Origin, TableReading
from cutover.reconcile.result.parts import DifferenceLife
from cutover.timestamps import describe_length, format_moment

_NAMES_SHOWN = 8
_ORIGINS = {
    Origin.INFERRED: "inferred",
    Origin.OTHER_SIDE: "as on the other side",
    Origin.STATED: "stated",
}


def describe_readings(readings: Sequence[TableReading]) -> Iterator[str]:
    """Yield, for each table without types, the dialect of its files and its columns by type."""
    for table in readings:
        dialect = ", ".join(f"{name} {value}" for name, value in table.dialect.items())
        if dialect:
            yield f"{table.side}: CSV with {dialect}"
        groups: dict[tuple[Origin, str], list[str]] = {}
        for column in table.columns:
            groups.setdefault((column.origin, column.type), []).append(column.column)
        for (origin, kind), names in groups.items():
            more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
            yield f"{table.side}: {kind}, {_ORIGINS[origin]}: {', '.join(names[:_NAMES_SHOWN])}{more}"


def describe_equal_within(counts: Sequence[EqualWithin]) -> Iterator[str]:
    """Yield a sentence for each column on the number of cells that are equal only within its tolerance."""
    for count in counts:
        hint = f"; `--tolerance {count.column}=0` compares exactly" if count.is_default else ""
        yield f"{count_noun(count.cells, 'cell')} of {count.column} equal within {count.tolerance}{hint}"


MINUS = "\N{MINUS SIGN}"
THIN = "\N{NARROW NO-BREAK SPACE}"
LONGEST_VALUE = 64
"""Maximum length of a text from data that is shown completely."""

_LEAST_PLAIN, _LARGEST_PLAIN = 1e-4, 1e15
_MOST_DIGITS, _NOISE = 12, 1e-14  # of shares
_FIRST_INEXACT = 1 << 53  # from here on a double cannot represent every integer


def format_number(value: Scalar) -> str:
    """Format a value of a measure: grouped digits, up to six decimals or six significant digits, `null` for None."""
    if value is None:
        return "null"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return visible(str(value))
    if isinstance(value, float) and abs(value) < _FIRST_INEXACT and value == int(value):
        value = int(value)
    if isinstance(value, float) and not (value == 0 or _LEAST_PLAIN <= abs(value) < _LARGEST_PLAIN):
        return f"{value:.6g}".replace("-", MINUS)
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")
    return text.replace("-", MINUS)


def cut_text(text: str, limit: int) -> str:
    """Cut a text after a number of characters, and append its length."""
    return text if len(text) <= limit else f"{text[:limit]}\N{HORIZONTAL ELLIPSIS} ({len(text):,} characters)"


def message(text: str) -> str:
    """Format a message on one line, with control characters from data escaped."""
    return visible(text.replace("\nHint: ", " Hint: "))


def counts(counts_by_name: Mapping[str, int]) -> str:
    """Format counts by name in parentheses after a space, ` (3 lost, 1 stale)`; empty if there are none."""
    return f" ({', '.join(f'{count:,} {name}' for name, count in counts_by_name.items())})" if counts_by_name else ""


def format_signed(value: Scalar) -> str:
    """Format a difference with its sign; zero has none."""
    text = format_number(value)
    is_positive = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return f"+{text}" if is_positive else text


def share(value: float) -> str:
    """Format a share as a percentage with two decimals or more; only 0 is `0 %`, and only 1 is `100 %`."""
    percent = value * 100
    digits = 2 if percent == 0 or abs(percent) >= 1 else 3 if abs(percent) >= 0.01 else 6  # noqa: PLR2004 -- read as is
    while digits < _MOST_DIGITS and _rounds_to_all_or_none(value, digits):
        digits += 1
    return f"{percent:.{digits}f}".rstrip("0").rstrip(".") + f"{THIN}%"


def _rounds_to_all_or_none(value: float, digits: int) -> bool:
    """Return whether a share would be rounded to 0 or 1 although it is neither, apart from the noise of a double."""
    return _NOISE < value < 1 - _NOISE and round(value * 100, digits) in {0, 100}


def parse_iso_time(iso: str | None) -> datetime | None:
    """Parse an ISO time, in UTC; None for None or for an invalid text."""
    if iso is None:
        return None
    try:
        time = datetime.fromisoformat(iso)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def when(iso: str | None) -> str:
    """Format a time as `2013-02-08 14:00` (UTC), with seconds and fractions if it has any."""
    time = parse_iso_time(iso)
    if time is None:
        return "none" if iso is None else visible(iso)
    return format_moment(time)


def duration(seconds: float | None) -> str:
    """Format a duration in its two largest units; `none` for None."""
    return "none" if seconds is None else describe_length(seconds, space=THIN)


def minutes(value: float) -> str:
    """Format a duration in minutes: `0 s`, `30 min`, `2 h`, `1 d`."""
    return duration(value * 60)


def describe_life(life: DifferenceLife) -> str:
    """Describe the state of a difference, the first comparison that found it, and the number of those that did."""
    rule = f" by {visible(life.rule)}" if life.rule is not None else ""
    returned_text = f", came back {count_noun(life.returned, 'time')}" if life.returned else ""
    found_text = f"found by {count_noun(life.runs, 'comparison')}"
    return f"{life.state}{rule} since {when(life.first_seen)} UTC (run {life.first_run}), {found_text}{returned_text}"


def describe_lives(lifes: Sequence[DifferenceLife]) -> str:
    """Describe the number of listed rows without a cause and the age of the oldest; empty if there are none."""
    if not lifes:
        return ""
    oldest = min(lifes, key=lambda life: (life.first_seen, life.window_start))
    rows = f"{count_noun(len(lifes), 'row')} of these without a cause"
    return f"{rows}, the oldest known since {when(oldest.first_seen)} UTC (run {oldest.first_run})."


def numeric(value: Scalar) -> float:
    """Convert a value to a float for a chart; 0 if it is not a number."""
    try:
        number_value = float(value) if value is not None else 0.0
    except ValueError:
        return 0.0
    return number_value if number_value - number_value == 0 else 0.0


def format_iso_time(time: datetime | None) -> str | None:
    """Format a time as ISO 8601 in UTC; None for None."""
    return None if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")
