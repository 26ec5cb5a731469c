"""Records of a CSV file: its delimiter, the names of its columns, and how they write numbers and missing values.

All of it is inferred from the file alone, so that `cutover init` and `cutover produce` read it alike. The delimiter is
inferred from the first records: records that are appended do not change it.
"""

import csv
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from cutover.counts import count_noun
from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import IDENTIFIER, RESERVED, RESERVED_PREFIX
from cutover.records.parsing import limits
from cutover.records.parsing.parsed_record import JsonNumber
from cutover.records.record_files import (
    MAX_LINE,
    JsonValue,
    format_name,
    list_suffixes,
    read_file_blocks,
    reject_line,
)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
NULL_TEXTS = frozenset({"na", "n/a", "#n/a", "nan", "null", "(null)", "none", "nil", "\\n", "-", "--", "?", "."})
"""Texts, in lower case, that stand for a missing value in a column that is not text."""

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""Number in JSON."""

BOOLEANS = {"true": True, "false": False, "t": True, "f": False}

DecimalMark = Literal[".", ","]

CHUNK = 20_000
"""Records that are read at once; of each column, equal cells among them are examined once."""

_SAMPLE = 100  # first records by which the delimiter is inferred
_EXCEL_DELIMITER = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_MAX_NAME = 63
_PLAIN_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "ł": "l", "Ł": "L", "đ": "d"})
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]{0,99})")
_WITH_MARK = {
    mark: re.compile(rf"-?(?:0|[1-9][0-9]{{0,99}}|[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+)?(?:{point}[0-9]{{1,99}})?")
    for mark, point, group in ((".", "[.]", "[, '\u00a0\u202f]"), (",", ",", "[. '\u00a0\u202f]"))
}
_GROUPING = re.compile("[ '\u00a0\u202f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How a file separates its cells."""

    delimiter: str
    skipped_lines: int = 0  # Excel's line `sep=;` before the header

    def describe(self) -> str | None:
        """Describe another delimiter than a comma; None for that one."""
        return None if self.delimiter == "," else f"cells separated by {DELIMITERS.get(self.delimiter, 'another mark')}"


def find_dialect(path: Path) -> CsvDialect:
    """Infer the delimiter from the first records: the one that splits all of them alike, into the most cells.

    Raises:
        DefinitionError: The file cannot be read, or two delimiters split it alike.
    """
    first = next(_decode_lines(path, 0), "")
    if match := _EXCEL_DELIMITER.fullmatch(first):
        return CsvDialect(delimiter=match[1], skipped_lines=1)
    if list_suffixes(path)[-1:] == [".tsv"]:
        return CsvDialect(delimiter="\t")
    widths = {delimiter: _measure_width(path, delimiter) for delimiter in DELIMITERS}
    best = max(widths.values())
    delimiters = [delimiter for delimiter, width in widths.items() if width == best]
    if best[1] > 1 and len(delimiters) > 1:
        names = " and ".join(DELIMITERS[delimiter] for delimiter in delimiters)
        reject_line(path, 1, f"one delimiter, got a header that {names} split into {best[1]:,} names each")
    return CsvDialect(delimiter=delimiters[0])


def _measure_width(path: Path, delimiter: str) -> tuple[bool, int]:
    """Return whether a delimiter splits the first records into as many cells as the header, and their number."""
    try:
        records = [cells for cells in islice(csv.reader(_decode_lines(path, 0), delimiter=delimiter), _SAMPLE) if cells]
    except csv.Error:
        return False, 0
    width = len(records[0]) if records else 0
    return width > 1 and all(len(cells) == width for cells in records), width


