"""Common layout of two tables, and the tables of one comparison that several modules use.

A layout has the key columns, the compared columns and their tolerances. A value of plain Python equals one of a table
exactly, except for the order in which floats were added.

Shared tables exist in the comparison's DuckDB connection and are dropped with it. A table used by one module has no
entry. A search for its constant finds the modules that read a table.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures.kinds import Count, Sum
from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.column_types import Path, is_number, is_same_sql, kind_of
from cutover.records.reference import ApproximateFloat


class SharedTable(StrEnum):
    """Names of the tables. `key` means the columns of the pipeline's key; times are `TIMESTAMPTZ`."""

    STREAM_LOG = "stream_log"
    """Partial rows and ledger up to the cut. Created by `sides`."""

    WINDOWS = "windows"
    """`window_start`, `window_end` of every window of either side. Created by `sides`."""

    EXPECTED = "batch_side"
    """Batch's rows: window, key, measures, `_n`; only compared windows. Created by `sides`."""

    TOUCHED = "touched"
    """Cells in which some stage differs, with the values of each, `_explained` and `_cause`. Created by `causes`."""

    LEDGER = "ledger"
    """Records up to the cut that did not count: class, window, key, `_epoch`, `_partition`, `_offset`, `reason`.
    Created by `attribution`."""

    DOUBTFUL = "doubtful"
    """Window, key and `why` of cells whose ledger does not hold. Created by `attribution`; `proof` adds rows."""

    EPOCH_WATERMARKS = "epoch_watermarks"
    """`epoch`, `watermark` (microseconds) before it. Created by `attribution`."""

    EPOCH_REACHED = "epoch_reached"
    """`__epoch`, the event time reached before it, `__before`, and before the first and the last epoch that accepted
    rows with its number may be of: `__first`, `__last`. Created by `settlement`."""


COMPONENT = "_component"
"""Column with the start of the component that a session belongs to."""


def stage(number: int) -> str:
    """Return the name of the stream's side after `number` further classes; `sides` creates it."""
    return f"stage_{number}"


_WIDE = ("HUGEINT", "DECIMAL", "UUID", "INTERVAL", "STRUCT", "MAP", "UNION", "VARIANT", "[")  # or of such parts
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_LONG = 18  # digits of a decimal that fit in 64 bits
KEY_BUCKETS = 1024
"""Number of hash buckets for digests if no column groups the rows."""
_FIRST_INEXACT = 9007199254740992  # 2^53: from here on a double cannot represent every integer
FLOAT_RELATIVE = 1e-9
"""Default relative tolerance for doubles of external tables, because their sums depend on the order of rows."""


_FLOAT_DIGITS, _FLOAT_STEP = 17, "2.3e-16::DOUBLE"
"""Significant digits that name every double, and an upper bound of its distance to the next, relative to it."""

