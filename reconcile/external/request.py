"""Request of `cutover diff`: two tables, their key, and the rules by which their columns are compared.

It is parsed from arguments of the command line, such as times and tolerances; errors name the expected form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NoReturn

from cutover.errors import DefinitionError
from cutover.reconcile.comparison.column_types import holds, is_number, is_time, kind_of
from cutover.reconcile.comparison.diff import Budget
from cutover.reconcile.comparison.layout import Value
from cutover.sources.csv_dialect import Dialect
from cutover.sources.reading import DECIMAL_DIGITS
from cutover.timestamps import parse_duration, to_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Largest distance of two equal values of a column: within any of these bounds they are equal."""

    absolute: float | None = None
    relative: float | None = None  # of the larger magnitude
    micros: int | None = None  # of times, microseconds

    def merge(self, other: "Tolerance") -> "Tolerance":
        """Return the bounds of both; if a bound is stated twice, the later one counts."""
        bounds = {name: value for name in self.__slots__ if (value := getattr(other, name)) is not None}
        return replace(self, **bounds)

    def apply(self, value: Value, kind: str) -> Value:
        """Return how a column is compared under this tolerance.

        Args:
            value: The column.
            kind: Its DuckDB type; of texts that contain numbers, the type of the numbers.

        Raises:
            DefinitionError: A bound of time over a number, or of a number over anything else.
        """
        if self.micros is not None:
            if not is_time(kind) or self.absolute is not None or self.relative is not None:
                _reject(value.name, "a date or a timestamp, alone", kind)
            return replace(value, exact=False, micros=self.micros)
        nested = kind if holds(kind, is_number) else None
        if nested is None and not is_number(kind):
            _reject(value.name, "a number", kind)
        return replace(
            value,
            exact=False,
            absolute=self.absolute or 0.0,
            relative=self.relative or 0.0,
            is_whole=kind_of(kind) == "whole",
            keeps_whole=False,
            nested=nested,
        )

    def describe(self) -> str:
        """Return the bounds as a note names them."""
        parts = []
        if self.absolute is not None:
            parts.append(f"{self.absolute:g}")
        if self.relative is not None:
            parts.append(f"{self.relative:g} of the larger value")
        if self.micros is not None:
            parts.append(f"{self.micros / 1_000_000:g} seconds")
        return " or ".join(parts)


def reject_long_numbers(column: str) -> NoReturn:
    """Reject a tolerance for numbers that no decimal type holds."""
    msg = (
        f"`--tolerance`: column `{column}`: expected numbers of at most {DECIMAL_DIGITS} digits, before and behind the"
    )
    msg += " point of all cells together, got longer ones."
    raise DefinitionError(msg + "\nHint: without `--tolerance` they are compared exactly, by all of their digits.")


def _reject(column: str, expected: str, column_type: str) -> None:
    msg = f"`--tolerance`: column `{column}`: expected {expected}, got {column_type}."
    if column_type == "VARCHAR":
        msg += f"\nHint: `--type {column}=decimal`, `=double` or `=timestamp` states what its texts are."
    raise DefinitionError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """Tables to compare, and the rules. Columns are named as the expected side has them."""

    expected: str  # the expected side: a Delta folder, a Parquet or CSV file, folder or glob
    actual: str  # the actual side
    key: tuple[str, ...]
    window: str | None = None  # a key column too; digests are grouped by it
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # expected side's name -> the actual side's
    excluded: tuple[str, ...] = ()  # not compared
    masked: tuple[str, ...] = ()  # compared, their values shown nowhere
    types: Mapping[str, str] = field(default_factory=dict)  # column -> DuckDB type, `DECIMAL` without digits
    dialects: tuple[Dialect, Dialect] = (Dialect(), Dialect())  # of CSV files, expected side first
    normalized: tuple[str, ...] = ()  # texts compared in normal form: NFC, one blank for each run, none at the ends
    caseless: tuple[str, ...] = ()  # texts compared without upper and lower case
    times: tuple[int | None, int | None] = (None, None)  # rows whose window is in this range (microseconds), are read
    cutoff: int | None = None  # rows whose window is not before this time (microseconds) are too young to compare
    budget: Budget = field(default_factory=Budget)


