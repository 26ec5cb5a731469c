"""Lines of CSV as Spark's `from_csv` reads them, and whole values as one text, in plain Python.

`split_line` follows the parser that Spark uses (univocity), including what it makes of quotes in odd places: a quote
within a text in quotes ends it only in front of a delimiter, else the text is taken up to the next delimiter as it is.
"""

import re
from functools import cache
from typing import Any

from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import CsvOptions, Field, Topic, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.parsing import limits
from cutover.records.parsing.job_values import pattern_of_line
from cutover.records.parsing.parsed_record import RANGES, REASONS, InvalidField, InvalidValueError, ParsedRecord
from cutover.records.reference.from_json import cast_time_text, hold_value
from cutover.records.reference.job_reader import UnreadableError, convert_scalar
from cutover.records.reference.scalars import parse_cast_date

_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")  # Java has no digits there
_WHOLE = re.compile(r"[+-]?\d+")
_MAX_WHOLE_DIGITS = 19
_JAVA_BLANK = "".join(map(chr, range(33)))
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NO_NUMBERS = frozenset({"NaN", "Inf", "-Inf"})  # options `nanValue`, `positiveInf` and `negativeInf`
_JAVA_NO_NUMBER = re.compile("[+-]?(?:NaN|Infinity)")
_BOOLEANS = {"true": True, "false": False}


def parse_csv_value(value: bytes, topic: Topic) -> ParsedRecord:
    """Parse a value of at most `max_value_bytes` of a topic in CSV."""
    options = topic.csv or CsvOptions()
    text = value.decode("utf-8", "replace")
    if _is_rejected(text, options):
        return ParsedRecord(reason=Reason.TYPE)
    fields = list_fields(topic)
    cells = [None if cell == options.null_value else cell for cell in split_line(text, options)]
    cells += [None] * (len(fields) - len(cells))
    values: dict[str, Any] = {}
    invalid_fields = []
    for field, cell in zip(fields, cells, strict=False):
        values[field.name], reason = _hold_cell(cell, field, topic)
        if reason is not None:
            kind, time_format = field.type, field.time_format
            member = cell if reason is Reason.TYPE else None
            invalid_fields.append(
                InvalidField(name=field.name, type=kind, time_format=time_format, reason=reason, value=member)
            )
    return ParsedRecord(
        reason=min((invalid.reason for invalid in invalid_fields), key=REASONS.index, default=None),
        values=values,
        unknown=int(len(cells) > len(fields) and cells[len(fields)] is not None),
        invalid_fields=tuple(invalid_fields),
    )