_EXACT_READINGS = (
    ("HUGEINT", r"[+-]?[0-9]{1,38}([.]0*)?", "1e38"),
    ("DECIMAL(38,10)", r"[+-]?[0-9]{0,28}([.][0-9]{0,10}0*)?", "1e28"),
)
"""Types that hold numbers exactly that a float does not: texts that they read, bound of whole floats that they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberText:
    """Numbers or times that are stored as texts, and are compared as a type with a tolerance."""

    kind: str  # DuckDB type
    pattern: str | None  # regular expression of texts that are numbers; None: the canonical text of the type

    def read(self, text: str) -> str:
        """Return SQL of the number; null if the text is not a number."""
        if self.pattern is None:
            value = f"TRY_CAST({text} AS {self.kind})"
            return f"CASE WHEN {value}::VARCHAR = {text} THEN {value} END"
        return f"CASE WHEN regexp_full_match({text}, {literal(self.pattern)}) THEN TRY_CAST({text} AS {self.kind}) END"

    def read_exactly(self, text: str) -> list[str]:
        """Return SQL of the number in types that hold more digits than a float; null where one does not hold it."""
        if self.pattern is None or kind_of(self.kind) != "float":
            return []
        number = self.read(text)
        return [
            f"CASE WHEN regexp_full_match({text}, {literal(pattern)}) THEN TRY_CAST({text} AS {kind})"
            f" WHEN NOT regexp_full_match({text}, '[+-]?[0-9]*([.][0-9]*)?') AND {number} = floor({number})"
            f" AND abs({number}) < {limit} THEN TRY_CAST(TRY_CAST({number} AS HUGEINT) AS {kind}) END"
            for kind, pattern, limit in _EXACT_READINGS
        ]

    def bound(self, number: str, text: str) -> list[str]:
        """Return SQL of the smallest and the largest number that a text with more digits than a float can represent."""
        if kind_of(self.kind) != "float":
            return [number]
        mantissa = f"regexp_replace({text}, '[eE].*', '')"
        digits = f"length(trim(regexp_replace({mantissa}, '[^0-9]', '', 'g'), '0'))"
        step = f"CASE WHEN {digits} > {_FLOAT_DIGITS} THEN {_FLOAT_STEP} ELSE 0 END"
        return [f"({number} * (1 - {step}))", f"({number} * (1 + {step}))"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Compared column, with its tolerance."""

    name: str
    exact: bool = True
    relative: float = 0.0  # of the larger magnitude
    absolute: float = 0.0
    micros: int | None = None  # for times: tolerance in microseconds
    additive: bool = False  # totals add up, so a missing row counts as 0
    is_double: bool = False
    is_whole: bool = False  # integers with a tolerance: subtracted in 128 bits to avoid an overflow
    is_implied: bool = False  # by the key: the end of a window, except for sessions
    keeps_whole: bool = False  # integers that a double represents exactly are compared exactly
    integers: frozenset[Path] = frozenset()  # parts in which integers of any size are compared exactly
    nested: str | None = None  # type of a list, struct or map with numbers, which are compared by the same rule
    number: NumberText | None = None  # for texts that are numbers
    part_numbers: Mapping[Path, NumberText] = field(default_factory=dict)  # for such texts inside of a nested value

    @property
    def is_measure(self) -> bool:
        """Return whether it is a measure of the pipeline: not a state, a number of records, or implied by the key."""
        return "__" not in self.name and self.name != "_n" and not self.is_implied

    def differs(self, left: str, right: str) -> str:
        """Return SQL that is true where the two sides differ; two nulls are equal, and two NaN."""
        if self.exact:
            return f"({left} IS DISTINCT FROM {right})"
        return f"({left} IS DISTINCT FROM {right} AND NOT {self.is_near(left, right)})"

    def is_within(self, left: str, right: str) -> str:
        """Return SQL that is true where the two sides are equal only because of the tolerance."""
        if self.exact:
            return "false"
        return f"({left} IS DISTINCT FROM {right} AND {self.is_near(left, right)})"

    def is_near(self, left: str, right: str) -> str:
        """Return SQL that is true where the two sides are within the tolerance; false if either is null."""
        if self.number is not None:
            texts = (left, right)
            exact = zip(self.number.read_exactly(left), self.number.read_exactly(right), strict=True)
            left, right = self.number.read(left), self.number.read(right)
        if self.micros is not None:
            # Nanoseconds first: the engine has no cast from times with a zone in nanoseconds to microseconds.
            nanos = f"TRY(abs(epoch_ns({left}) - epoch_ns({right})) <= {self.micros * 1_000})"
            micros = f"TRY(abs(epoch_us({left}::TIMESTAMP) - epoch_us({right}::TIMESTAMP)) <= {self.micros})"
            return f"coalesce({nanos}, {micros}, false)"
        if self.nested is not None:
            return f"coalesce({is_same_sql(left, right, self.nested, self._is_same_number)}, false)"
        if self.number is None:
            return self.is_near_number(left, right)
        exactly = [f"WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN {self.is_near_number(a, b)}" for a, b in exact]
        rounded = [
            self.is_near_number(a, b)
            for a in self.number.bound(left, texts[0])
            for b in self.number.bound(right, texts[1])
        ]
        near = f"({' AND '.join(rounded)})"
        return f"(CASE {' '.join(exactly)} ELSE {near} END)" if exactly else near

    def _is_same_number(self, left: str, right: str, kind: str, path: Path) -> str | None:
        """Return SQL that is true where two numbers inside lists, structs and maps are equal; None for other types."""
        integers = frozenset({()}) if path in self.integers else frozenset[Path]()
        if path in self.part_numbers:
            near = replace(self, nested=None, is_whole=False, integers=integers, number=self.part_numbers[path])
            return f"({left} IS NOT DISTINCT FROM {right} OR {near.is_near(left, right)})"
        if not is_number(kind) or (self.keeps_whole and kind_of(kind) != "float"):
            return None
        near = replace(self, nested=None, is_whole=kind_of(kind) == "whole", integers=integers)
        return f"({left} IS NOT DISTINCT FROM {right} OR {near.is_near_number(left, right)})"

    def is_near_number(self, left: str, right: str) -> str:
        """Return SQL that is true where two numbers are within the tolerance; false if either is not a number."""
        if self.is_whole:
            left, right = f"{left}::HUGEINT", f"{right}::HUGEINT"
        tolerance = f"greatest({self.absolute!r}, {self.relative!r} * greatest(abs({left}), abs({right})))"
        # Numbers whose difference overflows their type are not near.
        near = f"isfinite({left}) AND isfinite({right}) AND TRY(abs({left} - {right}) <= {tolerance})"
        if self.keeps_whole:
            are_whole = (_is_whole(side, any_size=() in self.integers) for side in (left, right))
            near += f" AND NOT ({' AND '.join(are_whole)})"
        return f"coalesce({near}, false)"

    def total(self, amount: str) -> str:
        """Return SQL for the sum of amounts of the column over rows; doubles are added in a fixed order."""
        return f"sum({amount} ORDER BY {amount})" if self.is_double else f"sum({amount})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Key and compared columns of both sides."""

    keys: tuple[str, ...]
    values: tuple[Value, ...]
    group: str | None  # column by which digests are grouped; None: hash buckets
    wide: frozenset[str]  # columns of 128 bits or nested ones, see `wide_columns`
    narrow: Mapping[str, str] = field(default_factory=dict)  # for wide columns: the 64-bit type that fits most values
    component: str | None = None  # column that identifies rows compared together; None: rows of one key
    buckets: int | None = None  # of keys in each group, a power of two; None: 1, without a group `KEY_BUCKETS`

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the keys first, then further columns, then the compared values."""
        return (*self.keys, *self.further, *(value.name for value in self.values))

    @property
    def further(self) -> tuple[str, ...]:
        """Return the column of the component, if it is not the key's first column."""
        return (self.component,) if self.component else ()

    @property
    def place(self) -> tuple[str, ...]:
        """Return the columns that identify rows compared together: component or first key column, and other keys."""
        return (self.component or self.keys[0], *self.keys[1:])

    @property
    def group_sql(self) -> str:
        """Return SQL for the group of a row: its window, or otherwise a bucket of its key."""
        return identifier(self.group) if self.group else self._bucket(self.buckets or KEY_BUCKETS)

    @property
    def bucket_sql(self) -> str:
        """Return SQL for the bucket of a row inside its group; 0 if a group has one bucket."""
        return "0::BIGINT" if self.group is None or not self.buckets else f"{self._bucket(self.buckets)}::BIGINT"

    def _bucket(self, count: int) -> str:
        return f"(hash({', '.join(map(identifier, self.keys))}) & {count - 1})"

    @property
    def hash_sql(self) -> str:
        """Return SQL for a 64-bit hash of all columns of a row, in the order of `columns`.

        Hashed twice: DuckDB combines columns by xor at the last step, so the xor over rows would miss swapped values.
        """
        columns = (part for name in self.columns for part in self._parts(name))
        return f"hash(hash({', '.join(columns)}))"

    def _parts(self, name: str) -> tuple[str, ...]:
        """Return the hashed parts of a column; a number of 128 bits is hashed as text only if 64 bits do not fit it."""
        column = identifier(name)
        if name in self.narrow:
            fit = f"TRY_CAST({column} AS {self.narrow[name]})"
            return fit, f"CASE WHEN {fit} IS NULL THEN {column}::VARCHAR END"
        return (f"{column}::VARCHAR" if name in self.wide else column,)

    def same_key(self, left: str, right: str) -> str:
        """Return the null-safe join condition of two aliases."""
        return _is_same_sql(self.keys, left, right)

    def same_place(self, left: str, right: str) -> str:
        """Return the null-safe condition that rows of two aliases are compared together."""
        return _is_same_sql(self.place, left, right)


