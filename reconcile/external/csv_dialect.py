"""Dialect of CSV: how a file separates, quotes and encodes its cells, and what its head is.

Nothing is left to DuckDB to guess, since its guess depends on rows: the delimiter comes from the head alone, and every
cell is read as the text that is written there. Types are chosen later, from both sides (`column_types`).
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from itertools import groupby, islice, takewhile
from pathlib import Path

from cutover.errors import DefinitionError, LakeError
from cutover.quoting import literal
from cutover.reconcile.external.csv_encoding import ENCODINGS, find_checked_encoding, open_text
from cutover.reconcile.external.csv_records import LONGEST_RECORD, USUAL_RECORD, RecordForm, check_records, is_packed

CSV = tuple(f"{name}{packed}" for name in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))
DELIMITERS = (",", ";", "\t", "|")

_HINTS = {
    "Expected Number of Columns": "`--csv delimiter=;` and `--csv quote='` state the dialect.",
    "unicode": f"`--csv encoding=latin-1` states the encoding: {', '.join(ENCODINGS)} are read.",
    "Maximum line size": f"records of compressed files are read up to {USUAL_RECORD:,} bytes, of others up to"
    f" {LONGEST_RECORD:,}.",
    "Out of Memory": "`CUTOVER_READ__MEMORY=4GB`, or `memory` under `[read]` in `cutover.toml`, grants more.",
    "too long": f"records are read up to {LONGEST_RECORD:,} bytes.",
}
_MOST_HEAD_LINES = 1_000  # quoted names hold line breaks
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_NAMES = {"\t": "tab"}
_FORM = "`delimiter=;`, `quote='`, `header=no`, `encoding=latin-1` or `null=NA`"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvHead:
    """Names of the columns of one file, as they are written, and what separates them."""

    names: tuple[str, ...]
    delimiter: str
    has_long_records: bool
    has_mixed_line_ends: bool
    empty_lines: int  # before the head


def is_csv(file: str) -> bool:
    """Return whether a file is read as CSV, by the end of its name."""
    return file.lower().endswith(CSV)


def read_csv_head(source: str, file: str, dialect: Dialect) -> CsvHead:
    """Read the head of a file, and choose its delimiter.

    Raises:
        DefinitionError: Two delimiters split the head alike, or two names are one.
        LakeError: The file has no head, or a record is not in form.
    """
    lines = _read_start(source, file, dialect)
    text = "".join(lines)
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
    names = tuple(name if dialect.header and name else f"column{place}" for place, name in enumerate(heads[best[0]]))
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