def read_csv(path: Path, dialect: CsvDialect | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file, header first, as (number of the first line, cells); cells are not modified.

    Args:
        path: The file.
        dialect: How it separates cells; None: inferred.

    Raises:
        DefinitionError: The file is not CSV, two columns have the same name, or a record has another number of cells
            than the header. The message contains the line number.
    """
    csv.field_size_limit(MAX_LINE)
    dialect = dialect or find_dialect(path)
    skipped = dialect.skipped_lines
    reader = csv.reader(_decode_lines(path, skipped), delimiter=dialect.delimiter, strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1 + skipped
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            hint = "`tr '\\r' '\\n' < FILE` ends lines as usual." if "new-line" in str(error) else ""
            reject_line(path, reader.line_num + skipped, f"CSV, got: {error}", hint=hint)
        if not cells:
            continue
        if header is None:
            header = cells
            _check_header(path, line, cells)
        elif len(cells) != len(header):
            _reject_width(path, line, header, cells, dialect)
        yield line, cells


def _check_header(path: Path, line: int, header: list[str]) -> None:
    repeated = {name for name in header if name and header.count(name) > 1}
    if repeated:
        hint = "rename one of them in the header: nothing else shows which of the two a field is."
        reject_line(path, line, f"unique column names, got `{format_name(min(repeated))}` twice", hint=hint)


def _reject_width(path: Path, line: int, header: Sequence[str], cells: Sequence[str], dialect: CsvDialect) -> None:
    mark = "" if dialect.delimiter == "," else f" ({dialect.describe()})"
    hint = ""
    if len(header) == 1:
        hint = f"the header is `{format_name(header[0])}`; `tail -n +{line} FILE` starts at line {line}."
    elif len(cells) == 1 and cells[0].startswith("#"):
        hint = "`grep -v '^#' FILE` leaves lines with remarks out."
    reject_line(path, line, f"{count_noun(len(header), 'cell')}{mark}, got {len(cells)}", hint=hint)


def _decode_lines(path: Path, skipped: int) -> Iterator[str]:
    """Yield the lines of a file with their terminators, without the first ones; decoded block by block."""
    number, remainder = 0, b""
    for block in chain(read_file_blocks(path), [b""]):
        text = remainder + block
        end = text.rfind(b"\n") + 1 if block else len(text)
        remainder = text[end:]
        lines = _decode_block(path, number, text[:end]).split("\n")
        last = lines.pop()  # empty if the block ends with a line
        if len(remainder) > MAX_LINE or len(text) > MAX_LINE + len(block):
            _check_lengths(path, number, [*lines, last], remainder)
        yield from [f"{line}\n" for line in lines[max(0, skipped - number) :]]
        number += len(lines)
        if last:
            yield last


def _decode_block(path: Path, number: int, text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = number + text.count(b"\n", 0, error.start) + 1
        hint = "`iconv -f LATIN1 -t UTF-8` converts a Latin-1 file."
        reject_line(path, line, "UTF-8, got other bytes", hint=hint)


def _check_lengths(path: Path, number: int, lines: Sequence[str], remainder: bytes) -> None:
    for line, text in enumerate(lines, start=number + 1):
        if len(text.encode()) >= MAX_LINE:
            reject_line(path, line, f"at most {MAX_LINE:,} bytes in a line, got more")
    if len(remainder) > MAX_LINE:
        reject_line(path, number + len(lines), f"at most {MAX_LINE:,} bytes in a line, got more")


def name_fields(header: Sequence[str]) -> list[str]:
    """Return a valid and distinct name of a field for each column of a header.

    A valid name stays as it is. Of others, each run of other characters becomes `_`: `Created Date` is `Created_Date`.
    A name that is then taken, compared without case, gets a number: the header `Amount, amount` is `Amount, amount_2`.
    """
    names: list[str | None] = [None] * len(header)
    used: set[str] = set()
    for is_exact in (True, False):  # a valid name is never taken by another one
        for place, text in enumerate(header):
            if names[place] is None and is_exact <= _is_valid(text):
                name = _find_free_name(text if is_exact else make_name(text, place + 1), used, is_exact=is_exact)
                names[place] = name
                used.add((name or "").lower())
    return [name or "" for name in names]


def _find_free_name(name: str, used: set[str], *, is_exact: bool) -> str | None:
    if name.lower() not in used:
        return name
    if is_exact:
        return None
    numbered = (f"{name[: _MAX_NAME - 7]}_{number}" for number in range(2, len(used) + 3))
    return next(text for text in numbered if text.lower() not in used)


def _is_valid(name: str) -> bool:
    is_ours = name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX)
    return IDENTIFIER.match(name) is not None and not is_ours


def make_name(text: str, place: int) -> str:
    """Make a valid name from the text of a header; `place` counts from 1, for a text without letters and digits."""
    plain = unicodedata.normalize("NFKD", text.translate(_PLAIN_LETTERS)).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")[: _MAX_NAME - 7]
    if not name:
        return f"column_{place}"
    if name[0].isdigit():
        name = f"column_{name}"
    return name if _is_valid(name) else f"{name}_"


def convert_cell(cell: str, kind: str, time_format: str, mark: DecimalMark = ".") -> JsonValue:
    """Convert a cell to the JSON value that is sent for a column of this type.

    Args:
        cell: Text of the cell; an empty one is null, and one that stands for a missing value in another type than text.
        kind: Type of the column in the schema.
        time_format: Format of timestamps in the definition.
        mark: Decimal mark of the column.

    Returns:
        The JSON value; a string if the cell is not a valid literal of the type, which the parser then rejects.
    """
    if not cell:
        return None
    if kind == "string":
        return cell
    if not cell[0].isdigit() and is_null_text(cell):
        return None
    if kind == "date" or (kind == "timestamp" and time_format not in EPOCH_FORMATS):
        return cell.strip()
    if kind == "boolean":
        return BOOLEANS.get(cell.strip().lower(), cell)
    text = cell if mark == "." and NUMBER.fullmatch(cell) else rewrite_number(cell, mark)
    return JsonNumber(text) if len(text) <= limits.MAX_NUMBER and NUMBER.fullmatch(text) else cell


def is_null_text(cell: str) -> bool:
    """Return whether a cell stands for a missing value in a column that is not text: `NA`, `NULL`, `-`, or blanks."""
    return not cell or cell.strip().lower() in NULL_TEXTS or cell.isspace()


@dataclass(slots=True)
class NumberMarks:
    """Decimal marks that the cells of one column may have."""

    possible: frozenset[str] = frozenset({".", ","})
    has_marks: bool = False  # some cell has a point, a comma or grouped digits
    has_comma: bool = False
    are_numbers: bool = True  # every cell is a number with one of the marks

    def add(self, cell: str) -> None:
        """Add a cell that is not a null text."""
        text = cell.strip()
        if _PLAIN.fullmatch(text):
            return
        self.has_marks = True
        self.has_comma = self.has_comma or "," in text
        marks = frozenset(mark for mark, form in _WITH_MARK.items() if form.fullmatch(text) and text[-1:].isdigit())
        self.are_numbers = self.are_numbers and bool(marks)
        self.possible &= marks


def choose_marks(columns: Mapping[str, NumberMarks]) -> dict[str, DecimalMark | None]:
    """Choose the decimal mark of each column of numbers; None if it is ambiguous or contradictory.

    `1,234` is 1.234 or 1234. The other cells of the column decide it, else the other columns of the file, if all of
    them have one mark. Without any comma, the mark is a point.
    """
    numbers = {name: column for name, column in columns.items() if column.are_numbers}
    decided = {min(column.possible) for column in numbers.values() if column.has_marks and len(column.possible) == 1}
    return {name: _choose_mark(column, decided) for name, column in numbers.items()}


def _choose_mark(column: NumberMarks, decided: set[str]) -> DecimalMark | None:
    if not column.has_marks:
        return "."
    if len(column.possible) == 1:
        return "," if "," in column.possible else "."
    if not column.possible or len(decided) > 1:
        return None
    if not decided:
        return None if column.has_comma else "."
    mark: DecimalMark = "," if "," in decided else "."
    return mark if column.has_comma or mark == "." else None


def rewrite_number(cell: str, mark: DecimalMark) -> str:
    """Return a number in JSON's notation; the cell itself if it is no number with this decimal mark."""
    text = cell.strip()
    if not _WITH_MARK[mark].fullmatch(text) or not text[-1:].isdigit():
        return text
    plain = _GROUPING.sub("", text).replace("." if mark == "," else ",", "").replace(",", ".")
    sign, digits = ("-", plain[1:]) if plain.startswith("-") else ("", plain)
    return f"{sign}0{digits}" if digits.startswith(".") else plain


def find_marks(path: Path, columns: Mapping[str, str]) -> dict[str, DecimalMark]:
    """Find the decimal marks of columns of numbers.

    Args:
        path: A CSV file.
        columns: Name, as `name_fields` makes it, to type; columns of other types are ignored.

    Raises:
        DefinitionError: The mark of a column is ambiguous: `1,234` is 1.234 or 1234.
    """
    records = read_csv(path)
    names = name_fields(next(records, (1, []))[1])
    numeric = {name: kind for name, kind in columns.items() if kind.startswith(("int", "bigint", "double", "decimal"))}
    places = {name: names.index(name) for name in numeric if name in names}
    if not places:
        return {}
    marks = {name: NumberMarks() for name in places}
    examples: dict[str, tuple[int, str]] = {}
    while chunk := list(islice(records, CHUNK)):
        all_cells = list(zip(*(cells for _, cells in chunk), strict=True))
        for name, place in places.items():
            for cell in dict.fromkeys(all_cells[place]):
                if not cell.isdigit() and _add_number(marks[name], cell) and name not in examples:
                    examples[name] = (chunk[all_cells[place].index(cell)][0], cell)
    chosen = choose_marks(marks)
    for name, mark in chosen.items():
        if mark is None and marks[name].possible and numeric[name] not in {"int", "bigint"}:
            reject_ambiguous(path, name, *examples[name])
    return {name: chosen.get(name) or "." for name in places}


def _add_number(marks: NumberMarks, cell: str) -> bool:
    """Add a cell if it is a number; return whether it has a mark."""
    if len(marks.possible) == 1 and "." in marks.possible and "," not in cell:
        return False
    trial = NumberMarks()
    trial.add(cell)
    if not trial.are_numbers:  # which the parser rejects
        return False
    marks.add(cell)
    return trial.has_marks


def reject_ambiguous(path: Path, name: str, line: int, cell: str) -> None:
    """Reject a column of numbers whose decimal mark the file does not show.

    Raises:
        DefinitionError: Always.
    """
    expected = f"numbers with one decimal mark in column `{name}`, got `{cell}`, which is {rewrite_number(cell, ',')}"
    hint = "no other cell shows which; write numbers without grouped digits, or declare the column as string."
    reject_line(path, line, f"{expected} or {rewrite_number(cell, '.')}", hint=hint)
