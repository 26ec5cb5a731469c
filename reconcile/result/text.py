"""How values are written for people: numbers, shares, times and texts from data, each in one way."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from cutover.durations import describe_length
from cutover.output.cells import visible
from cutover.output.markup import literal_text
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.overview import DifferenceLife
from cutover.timestamps import format_moment

MINUS = "\N{MINUS SIGN}"
THIN = "\N{NARROW NO-BREAK SPACE}"
LONGEST_VALUE = 64
"""Characters of a text of the data that are shown whole."""

_LEAST_PLAIN, _LARGEST_PLAIN = 1e-4, 1e15
_MOST_DIGITS, _NOISE = 12, 1e-14  # of shares
_FIRST_INEXACT = 1 << 53  # from here on a double does not hold every whole number


def number(value: Scalar) -> str:
    """Return a value of a measure: grouped digits, at most six behind the point or six that matter, `null` for None."""
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


def cut_text(text: str, most: int) -> str:
    """Return a text with its length in place of what is beyond `most` characters."""
    return text if len(text) <= most else f"{text[:most]}\N{HORIZONTAL ELLIPSIS} ({len(text):,} characters)"


def message(text: str) -> str:
    """Return a message of ours on one line, control characters of data in it as their escapes."""
    return visible(text.replace("\nHint: ", " Hint: "))


def message_text(text: str) -> str:
    """Return a message of ours as rich prints it to the letter."""
    return literal_text(message(text))


def count_noun(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def counts(found: Mapping[str, int]) -> str:
    """Return counts by name in brackets after a blank, ` (3 lost, 1 stale)`; nothing if there are none."""
    return f" ({', '.join(f'{count:,} {name}' for name, count in found.items())})" if found else ""


def format_signed(value: Scalar) -> str:
    """Return a difference with its sign; zero has none."""
    text = number(value)
    is_positive = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return f"+{text}" if is_positive else text


def share(value: float) -> str:
    """Return a share as a percentage with two digits that matter; only none is `0 %`, and only all `100 %`."""
    percent = value * 100
    digits = 2 if percent == 0 or abs(percent) >= 1 else 3 if abs(percent) >= 0.01 else 6  # noqa: PLR2004 -- read as is
    while digits < _MOST_DIGITS and _rounds_to_all_or_none(value, digits):
        digits += 1
    return f"{percent:.{digits}f}".rstrip("0").rstrip(".") + f"{THIN}%"


def _rounds_to_all_or_none(value: float, digits: int) -> bool:
    """Return whether a share between none and all would be shown as one of these; the noise of a double is neither."""
    return _NOISE < value < 1 - _NOISE and round(value * 100, digits) in {0, 100}


def moment(iso: str | None) -> datetime | None:
    """Return the time of an ISO text, in UTC; None for None or for a text that is no time."""
    if iso is None:
        return None
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def when(iso: str | None) -> str:
    """Return a time as `2013-02-08 14:00` (UTC, said once in the page's head), seconds and fractions if it has any."""
    found = moment(iso)
    if found is None:
        return "none" if iso is None else visible(iso)
    return format_moment(found)


def duration(seconds: float | None) -> str:
    """Return a length of time in its two largest units; `none` for None."""
    return "none" if seconds is None else describe_length(seconds, space=THIN)


def minutes(value: float) -> str:
    """Return a length in minutes as people say it: `30 min`, `2 h`, `1 d`."""
    return "0" if value == 0 else duration(value * 60)


def describe_life(life: DifferenceLife) -> str:
    """Return the state of a difference, since which comparison it is known, and how many have found it."""
    rule = f" by {visible(life.rule)}" if life.rule is not None else ""
    back = f", came back {count_noun(life.returned, 'time')}" if life.returned else ""
    found = f"found by {count_noun(life.runs, 'comparison')}"
    return f"{life.state}{rule} since {when(life.first_seen)} UTC (run {life.first_run}), {found}{back}"


def describe_lives(lifes: Sequence[DifferenceLife]) -> str:
    """Return how many listed rows nothing explains, and since when the oldest is known; nothing of none."""
    if not lifes:
        return ""
    first = min(lifes, key=lambda life: (life.first_seen, life.window_start))
    rows = f"{count_noun(len(lifes), 'row')} of these without a cause"
    return f"{rows}, the oldest known since {when(first.first_seen)} UTC (run {first.first_run})."


def numeric(value: Scalar) -> float:
    """Return a value as a float for a chart; what is no number is 0."""
    try:
        found = float(value) if value is not None else 0.0
    except ValueError:
        return 0.0
    return found if found - found == 0 else 0.0
