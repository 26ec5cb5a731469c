"""Form of CSV records: every cell is written in a way that has one meaning, or the file is rejected by line.

DuckDB drops blanks around quotes and an empty cell after the last column, which would make different files equal. So
every record is checked before it is read: each has as many cells as the head, a cell begins with a quote or has none
after leading blanks, and a closing quote ends its cell.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from cutover.errors import LakeError
from cutover.reconcile.external.csv_encoding import find_checked_encoding, open_text
from cutover.reconcile.result.text import count_noun

LONGEST_RECORD = 256 * 1024 * 1024
"""Bytes of a record of a file that is not compressed."""

USUAL_RECORD = 2_000_000
"""Bytes of a record of a compressed file; longer ones of others take larger buffers."""

_BLOCK = USUAL_RECORD // 2
_MIXED_ENDS = rb"\r?\n"
_WIDTH_HINT = "`--csv delimiter=;` and `--csv quote='` state the dialect."
_QUOTE_HINT = "`--csv quote='` states what quotes; `--csv quote=none`, that nothing does."


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
