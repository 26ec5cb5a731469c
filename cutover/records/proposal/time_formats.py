"""Inference of the pattern of a column of times, from all of its values.

Where a month and a day are both numbers, the value with the larger one shows which is first; else the order of the
records may show it, since the records of most files are sorted. What remains ambiguous is not guessed silently.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from cutover.definition.model.times import compile_pattern
from cutover.errors import DefinitionError
from cutover.records.parsing.parsed_record import InvalidValueError
from cutover.records.reference.scalars import parse_value

DateOrder = Literal["month first", "day first", "year first"]

MIN_STEPS = 2
"""Minimum differences between successive times for a conclusion from their order."""

_CLOCK = (
    r"(?:(?P<gap>[ Tt,]+|:)(?P<hour>[0-9]{1,2}):[0-9]{2}(?P<second>:[0-9]{2})?(?:(?P<point>[.,])[0-9]{1,9})?"
    r"(?P<half> ?[AaPp][Mm])?(?P<zone> ?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2}))?(?P<zone_name>\[[A-Za-z_/+-]+\])?)?"
)
_NUMBERS = re.compile(rf"(?P<a>[0-9]{{1,2}})(?P<mark>[/.-])(?P<b>[0-9]{{1,2}})(?P=mark)[0-9]{{4}}{_CLOCK}")
_YEAR_FIRST = re.compile(rf"[0-9]{{4}}(?P<mark>[/.-])(?P<a>[0-9]{{1,2}})(?P=mark)(?P<b>[0-9]{{1,2}}){_CLOCK}")
_DAY_NAMED = re.compile(rf"(?P<a>[0-9]{{1,2}})(?P<mark>[ /-])[A-Za-z]{{3}}(?P=mark)[0-9]{{4}}{_CLOCK}")
_MONTH_NAMED = re.compile(rf"[A-Za-z]{{3}} (?P<a>[0-9]{{1,2}})(?P<mark>,?) [0-9]{{4}}{_CLOCK}")
_COMPACT = re.compile(r"[0-9]{8}(?:(?P<gap>T?)[0-9]{4}(?P<second>[0-9]{2})?(?P<zone>[Zz])?)?")


_UNSUPPORTED = (
    (re.compile(r"[0-9]{1,2}([/.-])[0-9]{1,2}\1[0-9]{2}(?:[ T,].*)?"), "a year of two digits"),
    (re.compile(r"[0-9]{1,2}\.? [A-Za-z]{4,9},? [0-9]{4}.*|[A-Za-z]{4,9} [0-9]{1,2},? [0-9]{4}.*"), "a month in full"),
    (re.compile(r"[A-Za-z]{3,9},? [0-9A-Za-z]+[ -][0-9A-Za-z]+[ -].*[0-9]{2}:[0-9]{2}.*"), "a day of the week"),
)
_TIME_OF_DAY = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?(?: ?[AaPp][Mm])?")


def name_unsupported_time(text: str) -> str | None:
    """Name what no pattern has in a text that resembles a time; None if it resembles none."""
    return next((name for shape, name in _UNSUPPORTED if shape.fullmatch(text)), None)


def is_clock_time(text: str) -> bool:
    """Return whether a text is a time of day without a date."""
    return _TIME_OF_DAY.fullmatch(text) is not None


@dataclass(slots=True)
class PatternChain:
    """Patterns of one order of day and month, each of which accepts what the ones before it accept."""

    order: DateOrder
    patterns: tuple[str, ...]  # of which the first one accepts all values so far
    previous: int | None = None
    increases: int = 0
    decreases: int = 0

    def add(self, text: str) -> bool:
        """Add a value; False if no pattern accepts all values."""
        while self.patterns:
            try:
                micros = int(parse_value(text, "timestamp", self.patterns[0]))
            except InvalidValueError:
                self.patterns = self.patterns[1:]
                continue
            if self.previous is not None:
                self.increases += micros > self.previous
                self.decreases += micros < self.previous
            self.previous = micros
            return True
        return False

    @property
    def is_sorted(self) -> bool:
        """Return whether the times of successive records only increase, or only decrease."""
        return min(self.increases, self.decreases) == 0 and max(self.increases, self.decreases) >= MIN_STEPS


@dataclass(slots=True)
class TimePatterns:
    """Patterns that all values of a column have; `add` is called with each distinct value, in the order of the file."""

    stated: str | None = None  # pattern that the user states
    chains: list[PatternChain] | None = None  # None: no value yet
    usual_order: DateOrder | None = None  # by AM or PM, or by points, where no value shows it

    def add(self, value: object) -> None:
        """Add a value."""
        if not isinstance(value, str):
            self.chains = []
            return
        if self.chains is None:
            self.usual_order = _find_usual_order(value)
            self.chains = _list_chains(value, self.stated)
        self.chains = [chain for chain in self.chains if chain.add(value)]

    def list_patterns(self, orders: Sequence[DateOrder] = ()) -> tuple[str, ...]:
        """List the patterns that remain, the usual one first: one if it is certain, or if all records are sorted by it.

        Args:
            orders: Orders in other columns of the file.
        """
        chains = self.chains or []
        sorted_chains = [chain for chain in chains if chain.is_sorted]
        if len(chains) > 1 and len(sorted_chains) == 1:
            chains = sorted_chains
        if len(chains) > 1 and len(set(orders)) == 1:
            chains = [chain for chain in chains if chain.order in orders] or chains
        return tuple(chain.patterns[0] for chain in sorted(chains, key=lambda chain: chain.order != self.usual_order))

    @property
    def order(self) -> DateOrder | None:
        """Return the order of day and month if the values alone show it; None if they do not, or if it has a name."""
        chains = self.chains or []
        return chains[0].order if len(chains) == 1 and chains[0].order != "year first" else None


def _find_usual_order(text: str) -> DateOrder | None:
    """Find the order of day and month that times of this form usually have."""
    if re.search("[AaPp][Mm]", text):
        return "month first"
    return "day first" if re.match(r"[0-9]{1,2}[.][0-9]{1,2}[.]", text) else None


def _list_chains(text: str, stated: str | None) -> list[PatternChain]:
    """List what the pattern of a value may be."""
    if stated is not None:
        return [PatternChain("year first", (stated,))]
    if match := _COMPACT.fullmatch(text):
        return [PatternChain("year first", _keep_supported([_make_compact(match)]))]
    match = _NUMBERS.fullmatch(text)
    if match:
        mark = match["mark"]
        return [
            PatternChain("month first", _make_patterns(f"{{m}}{mark}{{d}}{mark}yyyy", match, "a", "b")),
            PatternChain("day first", _make_patterns(f"{{d}}{mark}{{m}}{mark}yyyy", match, "b", "a")),
        ]
    for shape, date in (
        (_YEAR_FIRST, "yyyy{mark}{m}{mark}{d}"),
        (_DAY_NAMED, "{d}{mark}MMM{mark}yyyy"),
        (_MONTH_NAMED, "MMM {d}{mark} yyyy"),
    ):
        match = shape.fullmatch(text)
        if match:
            month, day = ("a", "b") if shape is _YEAR_FIRST else ("a", "a")
            pattern = date.format(mark=match["mark"], m="{m}", d="{d}")
            return [PatternChain("year first", _make_patterns(pattern, match, month, day))]
    return []


def _make_patterns(date: str, match: re.Match[str], month: str, day: str) -> tuple[str, ...]:
    """Make the patterns of one order: with two digits wherever the value has two, then with any number of digits."""
    two_digits = len("05")
    has_two_date_digits = min(len(match[month]), len(match[day])) == two_digits
    has_two_hour_digits = match["hour"] is None or len(match["hour"]) == two_digits
    date_forms = [date.format(m="MM", d="dd")] if has_two_date_digits else []
    hour_forms = [_make_clock(match, is_open=False)] if has_two_hour_digits else []
    date_forms.append(date.format(m="M", d="d"))
    hour_forms += [_make_clock(match, is_open=True)] if match["hour"] else []
    return _keep_supported([f"{day_form}{clock}" for day_form, clock in product(date_forms, hour_forms)])


def _make_clock(match: re.Match[str], *, is_open: bool) -> str:
    if match["hour"] is None:
        return ""
    letter = "h" if match["half"] else "H"
    gap = re.sub("[Tt]", "'T'", match["gap"])
    fraction = f"{match['point']}SSSSSSSSS" if match["point"] else ""
    half = f"{' ' if match['half'][0] == ' ' else ''}a" if match["half"] else ""
    zone_name = f"'{match['zone_name']}'" if match["zone_name"] else ""  # after the offset, which alone counts
    clock = f"{letter if is_open else letter * 2}:mm{':ss' if match['second'] else ''}"
    return f"{gap}{clock}{fraction}{half}{_make_zone(match['zone'])}{zone_name}"


def _make_zone(zone: str | None) -> str:
    if not zone:
        return ""
    return f"{' ' if zone[0] == ' ' else ''}{'XXX' if ':' in zone or zone.strip().lower() == 'z' else 'XX'}"


def _make_compact(match: re.Match[str]) -> str:
    if match["gap"] is None:
        return "yyyyMMdd"
    gap = "'T'" if match["gap"] else ""
    return f"yyyyMMdd{gap}HHmm{'ss' if match['second'] else ''}{'XX' if match['zone'] else ''}"


def _keep_supported(patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(pattern for pattern in dict.fromkeys(patterns) if _is_supported(pattern))


def _is_supported(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except DefinitionError:
        return False
    return True