def _is_whole(value: str, *, any_size: bool) -> str:
    size_condition = "" if any_size else f"abs({value}) < {_FIRST_INEXACT} AND "
    return f"({size_condition}trunc({value}) = {value})"


def _is_same_sql(columns: Sequence[str], left: str, right: str) -> str:
    return " AND ".join(f"{left}.{identifier(c)} IS NOT DISTINCT FROM {right}.{identifier(c)}" for c in columns)


def wide_columns(types: Mapping[str, str]) -> frozenset[str]:
    """Return the columns that must be hashed as text.

    For 128 bits DuckDB xors the hashes of both halves: -1 and 0 have the same hash, and so has every number with equal
    halves. Sums have this type. Nested values are hashed as text for a similar reason: 5 months and 3 days have the
    same hash as 3 months and 5 days.
    """
    return frozenset(name for name, kind in types.items() if any(word in kind for word in _WIDE) and not _is_long(kind))


def narrow_types(types: Mapping[str, str]) -> dict[str, str]:
    """Return the 64-bit type that fits most values of each column of 128 bits."""
    matches = {name: _DECIMAL.fullmatch(kind) for name, kind in types.items()}
    decimals = {
        name: f"DECIMAL({_LONG},{match[2]})"
        for name, match in matches.items()
        if match is not None and int(match[1]) > _LONG >= int(match[2])
    }
    return decimals | {name: "BIGINT" for name, kind in types.items() if kind == "HUGEINT"}


