"""Request of `cutover diff`: two tables, their key, and the rules by which their columns are compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from cutover.errors import DefinitionError
from cutover.reconcile.comparison.column_types import holds, is_number, is_time, kind_of
from cutover.reconcile.comparison.diff import Budget
from cutover.reconcile.comparison.layout import Value
from cutover.sources.csv_dialect import Dialect
from cutover.sources.reading import DECIMAL_DIGITS


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
