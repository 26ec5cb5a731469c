"""Inference of a column's type: the narrowest type for which the parser accepts all values."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutover.definition.checks.measures import SUMMABLE_DIGITS
from cutover.definition.model.time_patterns import compile_pattern
from cutover.definition.model.times import EPOCH_FORMATS, YEARS_2000_TO_2100, list_patterns, name_time_form
from cutover.errors import DefinitionError
from cutover.records.record_files import convert_cell, format_json_value
from cutover.records.reference.from_json import UnreadableError, read_field
from cutover.records.reference.parse import parse_value
from cutover.records.reference.values import InvalidValueError, JsonNumber, JsonObject

WHOLE_TEXT = "whole text"
"""Integers of CSV with more than 38 digits: strings, unless a value with a fraction shows that they are numbers."""

WIDE_WHOLE = "decimal(38,0)"
"""Integers of up to 38 digits that are too large for a bigint."""

TYPES_TRIED = ("boolean", "bigint", WIDE_WHOLE, WHOLE_TEXT, "double", "date", "timestamp", "string")
"""Types in the order in which they are tried for the first value of a column."""

WIDER_CELLS: Mapping[str, tuple[str, ...]] = {
    "boolean": ("string",),
    "bigint": (WIDE_WHOLE, WHOLE_TEXT, "double", "string"),
    WIDE_WHOLE: (WHOLE_TEXT, "double", "string"),
    WHOLE_TEXT: ("double", "string"),
    "double": ("string",),
    "date": ("timestamp", "string"),
    "timestamp": ("string",),
    "string": (),
}
"""Type -> wider types that accept every CSV cell which the type accepts, narrowest first."""

WIDER_JSON: Mapping[str, tuple[str, ...]] = {
    "boolean": (),
    "bigint": (WIDE_WHOLE, "double"),
    WIDE_WHOLE: ("double",),
    "double": (),
    "date": ("timestamp", "string"),
    "timestamp": ("string",),
    "string": (),
}
"""Like `WIDER_CELLS` for JSON, where a number is not a string."""

TIME_WORDS = ("time", "date", "ts", "_at")

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_PLAIN_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:[.][0-9]+)?")
_DATED = re.compile(r" *[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_SPELLED = {"true", "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Value of a column."""

    line: int
    value: Any  # a cell, or a JSON value


@dataclass(slots=True)
class ColumnValues:
    """Type of one column as inferred so far; `add` is called with each value that is not null."""

    name: str
    is_cell: bool  # True: values are cells of CSV; False: JSON values
    type: str | None = None  # None: no value yet
    value_count: int = 0  # values that are not null
    low: int = 0  # minimum, for a bigint
    high: int = 0  # maximum, for a bigint
    is_nested: bool = False
    example: Example | None = None  # first value
    conflict: Example | None = None  # first value for which no type accepts all values so far
    first_non_time: Example | None = None  # first value that is not a time, if earlier values were times
    _fits: Callable[[Any], Any] = field(default=lambda _: None)
    _patterns: tuple[str, ...] = ()  # patterns of times that all values have
    _job_types: frozenset[str] = frozenset()  # types that only `from_json` reads from all values
    _digits: tuple[int, int] = (1, 0)  # maximum digits before and after the point, of a decimal as text

    def add(self, line: int, value: Any) -> None:
        """Add one value, and widen the type if needed."""
        candidates = self._patterns if self.value_count else _list_candidates(value)
        self._patterns = tuple(pattern for pattern in candidates if _has_pattern(value, pattern))
        job_types = self._job_types if self.value_count else frozenset({"decimal", "timestamp"})
        self._job_types = frozenset(kind for kind in job_types if _reads_in_job(value, kind))
        if not self.is_cell and "decimal" in self._job_types:
            whole, _, fraction = getattr(value, "text", value).lstrip("-").partition(".")
            self._digits = (max(self._digits[0], len(whole)), max(self._digits[1], len(fraction)))
        self.value_count += 1
        if self.conflict is not None or self.is_nested or (self.is_cell and self.type == "string"):
            return
        if self.type is None:
            self.example = Example(line=line, value=value)
            self._widen(line, value, TYPES_TRIED)
        else:
            try:
                read = self._fits(value)
            except InvalidValueError:
                self._widen(line, value, (WIDER_CELLS if self.is_cell else WIDER_JSON)[self.type])
            else:
                if self.type == "bigint":
                    self.low, self.high = min(self.low, read), max(self.high, read)

    def _widen(self, line: int, value: Any, types: tuple[str, ...]) -> None:
        if isinstance(value, JsonObject | list):
            self.is_nested = True
            return
        if self.type in {"date", "timestamp"}:
            self.first_non_time = Example(line=line, value=value)
        for kind in types:
            fits = _CELL_READERS.get(kind) if self.is_cell else _JSON_READERS.get(kind)
            if fits is None:
                continue
            try:
                read = fits(value)
            except InvalidValueError:
                continue
            if kind == "bigint":
                self.low = self.high = read
            self.type, self._fits = kind, fits
            return
        self.conflict = Example(line=line, value=value)

    @property
    def proposed_type(self) -> tuple[str, str]:
        """Propose a type for the schema, and for a timestamp its format."""
        if self.type == "timestamp":
            return "timestamp", "iso"
        if self.type == "string" and len(self._patterns) == 1:
            return "timestamp", self._patterns[0]
        if self.job_type is not None:
            return self.job_type, "iso" if self.job_type == "timestamp" else ""
        if self.type == "bigint" and self._is_time_name():
            for form, per_second in EPOCH_FORMATS.items():
                if YEARS_2000_TO_2100[0] * per_second <= self.low <= self.high < YEARS_2000_TO_2100[1] * per_second:
                    return "timestamp", form
        return ("string" if self.type in {None, WHOLE_TEXT} else str(self.type)), ""

    @property
    def job_type(self) -> str | None:
        """Return the type of values that only `from_json` reads as one; None if there is none, or the strict form does.

        These are times in further forms of ISO 8601, and in JSON numbers with a fraction as text.
        """
        if self.type == "string" and self._job_types == {"timestamp"} and len(self._patterns) != 1:
            return "timestamp"
        whole, fraction = self._digits
        is_text = self.type == "string" or self.conflict is not None
        if self.is_cell or not is_text or "decimal" not in self._job_types or not fraction:
            return None
        if whole + fraction > SUMMABLE_DIGITS:
            return None
        return f"decimal({min(SUMMABLE_DIGITS, max(whole + fraction, 18, 10 + fraction))},{fraction})"

    @property
    def time_form(self) -> str | None:
        """Describe the time format of the values if timestamps do not support it; None if they are not times."""
        if self.first_non_time is not None and self.example is not None and self.type == "string":
            return f"times except for line {self.first_non_time.line}, {format_json_value(self.first_non_time.value)}"
        if self.example is None or self.proposed_type[0] == "timestamp":
            return None
        value = self.example.value
        if not isinstance(value, str | JsonNumber) or (self.type != "string" and not self._is_time_name()):
            return None
        is_number = isinstance(value, JsonNumber) or (self.is_cell and self.type != "string")
        return name_time_form(value.text if isinstance(value, JsonNumber) else value, is_number=is_number)

    def _is_time_name(self) -> bool:
        name = self.name.lower()
        return name == "at" or any(word in name for word in (*TIME_WORDS, *LOG_WORDS))