def _is_long(kind: str) -> bool:
    match = _DECIMAL.fullmatch(kind)
    return match is not None and int(match[1]) <= _LONG


def make_default_comparison(name: str, duckdb_type: str) -> Value:
    """Return the default comparison of a column: exact, with a relative tolerance for doubles."""
    if duckdb_type in {"DOUBLE", "FLOAT"}:
        return Value(name=name, exact=False, relative=FLOAT_RELATIVE, is_double=True)
    return Value(name=name)


def agreement_of(pipeline: Pipeline, value: Value, *, same_definition: bool) -> Value:
    """Return the comparison of a column of results: exact with the same definition, unless its measure has a tolerance.

    Args:
        pipeline: The definition with the measures.
        value: The column, with the default comparison of its type.
        same_definition: Both sides have the same definition, and their states are compared as well.
    """
    if value.name not in pipeline.measures:
        return replace(value, exact=True) if same_definition else value
    kind = compile_pipeline(pipeline).measured_type(value.name)
    relative = pipeline.measures[value.name].tolerance(kind, same_definition=same_definition)
    if relative is None:
        return replace(value, exact=True) if same_definition else value
    return replace(value, exact=False, relative=relative)


def additive(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the measures whose values over windows add up."""
    return tuple(name for name, measure in pipeline.measures.items() if isinstance(measure, Count | Sum))


def make_pipeline_layout(types: Mapping[str, str], pipeline: Pipeline, *, same_definition: bool) -> Layout:
    """Return the compared columns: measures, and with the same definition their states and the number of records.

    Args:
        types: Columns of the stream's side with their types.
        pipeline: The definition.
        same_definition: Both sides follow it; a team's SQL may be the other one.
    """
    keys = ("window_start", *pipeline.key)
    sessions = pipeline.window.merges
    excluded = {*keys, COMPONENT, *pipeline.measures, *(() if sessions else ("window_end",))}
    states = [name for name in types if name not in excluded] if same_definition else []
    summed = {*additive(pipeline), "_n"}

    def make_value(name: str) -> Value:
        return agreement_of(pipeline, make_default_comparison(name, types[name]), same_definition=same_definition)

    values = tuple(replace(make_value(name), additive=name in summed) for name in (*pipeline.measures, *states))
    if not sessions:
        values += (replace(make_value("window_end"), is_implied=True),)
    component = COMPONENT if sessions else None
    return Layout(
        keys=keys,
        values=values,
        group=component or "window_start",
        wide=wide_columns(types),
        narrow=narrow_types(types),
        component=component,
    )


def to_plain(value: Any) -> Any:
    """Convert a value to plain Python: times without a zone, in UTC, also inside lists and structs."""
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def same(expected: Any, actual: Any) -> bool:
    """Return whether two values of a measure are equal; two NaN are."""
    if isinstance(expected, ApproximateFloat) and math.isinf(expected.max_error):
        return actual is not None  # if doubles overflow, no order of records is better than another
    if isinstance(expected, float) and isinstance(actual, float):
        if math.isnan(expected) and math.isnan(actual):
            return True
        bound = expected.max_error if isinstance(expected, ApproximateFloat) else 0.0
        return math.isclose(expected, actual, rel_tol=FLOAT_RELATIVE, abs_tol=bound)
    return bool(expected == actual)
