"""Dialect of CSV: how a file separates, quotes and encodes its cells, what its head is, and the form of its records.

DuckDB infers nothing, since its inference depends on rows: the delimiter comes from the head alone, and every cell is
read as the text that is written there. Types are chosen later, from both sides (`alignment`). DuckDB would also drop
blanks around quotes and an empty cell after the last column, which would make different files equal. So every record is
checked before it is read, and a file is rejected by line: each record has as many cells as the head, a cell begins with
a quote or has none after leading blanks, and a closing quote ends its cell.
"""

import csv
import io
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from itertools import groupby, islice, takewhile
from pathlib import Path

from cutover.counts import count_noun
from cutover.errors import DefinitionError, LakeError
from cutover.quoting import literal
from cutover.sources.csv_encoding import ENCODINGS, find_checked_encoding, open_text

LONGEST_RECORD = 256 * 1024 * 1024
"""Bytes of a record of a file that is not compressed."""

USUAL_RECORD = 2_000_000
"""Bytes of a record of a compressed file; longer ones of others take larger buffers."""

_BLOCK = USUAL_RECORD // 2
_MIXED_ENDS = rb"\r?\n"
_WIDTH_HINT = "`--csv delimiter=;` and `--csv quote='` state the dialect."
_QUOTE_HINT = "`--csv quote='` states what quotes; `--csv quote=none`, that nothing does."

CSV = tuple(f"{name}{packed}" for name in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))
DELIMITERS = (",", ";", "\t", "|")

UNNAMED = '""'
"""Name of a column without a name, of every format: the engine has no empty name."""