LOG_WORDS = ("arriv", "receiv", "ingest", "log", "process", "publish", "produced", "sent", "load")
"""Parts of names of columns with the time at which a record reached the log."""


def _list_candidates(value: Any) -> tuple[str, ...]:
    """List the supported patterns of times that a text may have, with any number of digits after the second."""
    patterns = list_patterns(value) if isinstance(value, str) else ()
    return tuple(pattern.replace(".SSS", ".SSSSSSSSS") for pattern in patterns if _is_supported(pattern))


def _is_supported(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except DefinitionError:
        return False
    return True


def _has_pattern(value: Any, pattern: str) -> bool:
    try:
        parse_value(value, "timestamp", pattern)
    except InvalidValueError:
        return False
    return True


def _reads_in_job(value: Any, kind: str) -> bool:
    """Return whether `from_json` reads a time with a date from a text, or a decimal in plain digits."""
    if kind == "decimal":
        text = value.text if isinstance(value, JsonNumber) else value
        return isinstance(text, str) and _PLAIN_DECIMAL.fullmatch(text) is not None
    if not isinstance(value, str) or not _DATED.match(value):
        return False
    try:
        read_field(value, "timestamp", "iso")
    except (InvalidValueError, UnreadableError):
        return False
    return True


def _read_whole_text(cell: str) -> str:
    if not _WHOLE.fullmatch(cell):
        raise InvalidValueError
    parse_value(convert_cell(cell, "double", "iso"), "double", "iso")  # so that a fraction may follow
    return cell


def _read_wide_whole(cell: str) -> Any:
    """Parse an integer exactly; a value with a fraction, such as `1.0`, makes a CSV column a double."""
    if not _WHOLE.fullmatch(cell):
        raise InvalidValueError
    return parse_value(convert_cell(cell, WIDE_WHOLE, "iso"), WIDE_WHOLE, "iso")


def _read_spelled_boolean(cell: str) -> bool:
    if cell.lower() not in _SPELLED:
        raise InvalidValueError
    return cell.lower() == "true"


def _make_cell_reader(kind: str) -> Callable[[Any], Any]:
    return lambda cell: parse_value(convert_cell(cell, kind, "iso"), kind, "iso")


def _make_json_reader(kind: str) -> Callable[[Any], Any]:
    return lambda value: parse_value(value, kind, "iso")


_CELL_READERS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": _read_spelled_boolean,
    WHOLE_TEXT: _read_whole_text,
    WIDE_WHOLE: _read_wide_whole,
    "string": lambda cell: cell,
    **{kind: _make_cell_reader(kind) for kind in ("bigint", "double", "date", "timestamp")},
}
_JSON_READERS: Mapping[str, Callable[[Any], Any]] = {
    kind: _make_json_reader(kind) for kind in TYPES_TRIED if kind != WHOLE_TEXT
}
