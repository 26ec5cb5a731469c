"""Inference of a column's type: the narrowest type for which the parser accepts all values."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from cutover.definition.checks.measures import SUMMABLE_DIGITS
from cutover.definition.model.times import EPOCH_FORMATS, YEARS_2000_TO_2100, name_time_form
from cutover.definition.model.topic import MAX_PRECISION
from cutover.records.csv_files import DecimalMark, NumberMarks, convert_cell, is_null_text
from cutover.records.parsing.parsed_record import InvalidValueError, JsonNumber, JsonObject
from cutover.records.proposal.names import is_identifier_name, is_reference_name, is_time_name
from cutover.records.proposal.time_formats import DateOrder, TimePatterns, name_unsupported_time
from cutover.records.record_files import format_json_value
from cutover.records.reference.from_json import read_field
from cutover.records.reference.job_reader import UnreadableError
from cutover.records.reference.scalars import parse_value

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

MAX_DISTINCT = 20_000
"""Distinct values of a column up to which they are counted."""

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_SHORT_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DOUBLE_DIGITS = 17
"""Digits with which every double is written; a number with more is rounded."""

_SHORT_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?")
USUAL_FORMS = {"bigint": _SHORT_WHOLE, "double": _SHORT_NUMBER}
"""Type -> form of cells that are certainly valid; other cells may be valid, too."""

USUAL_TIME = re.compile(
    r"[1-7][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])?)?"
)
_PLAIN_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:[.][0-9]+)?")
_DATED = re.compile(r" *[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_COMPACT_DATE = re.compile(r"(?:19|20)[0-9]{6}(?:[0-9]{4}(?:[0-9]{2})?)?")
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
    stated_format: str | None = None  # pattern of times that the user states
    type: str | None = None  # None: no value yet
    value_count: int = 0  # values that are not null
    null_texts: int = 0  # cells such as `NA`, which are null unless the column is text
    low: int = 0  # minimum, for a bigint
    high: int = 0  # maximum, for a bigint
    is_nested: bool = False
    example: Example | None = None  # first value
    null_example: Example | None = None  # first null text
    conflict: Example | None = None  # first value for which no type accepts all values so far
    first_non_time: Example | None = None  # first value that is not a time, if earlier values were times
    marks: NumberMarks = field(default_factory=NumberMarks)
    first_comma: Example | None = None  # first number with a comma
    mark: DecimalMark | None = None  # decimal mark of cells that are not numbers of JSON, which the whole file shows
    first_long: Example | None = None  # first number with more digits than a double holds
    distinct: set[str] = field(default_factory=set)  # at most MAX_DISTINCT
    step: int | None = None  # difference between successive integers: 1 or -1; 0: they differ; None: one value
    zero_led: bool = False  # some text of digits has a leading zero
    patterns: TimePatterns = field(default_factory=TimePatterns)
    _last: int | None = None
    _fits: Callable[[Any], Any] = field(default=lambda _: None)
    _job_types: frozenset[str] = frozenset({"decimal", "timestamp"})  # types that only `from_json` reads from all
    _digits: tuple[int, int] = (1, 0)  # maximum digits before and after the point, of a decimal as text

    def add(self, line: int, value: Any) -> None:
        """Add one value, and widen the type if needed."""
        if self.is_cell and is_null_text(value):
            self.null_texts += 1
            self.null_example = self.null_example or Example(line=line, value=value)
            return
        self.value_count += 1
        if len(self.distinct) < MAX_DISTINCT:
            self.distinct.add(value.text if isinstance(value, JsonNumber) else str(value))
        self._follow_steps(value)
        self._infer(line, value)

    def add_cells(self, lines: Sequence[int], cells: Sequence[str]) -> None:
        """Add the cells of successive records; each value is examined once."""
        first_lines = dict(zip(reversed(cells), reversed(lines), strict=True))
        nulls = {cell for cell in first_lines if not cell or (not cell[0].isdigit() and is_null_text(cell))}
        null_count = sum(map(cells.count, nulls))
        self.value_count += len(cells) - null_count
        self.null_texts += null_count - cells.count("")
        null_text = min(nulls - {""}, key=first_lines.__getitem__, default=None)
        if self.null_example is None and null_text is not None:
            self.null_example = Example(line=first_lines[null_text], value=null_text)
        if self.step != 0:
            for cell in cells:
                self._follow_steps(cell)
        new_values = first_lines.keys() - self.distinct if len(self.distinct) < MAX_DISTINCT else first_lines
        for cell in dict.fromkeys(cells):
            if cell in new_values and cell not in nulls:
                self._infer(first_lines[cell], cell)
        if len(self.distinct) < MAX_DISTINCT:
            self.distinct.update(first_lines.keys() - nulls)

    def _follow_steps(self, value: Any) -> None:
        """Follow whether the values count up or down by one, as numbers of rows do."""
        if self.step == 0:
            return
        text = value.text if isinstance(value, JsonNumber) else value
        if not isinstance(text, str) or not _SHORT_WHOLE.fullmatch(text):
            self.step = 0
            return
        number = int(text)
        step = None if self._last is None else number - self._last
        self._last = number
        if step is not None:
            self.step = step if step in {1, -1} and self.step in {None, step} else 0

    def _infer(self, line: int, value: Any) -> None:
        is_first = self.example is None
        if not is_first and self._is_usual(value):
            return
        self._follow_number(line, value)
        if is_first:
            self.example = Example(line=line, value=value)
            self._widen(line, value, TYPES_TRIED)
            self._start_patterns(value)
        elif not (self.conflict or self.is_nested or (self.is_cell and self.type == "string")):
            self._fit(line, value)
        if not is_first and self.patterns.chains:
            self.patterns.add(value)
        self._follow_job_types(value)

    def _fit(self, line: int, value: Any) -> None:
        try:
            read = self._fits(value)
        except InvalidValueError:
            self._widen(line, value, (WIDER_CELLS if self.is_cell else WIDER_JSON)[str(self.type)])
        else:
            if self.type == "bigint":
                self.low, self.high = min(self.low, read), max(self.high, read)

    def _is_usual(self, value: Any) -> bool:
        """Return whether a value certainly has the type so far, by its form alone."""
        if not self.is_cell:
            return self._is_usual_json(value)
        if self.type == "bigint" and not self.patterns.chains and _SHORT_WHOLE.fullmatch(value):
            number = int(value)
            self.low, self.high = min(self.low, number), max(self.high, number)
            return True
        if self.type == "double" and len(self.marks.possible) == 1:
            return len(value) <= _DOUBLE_DIGITS and _SHORT_NUMBER.fullmatch(value) is not None
        return self.type == "timestamp" and USUAL_TIME.fullmatch(value) is not None

    def _is_usual_json(self, value: Any) -> bool:
        if self.conflict is not None:
            return False
        if isinstance(value, JsonNumber):
            if self.type == "bigint" and _SHORT_WHOLE.fullmatch(value.text):
                number = int(value.text)
                self.low, self.high = min(self.low, number), max(self.high, number)
                return len(value.text) <= self._digits[0]
            is_short = len(value.text) <= _DOUBLE_DIGITS and _SHORT_NUMBER.fullmatch(value.text) is not None
            return self.type == "double" and "decimal" not in self._job_types and is_short
        if not isinstance(value, str):
            return False
        if self.type == "string":
            return not (self._job_types or self.patterns.chains) and value.isascii()
        return self.type == "timestamp" and USUAL_TIME.fullmatch(value) is not None

    def _start_patterns(self, value: Any) -> None:
        """Follow the patterns of a text, or of digits such as 20240501 in a cell."""
        is_date_cell = self.is_cell and self.type == "bigint" and is_time_name(self.name)
        self.patterns.stated = self.stated_format
        if self.type == "string" or (is_date_cell and _COMPACT_DATE.fullmatch(value)):
            self.patterns.add(value)
        else:
            self.patterns.chains = []

    def _follow_number(self, line: int, value: Any) -> None:
        if self.is_cell and self.marks.are_numbers:
            self.marks.add(value)
            if "," in value and self.first_comma is None:
                self.first_comma = Example(line=line, value=value)
        text = value.text if isinstance(value, JsonNumber) else value if self.is_cell else ""
        if self.first_long is None and _SHORT_NUMBER.fullmatch(text):
            digit_count = len(text.replace(".", "").lstrip("-0"))
            if _DOUBLE_DIGITS < digit_count <= MAX_PRECISION and Decimal(float(text)) != Decimal(text):
                self.first_long = Example(line=line, value=value)
        if not self.is_cell and isinstance(value, str) and value[:1] == "0" and value[1:2].isdigit():
            self.zero_led = True

    def _follow_job_types(self, value: Any) -> None:
        if not self._job_types or (self.is_cell and self.type not in {"string", "date", "timestamp"}):
            return
        self._job_types = frozenset(kind for kind in self._job_types if _reads_in_job(value, kind))
        if not self.is_cell and "decimal" in self._job_types:
            whole, _, fraction = getattr(value, "text", value).lstrip("-").partition(".")
            self._digits = (max(self._digits[0], len(whole)), max(self._digits[1], len(fraction)))

    def _widen(self, line: int, value: Any, types: tuple[str, ...]) -> None:
        if isinstance(value, JsonObject | list):
            self.is_nested = True
            return
        if self.type in {"date", "timestamp"}:
            self.first_non_time = Example(line=line, value=value)
        earlier_type = self.type
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
            if self.is_cell and kind == "string" and earlier_type not in {None, "date", "timestamp"}:
                self._job_types = frozenset()  # of earlier values, not each was examined
            return
        self.conflict = Example(line=line, value=value)

    def propose_type(self, orders: Sequence[DateOrder] = ()) -> tuple[str, str]:
        """Propose a type for the schema, and for a timestamp its format.

        Args:
            orders: Orders of day and month in the other columns of the file.
        """
        if self.type == "timestamp":
            return "timestamp", "iso"
        patterns = self.patterns.list_patterns(orders)
        if patterns and (len(patterns) == 1 or self.patterns.usual_order is not None):
            return "timestamp", patterns[0]
        if self.job_type is not None:
            return self.job_type, "iso" if self.job_type == "timestamp" else ""
        if self.type == "bigint" and is_time_name(self.name):
            for form, per_second in EPOCH_FORMATS.items():
                if YEARS_2000_TO_2100[0] * per_second <= self.low <= self.high < YEARS_2000_TO_2100[1] * per_second:
                    return "timestamp", form
        kind = "string" if self.type in {None, WHOLE_TEXT} else str(self.type)
        if self.is_cell and kind in {"string", "double"} and self.marks.are_numbers and self.marks.has_marks:
            kind = "double" if self.mark is not None else "string"
        is_identifier = self.is_cell and kind == "double" and is_identifier_name(self.name)
        return ("string" if is_identifier else kind), ""

    @property
    def job_type(self) -> str | None:
        """Return the type of values that only `from_json` reads as one; None if there is none, or the strict form does.

        These are times in further forms of ISO 8601, and in JSON numbers as text; digits that may be a code are text.
        """
        if self.type == "string" and self._job_types == {"timestamp"} and len(self.patterns.list_patterns()) != 1:
            return "timestamp"
        whole, fraction = self._digits
        is_text = self.type == "string" or self.conflict is not None
        if self.is_cell or not is_text or self.is_nested or "decimal" not in self._job_types:
            return None
        is_code = self.zero_led or is_reference_name(self.name) or is_time_name(self.name)
        if (not fraction and is_code) or whole + fraction > SUMMABLE_DIGITS:
            return None
        return f"decimal({min(SUMMABLE_DIGITS, max(whole + fraction, 18, 10 + fraction))},{fraction})"

    @property
    def time_form(self) -> str | None:
        """Describe the time format of the values if timestamps do not support it; None if they are not times."""
        if self.first_non_time is not None and self.example is not None and self.type == "string":
            return f"times except for line {self.first_non_time.line}, {format_json_value(self.first_non_time.value)}"
        if self.example is None or self.propose_type()[0] == "timestamp":
            return None
        patterns = self.patterns.list_patterns()
        if len(patterns) > 1:
            return f"`{patterns[0]}` or `{patterns[1]}`, of which no value shows which"
        value = self.example.value
        if not isinstance(value, str | JsonNumber) or (self.type != "string" and not is_time_name(self.name)):
            return None
        is_number = isinstance(value, JsonNumber) or (self.is_cell and self.type != "string")
        text = value.text if isinstance(value, JsonNumber) else value
        return name_time_form(text, is_number=is_number) or (None if is_number else name_unsupported_time(text))

    @property
    def is_row_number(self) -> bool:
        """Return whether the values are integers that count the records."""
        return self.type == "bigint" and self.step in {1, -1}


def is_time_text(text: str, stated_format: str | None) -> bool:
    """Return whether a JSON text is a date or a time in a form that can be inferred, or in a pattern of the user."""
    if USUAL_TIME.fullmatch(text) or _reads_in_job(text, "timestamp"):
        return True
    patterns = TimePatterns(stated=stated_format)
    patterns.add(text)
    return bool(patterns.chains)


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


def _read_bigint(cell: str) -> Any:
    """Parse an integer; one with grouped digits is a number of which the whole file shows the decimal mark."""
    if not _WHOLE.fullmatch(cell.strip()):
        raise InvalidValueError
    return parse_value(convert_cell(cell, "bigint", "iso"), "bigint", "iso")


def _read_spelled_boolean(cell: str) -> bool:
    if cell.strip().lower() not in _SPELLED:
        raise InvalidValueError
    return cell.strip().lower() == "true"


def _read_double(cell: str) -> float:
    """Parse a number with a decimal point; with other marks, the whole file shows what they mean."""
    value = JsonNumber(cell) if _SHORT_NUMBER.fullmatch(cell.strip()) else convert_cell(cell, "double", "iso")
    read = parse_value(value, "double", "iso")
    if "," in cell or not math.isfinite(read):
        raise InvalidValueError
    return float(read)


def _make_cell_reader(kind: str) -> Callable[[Any], Any]:
    return lambda cell: parse_value(convert_cell(cell, kind, "iso"), kind, "iso")


def _make_json_reader(kind: str) -> Callable[[Any], Any]:
    return lambda value: parse_value(value, kind, "iso")


_CELL_READERS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": _read_spelled_boolean,
    WHOLE_TEXT: _read_whole_text,
    WIDE_WHOLE: _read_wide_whole,
    "bigint": _read_bigint,
    "double": _read_double,
    "string": lambda cell: cell,
    **{kind: _make_cell_reader(kind) for kind in ("date", "timestamp")},
}
_JSON_READERS: Mapping[str, Callable[[Any], Any]] = {
    kind: _make_json_reader(kind) for kind in TYPES_TRIED if kind != WHOLE_TEXT
}