_HINTS = {
    "Expected Number of Columns": _WIDTH_HINT,
    "unicode": f"`--csv encoding=latin-1` states the encoding: {', '.join(ENCODINGS)} are read.",
    "Maximum line size": f"records of compressed files are read up to {USUAL_RECORD:,} bytes, of others up to"
    f" {LONGEST_RECORD:,}.",
    "Map keys must be unique": "write each key of a map once; `--exclude` leaves a column out.",
    "Invalid string encoding": "write texts of Parquet as UTF-8 or the column as binary; `--exclude` leaves it out.",
    "Out of Memory": "`CUTOVER_READ__MEMORY=4GB`, or `memory` under `[read]` in `cutover.toml`, grants more.",
    "too long": f"records are read up to {LONGEST_RECORD:,} bytes.",
}
_MOST_HEAD_LINES = 1_000  # quoted names hold line breaks
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_NAMES = {"\t": "tab"}
_DELIMITER_LINE = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)
_FORM = "`delimiter=;`, `quote='`, `header=no`, `encoding=latin-1` or `null=NA`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """Format of the records of one file."""

    cells: int  # of the head
    delimiter: str
    quote: str  # empty: nothing quotes
    encoding: str
    line_end: str  # of the head


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTraits:
    """Properties of a file that its reader must support."""

    has_mixed_line_ends: bool  # some LF, some CR LF
    has_long_records: bool  # some may be longer than two blocks


class _Patterns:
    """Regular expressions of whole records, and of one whose end is still to be read."""

    def __init__(self, form: RecordForm, line_end: bytes) -> None:
        encoding = find_checked_encoding(form.encoding)
        self.cells, self.line_end = form.cells, line_end
        self.delimiter, self.quote = form.delimiter.encode(encoding), form.quote.encode(encoding)
        delimiter, quote = re.escape(self.delimiter), re.escape(self.quote)
        plain = b"[^\r\n%b]*+" % delimiter if len(self.delimiter) == 1 else rb"(?:(?!%b)[^\r\n])*+" % delimiter
        cell = open_cell = plain
        if quote:
            quoted_text = rb"%b(?:[^%b]++|%b%b)*+" % ((quote,) * 4)
            blanks = b"" if self.delimiter == b" " else b" *"
            cell = rb"(?:%b%b|(?!%b%b)%b)" % (quoted_text, quote, blanks, quote, plain)
            open_cell = rb"(?:%b%b?|%b)" % (quoted_text, quote, plain)
        further = form.cells - 1
        self.cell = re.compile(cell)
        self.records = re.compile(rb"(?:%b|%b(?:%b%b){%d}%b)*+" % (line_end, cell, delimiter, cell, further, line_end))
        self.unfinished = re.compile(rb"(?:%b%b){0,%d}+%b\r?\Z" % (cell, delimiter, further, open_cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Properties of CSV files as stated; None: inferred, see the property."""

    delimiter: str | None = None  # None: the one that splits the head into the most names; of `.tsv` a tab
    quote: str = '"'  # empty: nothing quotes
    header: bool = True  # False: columns are `column0`, `column1`, ...
    encoding: str = "utf-8"
    null: str | None = None  # unquoted text of a null; None: an empty cell without quotes

    def describe(self) -> dict[str, str]:
        """Return what is stated or holds by default, except for the delimiter."""
        return {
            "quote": self.quote or "none",
            "header": "yes" if self.header else "no",
            "encoding": self.encoding,
            "null": "an empty cell without quotes" if self.null is None else self.null,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvHead:
    """Names of the columns of one file, as they are written, and what separates them."""

    names: tuple[str, ...]
    delimiter: str
    has_long_records: bool
    has_mixed_line_ends: bool
    empty_lines: int  # before the head


def check_records(source: str, file: str, form: RecordForm) -> RecordTraits:
    """Check every record of a file, and return what its reader has to allow for.

    Raises:
        LakeError: A record has another number of cells than the head, or a quote in a place that has no one meaning;
            names the line.
    """
    line_end = form.line_end.encode()
    patterns, mixed = _Patterns(form, line_end), _Patterns(form, _MIXED_ENDS)
    line, remainder, is_last, is_long = 1, b"", False, False
    with open_text(source, file, form.encoding) as stream:
        while not is_last:
            block = stream.read(max(_BLOCK, len(remainder)))  # twice as much for a record that is longer
            is_last = not block
            text = remainder + block if block or not remainder else remainder + line_end
            end = _find_end(patterns, text)
            if not _can_continue(patterns, text, end, is_last=is_last):
                patterns, end = mixed, _find_end(mixed, text)
            if not _can_continue(patterns, text, end, is_last=is_last):
                raise _make_error(source, file, line + _count_lines(text[:end]), patterns, text[end:])
            _check_length(source, file, line + _count_lines(text[:end]), len(text) - end)
            line += _count_lines(text[:end])
            remainder, is_long = text[end:], is_long or (end == 0 and not is_last)
    return RecordTraits(has_mixed_line_ends=patterns is mixed, has_long_records=is_long)


def is_packed(file: str) -> bool:
    """Return whether a file of CSV is compressed, by its name."""
    return not file.lower().endswith((".csv", ".tsv"))


def _check_length(source: str, file: str, line: int, length: int) -> None:
    """Reject a record that is longer than its limit: DuckDB may skip it silently."""
    limit = USUAL_RECORD if is_packed(file) else LONGEST_RECORD
    if length > limit:
        record_kind = "compressed records" if is_packed(file) else "records"
        msg = f"Table `{source}`: line {line:,} of `{Path(file).name}`: expected {record_kind} of at most"
        msg += f" {limit:,} bytes, got a longer one."
        hint = "\nHint: unpack the file, or write it as Parquet." if is_packed(file) else "\nHint: write it as Parquet."
        raise LakeError(msg + hint, runbook="TableUnreadable")


def _find_end(patterns: _Patterns, text: bytes) -> int:
    """Return where the first record that is not whole, or not in form, begins."""
    end = text.rfind(b"\n") + 1
    if not (patterns.quote and patterns.quote in text) and _has_expected_counts(patterns, text, end):
        return end
    whole_records = patterns.records.match(text)
    return 0 if whole_records is None else whole_records.end()


def _has_expected_counts(patterns: _Patterns, text: bytes, end: int) -> bool:
    """Return whether lines without quotes are records in form, by counts alone; False: that takes a closer look.

    Too few cells in one record and too many in another may cancel out; DuckDB rejects the former.
    """
    line_end = patterns.line_end
    lines = text.count(b"\n", 0, end)
    if line_end not in {b"\n", b"\r\n"} or text.startswith(line_end) or b"\n" + line_end in text:
        return False
    if text.count(b"\r", 0, end) != (lines if line_end == b"\r\n" else 0) or text.count(line_end, 0, end) != lines:
        return False
    return text.count(patterns.delimiter, 0, end) == (patterns.cells - 1) * lines


def _can_continue(patterns: _Patterns, text: bytes, end: int, *, is_last: bool) -> bool:
    """Return whether what follows the whole records of a text is the start of one."""
    return end == len(text) or (not is_last and patterns.unfinished.match(text, end) is not None)


def _count_lines(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _make_error(source: str, file: str, line: int, patterns: _Patterns, record: bytes) -> LakeError:
    """Return the error for a record that is not in form."""
    expected, problem, hint = _find_fault(patterns, record)
    msg = f"Table `{source}`: line {line:,} of `{Path(file).name}`: expected {expected}, got {problem}."
    return LakeError(msg + f"\nHint: {hint}", runbook="TableUnreadable")


def _find_fault(patterns: _Patterns, record: bytes) -> tuple[str, str, str]:
    """Return what was expected of a record, what it is instead, and what to do."""
    place = cells = 0
    while (cell := patterns.cell.match(record, place)) is not None:
        cells, place = cells + 1, cell.end()
        if record.startswith(patterns.delimiter, place):
            place += len(patterns.delimiter)
        elif record[place : place + 1] == b"\r" and record[place : place + 2] != b"\r\n":
            return "CR in a cell within quotes, or at the end of every line", "CR alone", _QUOTE_HINT
        elif place == len(record) or record[place] in b"\r\n":
            return f"{count_noun(patterns.cells, 'cell')}, as in the head", f"{cells:,}", _WIDTH_HINT
        else:
            return "the end of the cell after its closing quote", f"further text in cell {cells:,}", _QUOTE_HINT
    if record.startswith(patterns.quote, place):
        return "a closing quote", f"none after the one that opens cell {cells + 1:,}", _QUOTE_HINT
    return "no blanks before an opening quote", f"some in cell {cells + 1:,}", _QUOTE_HINT


def parse_dialect(texts: Sequence[str], option: str, base: Dialect | None = None) -> Dialect:
    """Parse texts such as `delimiter=;` and `null=NA`.

    Args:
        texts: Each states one property; the last one counts.
        option: Of the command line, for messages.
        base: What holds where nothing is stated.

    Raises:
        DefinitionError: A text has another form, or states what cannot be read.
    """
    dialect = base or Dialect()
    for text in texts:
        dialect = _state(dialect, text, option)
    return dialect


def _state(dialect: Dialect, text: str, option: str) -> Dialect:
    """Return a dialect with one more property stated."""
    name, _, value = text.partition("=")
    expected = _FORM
    match name.strip():
        case "delimiter":
            if _is_one_character(_WORDS.get(value, value), but='"'):
                return replace(dialect, delimiter=_WORDS.get(value, value))
            expected = "one character, such as `delimiter=;`, or `delimiter=tab`"
        case "quote":
            if value == "none" or _is_one_character(value):
                return replace(dialect, quote="" if value == "none" else value)
            expected = "one character, such as `quote='`, or `quote=none`"
        case "header":
            if value in {"yes", "no"}:
                return replace(dialect, header=value == "yes")
            expected = "`header=yes` or `header=no`"
        case "encoding":
            if value.lower() in ENCODINGS:
                return replace(dialect, encoding=value.lower())
            expected = f"`encoding=` with one of {', '.join(ENCODINGS)}"
        case "null":
            return replace(dialect, null=value)
    msg = f"`{option}`: expected {expected}, got `{text[:80]}`."
    raise DefinitionError(msg)


def _is_one_character(text: str, *, but: str = "") -> bool:
    return len(text) == 1 and text not in f"\r\n{but}"


def is_csv(file: str) -> bool:
    """Return whether a file is read as CSV, by the end of its name."""
    return file.lower().endswith(CSV)


def read_csv_head(source: str, file: str, dialect: Dialect) -> CsvHead:
    """Read the head of a file, and choose its delimiter.

    Raises:
        DefinitionError: The first line is Excel's `sep=;`, two delimiters split the head alike, or several columns have
            no name.
        LakeError: The file has no head, or a record is not in form.
    """
    lines = _read_start(source, file, dialect)
    text = "".join(lines)
    _reject_delimiter_line(source, file, lines[-1] if lines else "")
    delimiters = (dialect.delimiter,) if dialect.delimiter is not None else _candidates(file)
    heads = {delimiter: _split_head(text, delimiter, dialect) for delimiter in delimiters}
    most_names = max(map(len, heads.values()))
    if most_names == 0:
        msg = f"Table `{source}`: expected a first line with names in `{Path(file).name}`, got an empty file."
        raise LakeError(msg, runbook="TableUnreadable")
    best = [delimiter for delimiter, names in heads.items() if len(names) == most_names]
    if most_names > 1 and len(best) > 1:
        best_delimiters = " and ".join(f"`{_NAMES.get(delimiter, delimiter)}`" for delimiter in best)
        msg = (
            f"Table `{source}`: expected one delimiter in the first line of `{Path(file).name}`, got {best_delimiters}."
        )
        raise DefinitionError(msg + "\nHint: state it, such as `--csv delimiter=,`.")
    names = name_columns(source, heads[best[0]]) if dialect.header else _number_columns(heads[best[0]])
    empty = sum(1 for _ in takewhile(lambda line: not line.strip("\r\n"), lines))
    form = RecordForm(
        cells=len(names),
        delimiter=best[0],
        quote=dialect.quote,
        encoding=dialect.encoding,
        line_end=lines[-1][len(lines[-1].rstrip("\r\n")) :] or "\n",
    )
    traits = check_records(source, file, form)
    if traits.has_mixed_line_ends and (empty or len(names) == 1):
        # DuckDB takes an empty line before the head for the head, and in one column each byte of CR LF for an end.
        requirement = "a head in line 1" if empty else "two columns or more, or one kind of line end,"
        msg = f"Table `{source}`: expected {requirement} in `{Path(file).name}`, got lines that end in different ways."
        raise LakeError(msg + "\nHint: write it with one kind of line end.", runbook="TableUnreadable")
    return CsvHead(
        names=names,
        delimiter=best[0],
        has_long_records=traits.has_long_records and not is_packed(file),
        has_mixed_line_ends=traits.has_mixed_line_ends,
        empty_lines=empty,
    )


def _reject_delimiter_line(source: str, file: str, line: str) -> None:
    """Reject a first line that states the delimiter for Excel."""
    stated = _DELIMITER_LINE.fullmatch(line)
    if stated is not None:
        name, delimiter = Path(file).name, _NAMES.get(stated[1], stated[1])
        msg = f"Table `{source}`: expected names in the first line of `{name}`, got Excel's line `sep={delimiter}`."
        option = f"--csv {shlex.quote(f'delimiter={delimiter}')}"
        raise DefinitionError(msg + f"\nHint: remove that line (`tail -n +2`); `{option}` states the delimiter.")


def name_columns(source: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a table's columns, with `UNNAMED` for one without a name.

    Raises:
        DefinitionError: Several columns have no name, or one has the name `UNNAMED`.
    """
    if names.count("") > 1:
        msg = f"Table `{source}`: expected at most one column without a name, got {names.count(''):,}."
        raise DefinitionError(msg + "\nHint: write a name for each; columns are compared by name.")
    if UNNAMED in names:
        msg = f"Table `{source}`: expected other names than `{UNNAMED}`, which is that of a column without a name."
        raise DefinitionError(msg + "\nHint: rename the column.")
    return tuple(name or UNNAMED for name in names)


def _number_columns(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"column{place}" for place in range(len(cells)))


def find_hint(message: str) -> str:
    """Return the hint for an error of reading CSV, on a separate line; empty where there is none.

    Args:
        message: The error, as `queries.describe_error` has it.
    """
    hint = next((hint for word, hint in _HINTS.items() if word in message), None)
    return "" if hint is None else f"\nHint: {hint}"


def describe_delimiters(heads: Iterable[CsvHead]) -> str:
    """Return the delimiters of files, by name where they cannot be seen."""
    return ", ".join(dict.fromkeys(_NAMES.get(head.delimiter, head.delimiter) for head in heads))


def read_csv_functions(files: Mapping[str, CsvHead], dialect: Dialect) -> tuple[str, ...]:
    """Return a call of DuckDB's `read_csv` for each group of files with one head, up to the closing bracket.

    Every column is read as text: DuckDB would take `0e12345` for a number, and half a day for a time.

    Args:
        files: Path to head.
        dialect: Of all of them.
    """
    ordered = sorted(files.items(), key=lambda item: (*_list_form(item[1]), item[0]))
    groups = groupby(ordered, key=lambda item: _list_form(item[1]))
    return tuple(_read_csv([*group], dialect) for _, group in groups)


def _list_form(head: CsvHead) -> tuple[tuple[str, ...], str, bool, int]:
    """Return all by which files are read in one call."""
    return head.names, head.delimiter, head.has_mixed_line_ends, head.empty_lines


def _read_csv(files: Sequence[tuple[str, CsvHead]], dialect: Dialect) -> str:
    head = files[0][1]
    file_list = ", ".join(literal(escape(file)) for file, _ in files)  # `read_csv` reads each as a pattern
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in head.names)
    options = [
        f"[{file_list}]",
        "auto_detect = false",
        f"columns = {{{columns}}}",
        f"header = {str(dialect.header).lower()}",
        f"delim = {literal(head.delimiter)}",
        f"quote = {literal(dialect.quote)}",
        f"escape = {literal(dialect.quote)}",
        f"nullstr = {literal(dialect.null or '')}",
        f"encoding = {literal(dialect.encoding)}",
        "allow_quoted_nulls = false",
        "comment = ''",
        f"skip = {head.empty_lines}",
        "hive_types_autocast = false",
    ]
    if head.has_mixed_line_ends:  # records are known to be in form, so that nothing else is read otherwise
        options += ["strict_mode = false", "parallel = false"]
    if any(head.has_long_records for _, head in files):
        options.append(f"max_line_size = {LONGEST_RECORD}")
    return f"read_csv({', '.join(options)}"


def _candidates(file: str) -> tuple[str, ...]:
    return ("\t",) if file.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv") else DELIMITERS


def _read_start(source: str, file: str, dialect: Dialect) -> list[str]:
    """Return the lines of a file up to its first one with a text, and further ones that a quoted name spans."""
    lines: list[str] = []
    quotes = 0
    with open_text(source, file, dialect.encoding) as stream:
        # What is no text in this encoding is left to the reader of the rows, which names the line.
        encoding = find_checked_encoding(dialect.encoding)
        text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
        for line in islice(text, _MOST_HEAD_LINES):
            lines.append(line)
            quotes += line.count(dialect.quote) if dialect.quote else 0
            if quotes % 2 == 0 and line.strip("\r\n"):
                break
    return lines


def _split_head(text: str, delimiter: str, dialect: Dialect) -> list[str]:
    lines = io.StringIO(text, newline="")
    if dialect.quote:
        rows = csv.reader(lines, delimiter=delimiter, quotechar=dialect.quote)
    else:
        rows = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    try:
        return next((row for row in rows if row), [])
    except csv.Error:  # a name longer than any that it takes: no table has one
        return []