def parse_text_value(value: bytes, log_time_micros: int | None, topic: Topic) -> ParsedRecord:
    """Parse a value of at most `max_value_bytes` of a topic of texts, whose event time is the log timestamp."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return ParsedRecord(reason=Reason.UTF8)
    values = {field.name: text if field.type == "string" else log_time_micros for field in list_fields(topic)}
    is_dated = log_time_micros is not None and limits.MIN_MICROS <= log_time_micros <= limits.MAX_MICROS
    return ParsedRecord(reason=None if is_dated else Reason.EVENT_TIME, values=values)


def _is_rejected(text: str, options: CsvOptions) -> bool:
    """Return whether a job ends at a line, reads it as a comment, or may read another record as a part of it."""
    has_many_fields = text.count(options.delimiter) >= limits.MAX_CSV_FIELDS
    escapes = text.count(options.quote + options.escape) if options.quote else 0
    has_lines = "\n" in text and (len(text) > limits.MAX_BROKEN_LINE or not _compile_line(options).search(text))
    return "\0" in text or has_lines or has_many_fields or escapes > limits.MAX_CSV_ESCAPES


@cache
def _compile_line(options: CsvOptions) -> re.Pattern[str]:
    return re.compile(pattern_of_line(options).replace(r"\z", r"\Z"))


def _hold_cell(cell: str | None, field: Field, topic: Topic) -> tuple[Any, Reason | None]:
    """Return the value of a column, and the reason if it is invalid."""
    is_event_time = field.name == topic.event_time
    value = None
    if cell is not None:
        try:
            value = _convert_cell(cell, field)
        except InvalidValueError:
            return None, Reason.EVENT_TIME if is_event_time else Reason.TYPE
        except UnreadableError:
            value = None
    if value is None and not field.nullable:
        return None, Reason.MISSING
    return value, Reason.EVENT_TIME if value is None and is_event_time else None


def _convert_cell(cell: str, field: Field) -> Any:
    """Convert a cell to the type of its column.

    Raises:
        InvalidValueError: `from_csv` reads it, but no table of ours holds it.
        UnreadableError: `from_csv` does not read it.
    """
    if field.type == "string":
        return cell
    return hold_value(_read_cell(cell, field), field)


def _read_cell(cell: str, field: Field) -> Any:
    if field.type == "timestamp" and field.time_format not in EPOCH_FORMATS:
        return cast_time_text(cell, field.time_format)
    if parse_decimal_type(field.type) is not None:
        return convert_scalar(cell, field.type)
    if field.type in {"int", "bigint", "timestamp"}:
        return _read_whole(cell, "int" if field.type == "int" else "bigint")
    return {"boolean": _read_boolean, "double": _read_double, "date": _read_date}[field.type](cell)


def _read_boolean(cell: str) -> bool:
    for text, value in _BOOLEANS.items():
        if len(cell) == len(text) and all(
            letter in {wanted, wanted.upper()} or letter.upper() == wanted.upper()
            for letter, wanted in zip(cell, text, strict=True)
        ):
            return value
    raise UnreadableError


def _read_whole(cell: str, kind: str) -> int:
    if not _WHOLE.fullmatch(cell) or _BEYOND_BMP.search(cell):
        raise UnreadableError
    digits = "".join(str(int(digit)) for digit in cell.lstrip("+-")).lstrip("0") or "0"
    if len(digits) > _MAX_WHOLE_DIGITS:
        raise UnreadableError
    number = -int(digits) if cell[0] == "-" else int(digits)
    if not -RANGES[kind] <= number < RANGES[kind]:
        raise UnreadableError
    return number


def _read_double(cell: str) -> float:
    if cell in _NO_NUMBERS:
        return float("nan")
    text = cell.strip(_JAVA_BLANK)
    if _JAVA_NO_NUMBER.fullmatch(text):
        return float("nan")
    if _DOUBLE.fullmatch(text):
        return float(text.rstrip("fFdD"))
    match = _HEX_DOUBLE.fullmatch(text)
    if match is None:
        raise UnreadableError
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return float("inf")


def _read_date(cell: str) -> int:
    days = parse_cast_date(cell)
    if days is None:
        raise UnreadableError
    return days


class _EndOfTextError(Exception):
    """End of the line while a cell is read."""


def split_line(text: str, options: CsvOptions) -> list[str | None]:
    """List the cells of the first line that is not empty; one without any text, not even quotes, is None."""
    return _LineSplitter(text, options).read_cells()


class _LineSplitter:
    """Reader of one line, character by character."""

    def __init__(self, text: str, options: CsvOptions) -> None:
        self._text = text
        self._delimiter, self._quote, self._escape = options.delimiter, options.quote or "\0", options.escape
        self._second_escape = "\0" if self._quote == self._escape else self._escape  # in front of an escape
        self._place = 0
        self._current = self._previous = "\0"
        self._is_verbatim = False  # after a quote in an odd place
        self._cell: list[str] = []
        self._cells: list[str | None] = []

    def read_cells(self) -> list[str | None]:
        """Read the line to its end."""
        self._place = len(self._text) - len(self._text.lstrip("\n"))
        if self._place == len(self._text):
            return []
        try:
            self._advance()
            while self._current != "\n":
                self._read_cell()
                if self._current != "\n":
                    self._advance()
                    if self._current == "\n":
                        self._cells.append(None)
        except _EndOfTextError:
            self._end_cell()
        return self._cells

    def _advance(self) -> None:
        if self._place == len(self._text):
            raise _EndOfTextError
        self._current = self._text[self._place]
        self._place += 1

    def _is_end(self) -> bool:
        return self._current in {self._delimiter, "\n"}

    def _is_blank(self) -> bool:
        return self._current <= " "

    def _read_cell(self) -> None:
        if self._current == self._delimiter:
            self._cells.append(None)
            return
        self._is_verbatim, self._previous = False, "\0"
        if self._current == self._quote:
            self._read_quoted()
        else:
            self._copy_until({self._delimiter, "\n"})
        self._cells.append("".join(self._cell))
        self._cell = []

    def _end_cell(self) -> None:
        """Append what was read when the text ended."""
        is_read = False
        if self._current == self._quote:
            if self._previous == self._quote:
                is_read = True
            elif not self._is_verbatim:
                self._cell.append(self._quote)
        is_read = is_read or (self._previous != "\0" and not self._is_end())
        self._cells.append("".join(self._cell) if is_read or self._cell else None)

    def _copy_until(self, stops: set[str]) -> None:
        """Append characters to the cell; at the end of the text, the current one remains the first of them."""
        character, first = self._current, self._current
        while character not in stops:
            self._cell.append(character)
            try:
                self._advance()
            except _EndOfTextError:
                self._current = first
                raise
            character = self._current

    def _read_quoted(self) -> None:
        self._advance()
        while not (self._previous == self._quote and (self._is_blank() or self._is_end())):
            if self._current not in {self._quote, self._escape}:
                if self._previous == self._quote:
                    self._is_verbatim = True
                    self._cell += (self._quote, self._current)
                    self._read_verbatim()
                    return
                if self._previous == self._escape:
                    self._cell.append(self._escape)
                self._copy_until({self._quote, self._escape, self._second_escape})
            else:
                self._read_mark()
            self._previous = self._current
            self._advance()
        if not self._is_end():
            self._read_blanks()

    def _read_verbatim(self) -> None:
        """Read on to the next delimiter, with the quote that the cell began with."""
        self._previous = self._current
        self._cell.insert(0, self._quote)
        self._advance()
        self._copy_until({self._delimiter, "\n"})

    def _read_blanks(self) -> None:
        """Ignore blanks behind the closing quote, unless more follows."""
        blanks = []
        while self._is_blank() and not self._is_end():
            blanks.append(self._current)
            self._advance()
            if self._current == "\n":
                return
        if self._current != self._delimiter:
            self._cell += (self._quote, *blanks, self._current)
            self._read_verbatim()

    def _read_mark(self) -> None:
        """Read a quote or an escape within quotes."""
        is_escaped = self._previous == self._second_escape and self._second_escape != "\0"
        if self._current == self._escape and is_escaped:
            self._cell.append(self._escape)
            self._current = "\0"
        elif self._previous == self._escape:
            if self._current == self._quote:
                self._cell.append(self._quote)
                self._current = "\0"
            else:
                self._cell.append(self._previous)
        elif self._current == self._quote == self._previous:
            self._cell.append(self._quote)
        elif self._previous == self._quote:
            self._cell.append(self._quote)
            self._previous = self._current
            self._read_unquoted()

    def _read_unquoted(self) -> None:
        """Read on to a delimiter with escapes, after an escape behind a quote."""
        while not self._is_end():
            if self._current in {self._quote, self._escape}:
                self._read_mark()
            else:
                if self._previous == self._quote:
                    self._cell.append(self._quote)
                self._cell.append(self._current)
            self._previous = self._current
            self._advance()