def parse_moment(text: str, option: str) -> datetime:
    """Return a time in UTC: ISO 8601, a time without a zone is UTC.

    Raises:
        DefinitionError: It is not a time.
    """
    try:
        moment_ = datetime.fromisoformat(text)
    except ValueError:
        msg = f"`{option}`: expected a time such as `2013-02-08T14:00:00Z` or `2013-02-08`, got `{text[:80]}`."
        raise DefinitionError(msg) from None
    return moment_.replace(tzinfo=UTC) if moment_.tzinfo is None else moment_.astimezone(UTC)


def parse_window_bound(text: str | None, option: str, window: str | None) -> int | None:
    """Return an end of a range of windows in microseconds; None: it is not given.

    Raises:
        DefinitionError: It is not a time, or no column of windows is named.
    """
    if text is None:
        return None
    if window is None:
        msg = f"`{option}`: expected `--window-column`, whose times are in the range, got none."
        raise DefinitionError(msg)
    return to_micros(parse_moment(text, option))


def parse_names(text: str, option: str) -> tuple[str, ...]:
    """Split an option's column names at commas; blanks around one of several are not part of it.

    Raises:
        DefinitionError: There is none.
    """
    column_names = (
        tuple(name.strip() for name in text.split(",") if name.strip()) if "," in text else (text,) * bool(text)
    )
    if not column_names:
        msg = f"`{option}`: expected column names such as `origin,carrier`, got none."
        raise DefinitionError(msg)
    return column_names


def parse_name_lists(texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the column names of an option that may be given several times, each with several names."""
    return tuple(dict.fromkeys(name for text in texts for name in parse_names(text, option)))


def parse_renames(texts: Sequence[str]) -> dict[str, str]:
    """Return the expected side's name to the actual side's, of texts such as `carrier=airline`.

    Raises:
        DefinitionError: A text is not of this form, or a name stands twice on one side.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        ours, _, other_name = text.partition("=")
        if not ours or not other_name or ours in pairs or other_name in pairs.values():
            msg = f"`--map`: expected two names, each once, such as `carrier=airline`, got `{text[:80]}`."
            raise DefinitionError(msg)
        pairs[ours] = other_name
    return pairs


TYPES = {
    "text": "VARCHAR",
    "decimal": "DECIMAL",
    "double": "DOUBLE",
    "float": "FLOAT",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_ns": "TIMESTAMP_NS",
    "boolean": "BOOLEAN",
    "uuid": "UUID",
}
"""What `--type` calls a type, to DuckDB's name of it."""


def parse_types(texts: Sequence[str]) -> dict[str, str]:
    """Return column to DuckDB type, of texts such as `zip=text`.

    Raises:
        DefinitionError: A text is not of this form, or a column is named twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, kind = (part.strip() for part in text.rpartition("="))
        if not name or kind not in TYPES or name in pairs:
            msg = f"`--type`: expected a column, once, and one of {', '.join(TYPES)}, such as `zip=text`, "
            raise DefinitionError(msg + f"got `{text[:80]}`.")
        pairs[name] = TYPES[kind]
    return pairs


def parse_tolerances(texts: Sequence[str]) -> dict[str, Tolerance]:
    """Return column to tolerance, of texts such as `amount=0.01`, `amount=1%` and `at=5 seconds`.

    Raises:
        DefinitionError: A text is not of this form, or a tolerance is negative.
    """
    by_column: dict[str, Tolerance] = {}
    for text in texts:
        name, _, limit = (part.strip() for part in text.partition("="))
        by_column[name] = by_column.get(name, Tolerance()).merge(
            _tolerance(limit, text) if name else _reject_tolerance(text)
        )
    return by_column


def _tolerance(limit: str, text: str) -> Tolerance:
    if limit[:1].isdigit() and limit[-1:].isalpha():
        return Tolerance(micros=parse_duration(limit, of="--tolerance"))
    try:
        number = float(limit.removesuffix("%"))
    except ValueError:
        _reject_tolerance(text)
    if not 0 <= number < float("inf"):
        _reject_tolerance(text)
    return Tolerance(relative=number / 100) if limit.endswith("%") else Tolerance(absolute=number)


def _reject_tolerance(text: str) -> NoReturn:
    msg = "`--tolerance`: expected a column and a bound such as `amount=0.01`, `amount=1%` or `at=5 seconds`, "
    raise DefinitionError(msg + f"got `{text[:80]}`.")
