"""Types of columns that come without a type (cells of CSV, names of folders), chosen from both sides.

A column is read as the type that is stated for it, else as that of the other side. Where neither side has a type it
holds numbers if every cell of both sides is a plain decimal literal, and texts otherwise. Cells that the type does not
read stay texts, which no value of the type equals.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb

from cutover.engine.queries import count_where
from cutover.errors import DefinitionError
from cutover.quoting import identifier
from cutover.reconcile.comparison.column_types import NO_TYPE, is_float_column, is_time, kind_of, normalize_decimal
from cutover.reconcile.external import cell_texts
from cutover.reconcile.external.request import DiffRequest, reject_long_numbers
from cutover.reconcile.result.finding import ColumnReading, Origin, TableReading
from cutover.reconcile.result.text import count_noun
from cutover.sources.binding import BoundTable, types_of
from cutover.sources.reading import DECIMAL_DIGITS

SIDES = ("expected", "actual")
TEXT, DECIMAL = "VARCHAR", "DECIMAL"
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_WHOLE_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_COLUMNS_A_QUERY = 500
"""Columns whose cells one query counts: a batch of 2,048 rows holds the cells of all of them, 16 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Both sides with a type for each column, expected side first."""

    sources: tuple[BoundTable, BoundTable]
    tables: tuple[TableReading, ...]  # of sides that have columns without a type
    notes: tuple[str, ...]
    numbers: Mapping[str, str] = field(default_factory=dict)  # columns of texts -> type of those that are numbers
    texts: frozenset[str] = frozenset()  # texts by inference that may be numbers: some cells are, or all are empty


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """Counts of the cells of one column."""

    filled: int = 0  # neither null nor empty
    fitting: int = 0  # of the filled ones
    whole_digits: int = 0  # digits before the point, the most of any
    fraction_digits: int = 0  # digits behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """Reading of one column: SQL of each side, None where it stays unchanged."""

    values: tuple[str | None, str | None]
    kind: str
    origin: Origin
    number: str | None = None
    is_decimal: bool = False  # texts that are numbers in normal form: one text per number
    is_mixed: bool = False  # texts by inference that may be numbers: some cells of both sides are, or all are empty
    unread: tuple[int, int] = (0, 0)  # cells of each side that the type does not read


class _Columns:
    """Columns without a type, with what is stated of them and what the other side has."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, diff_request: DiffRequest, sources: Sequence[BoundTable]
    ) -> None:
        self.connection = connection
        self.diff_request = diff_request
        self.sources = sources
        self.stated = {**diff_request.types, **dict.fromkeys((*diff_request.normalized, *diff_request.caseless), TEXT)}
        self.names = {
            ours: (ours, diff_request.names.get(ours, ours))
            for ours in sources[0].types
            if ours not in diff_request.excluded and diff_request.names.get(ours, ours) in sources[1].types
        }

    def is_untyped(self, side: int, name: str) -> bool:
        """Return whether a column of a side holds texts without a type."""
        return self._has_cells(side, name) or (self._type(side, name) == NO_TYPE and self._has_cells(1 - side, name))

    def _has_cells(self, side: int, name: str) -> bool:
        if self.names[name][side] in self.sources[side].untyped:
            return True
        return self._type(side, name) == TEXT and self.stated.get(name, TEXT) != TEXT

    def _type(self, side: int, name: str) -> str:
        return self.sources[side].types[self.names[name][side]]

    def is_date_of_moments(self, side: int, name: str) -> bool:
        """Return whether a column of a side holds dates that are stated to be moments."""
        return self._type(side, name) == "DATE" and self.stated.get(name, "").startswith("TIMESTAMP")

    def is_read_as(self, side: int, name: str, choice: "_Choice") -> bool:
        """Return whether a column of a side is of the type that was chosen."""
        return choice.values[side] is not None or self._type(side, name) in {choice.kind, NO_TYPE}

    def find_type(self, name: str) -> str | None:
        """Return the type to read cells of a column as; None where no side has such cells."""
        untyped = [self.is_untyped(side, name) for side in (0, 1)]
        if not any(untyped):
            is_date = any(self.is_date_of_moments(side, name) for side in (0, 1))
            return self.stated[name] if is_date or self.diff_request.types.get(name) == TEXT else None
        if name in self.stated:
            return self.stated[name]
        typed = [self._type(side, name) for side in (0, 1) if not untyped[side]]
        if not typed or kind_of(typed[0]) in {"whole", "decimal"}:
            return DECIMAL
        return typed[0]

    def cell(self, side: int, name: str) -> str:
        """Return SQL of the text that a column of one side holds in a row."""
        side_name = self.names[name][side]
        quoted = identifier(side_name)
        return quoted if self.sources[side].types[side_name] == TEXT else f"{quoted}::VARCHAR"


def choose_readings(
    connection: duckdb.DuckDBPyConnection, diff_request: DiffRequest, sources: Sequence[BoundTable]
) -> Readings:
    """Choose a type for every column without one, and make views that read it.

    Args:
        connection: Holds the views of the sources.
        diff_request: Its `types`, names and texts.
        sources: Expected side first.

    Raises:
        DefinitionError: A stated type does not read every cell, or the other side's type has no reading of cells.
    """
    columns = _Columns(connection, diff_request, sources)
    _reject_unreadable_types(columns)
    types = {name: kind for name in columns.names if (kind := columns.find_type(name)) is not None}
    counts = [_count_cells(columns, side, types) for side in (0, 1)]
    choices = {
        name: _choose_reading(columns, name, kind, (counts[0].get(name), counts[1].get(name)))
        for name, kind in types.items()
    }
    read_sources = [_make_views(columns, side, choices) for side in (0, 1)]
    return Readings(
        sources=(read_sources[0], read_sources[1]),
        tables=tuple(_describe_tables(columns, choices)),
        notes=tuple(_describe_unread(columns, choices)),
        numbers={name: choice.number for name, choice in choices.items() if choice.number is not None},
        texts=frozenset(name for name, choice in choices.items() if choice.is_mixed),
    )


def _reject_unreadable_types(columns: _Columns) -> None:
    """Refuse types that the engine would read as others."""
    for side, source in enumerate(columns.sources):
        for names in columns.names.values():
            kind = source.unreadable.get(names[side])
            if kind is not None:
                msg = f"Column `{names[side]}` of the {SIDES[side]} side: expected decimals of at most"
                msg += f" {DECIMAL_DIGITS} digits and no durations, got {kind}."
                msg += "\nHint: write decimals as text and durations as integers of one unit,"
                raise DefinitionError(msg + f" or leave it out: `--exclude {names[0]}`.")
            kind = source.texts.get(names[side])
            if kind is not None and columns.stated.get(names[0]) != TEXT:
                msg = f"Column `{names[side]}` of the {SIDES[side]} side: expected a type with one text for each value,"
                msg += f" got {kind}.\nHint: `--type {names[0]}=text` compares its texts as the server writes them;"
                raise DefinitionError(msg + f" `--exclude {names[0]}` leaves it out.")


def _count_cells(columns: _Columns, side: int, types: Mapping[str, str]) -> dict[str, _Cells]:
    """Count the cells of each column of a side that is read: many columns of one type in one pass over the rows."""
    names = [name for name in types if columns.is_untyped(side, name)]
    columns_by_reading: dict[tuple[str, str], list[str]] = {}
    for name in names:
        if types[name] != TEXT:
            columns_by_reading.setdefault((types[name], _fits_sql(columns, side, name, types[name])), []).append(name)
    counts = dict.fromkeys(names, _Cells())
    for (kind, fits), names_of_reading in columns_by_reading.items():
        for start in range(0, len(names_of_reading), _COLUMNS_A_QUERY):
            batch = names_of_reading[start : start + _COLUMNS_A_QUERY]
            query = _count_sql(columns, side, batch, fits, is_decimal=kind == DECIMAL)
            for place, *row in columns.connection.execute(query).fetchall():
                filled, fitting, whole_digits, fraction_digits = (int(count or 0) for count in row)
                counts[batch[place]] = _Cells(
                    filled=filled, fitting=fitting, whole_digits=whole_digits, fraction_digits=fraction_digits
                )
    return counts


def _fits_sql(columns: _Columns, side: int, name: str, kind: str) -> str:
    """Return SQL over a column `cell` that is true where a type reads the text."""
    if kind == DECIMAL:
        return cell_texts.is_plain_decimal("cell", zeros_first=name in columns.stated)
    return _find_reader(side, name, kind, "cell").fits


def _count_sql(columns: _Columns, side: int, names: Sequence[str], fits: str, *, is_decimal: bool) -> str:
    """Return the query of the place of each column and its four counts, the fields of `_Cells`.

    Every cell becomes a row, so that the query has the same few expressions for any number of columns.
    """
    cells_sql = ", ".join(columns.cell(side, name) for name in names)
    rows = f"SELECT unnest(range({len(names)})) AS place, unnest([{cells_sql}]) AS cell"
    digits = (cell_texts.count_whole_digits("cell"), cell_texts.count_fraction_digits("cell"))
    most_digits = ", ".join(f"max(CASE WHEN fits THEN {count} END)" if is_decimal else "0" for count in digits)
    return (
        f"SELECT place, count(nullif(cell, '')), {count_where('fits')}, {most_digits}"
        f" FROM (SELECT place, cell, {fits} AS fits FROM ({rows} FROM {identifier(columns.sources[side].raw)}))"
        " GROUP BY place"
    )


def _find_reader(side: int, name: str, kind: str, cell: str) -> cell_texts.CellReader:
    reader = cell_texts.find_reader(cell, kind)
    if reader is None:
        msg = f"Column `{name}`: expected a type that texts can be read as, got {kind} on the {SIDES[1 - side]} side."
        raise DefinitionError(msg + f"\nHint: `--exclude {name}` leaves it out.")
    return reader


def _choose_reading(columns: _Columns, name: str, kind: str, counts: tuple[_Cells | None, _Cells | None]) -> _Choice:
    """Choose how a column is read, from the cells of both sides; None: that side has a type."""
    unread = (_count_unread_cells(counts[0]), _count_unread_cells(counts[1]))
    origin = _find_origin(columns, name, counts)
    if kind == TEXT:
        return _Choice(values=_read_as_texts(columns, name), kind=TEXT, origin=origin)
    if name in columns.stated:
        _reject_unread_cells(name, kind, unread)
    if kind == DECIMAL:
        if origin is Origin.INFERRED and (any(unread) or not any(count.filled for count in counts if count)):
            has_numbers = any(count is not None and count.fitting for count in counts)
            if has_numbers and name in columns.diff_request.tolerances:  # its numbers are numbers, its texts are texts
                as_numbers = _choose_decimal(columns, name, counts, origin, unread)
                return replace(as_numbers, is_decimal=False, unread=(0, 0))
            is_blank = not any(count is not None and count.filled for count in counts)
            is_mixed = is_blank or all(count is not None and count.fitting for count in counts)
            return _Choice(values=_read_as_texts(columns, name), kind=TEXT, origin=origin, is_mixed=is_mixed)
        return _choose_decimal(columns, name, counts, origin, unread)
    values = tuple(
        _read_dates(columns, side, name, kind)
        if count is None
        else _read_cell(columns, side, name, kind, as_text=any(unread))
        for side, count in enumerate(counts)
    )
    if not any(unread):
        return _Choice(values=(values[0], values[1]), kind=kind, origin=origin)
    texts = tuple(
        f"{_without_sign_of_zero(identifier(columns.names[name][side]), kind)}::VARCHAR" if value is None else value
        for side, value in enumerate(values)
    )
    number = kind if is_float_column(kind) or is_time(kind) else None
    return _Choice(values=(texts[0], texts[1]), kind=TEXT, origin=origin, number=number, unread=unread)


def _count_unread_cells(cells: _Cells | None) -> int:
    return 0 if cells is None else cells.filled - cells.fitting


def _find_origin(columns: _Columns, name: str, counts: Sequence[_Cells | None]) -> Origin:
    if name in columns.stated:
        return Origin.STATED
    return Origin.INFERRED if all(count is not None for count in counts) else Origin.OTHER_SIDE


def _reject_unread_cells(name: str, kind: str, unread: tuple[int, int]) -> None:
    for side, count in enumerate(unread):
        if count:
            msg = f"Column `{name}` of the {SIDES[side]} side: expected {kind} in every cell, as stated, got"
            msg += f" {count_noun(count, 'cell')} that cannot be read as one exactly."
            raise DefinitionError(msg + "\nHint: `--csv null=NA` names the text of a null; `--type` states the type.")


def _read_as_texts(columns: _Columns, name: str) -> tuple[str | None, str | None]:
    sides = [f"{identifier(columns.names[name][side])}::VARCHAR" for side in (0, 1)]
    kinds = [columns.sources[side].types[columns.names[name][side]] for side in (0, 1)]
    values = [None if kind in {TEXT, NO_TYPE} else text for text, kind in zip(sides, kinds, strict=True)]
    return values[0], values[1]


def _read_cell(columns: _Columns, side: int, name: str, kind: str, *, as_text: bool) -> str:
    cell = columns.cell(side, name)
    reader = _find_reader(side, name, kind, cell)
    if as_text:
        value = _without_sign_of_zero(reader.value, kind)
        return f"CASE WHEN {reader.fits} THEN {value}::VARCHAR ELSE nullif({cell}, '') END"
    return f"CASE WHEN {reader.fits} THEN {reader.value} END"


def _read_dates(columns: _Columns, side: int, name: str, kind: str) -> str | None:
    """Return SQL of the midnight of each date that is stated to be a moment; None for any other column with a type."""
    return (
        f"CAST({identifier(columns.names[name][side])} AS {kind})" if columns.is_date_of_moments(side, name) else None
    )


def _without_sign_of_zero(value: str, kind: str) -> str:
    """Return SQL of a value in which a zero of a float has no sign, as its text would have it."""
    return f"({value} + 0::{kind})" if is_float_column(kind) else value


def _choose_decimal(
    columns: _Columns,
    name: str,
    counts: tuple[_Cells | None, _Cells | None],
    origin: Origin,
    unread: tuple[int, int],
) -> _Choice:
    """Choose a type that holds every number exactly; where there is none, numbers are texts in normal form."""
    whole_digits = max(count.whole_digits for count in counts if count is not None)
    fraction_digits = max(count.fraction_digits for count in counts if count is not None)
    typed = [columns.sources[n].types[columns.names[name][n]] for n in (0, 1) if counts[n] is None]
    kind = next(
        (kind for kind in typed if _holds(kind, whole_digits, fraction_digits)), None
    ) or cell_texts.find_decimal(whole_digits, fraction_digits)
    zeros_first = name in columns.stated
    if kind is None and name in columns.diff_request.tolerances:
        reject_long_numbers(name)
    if kind is not None and not any(unread):
        values = tuple(
            None if count is None else f"TRY_CAST(nullif({columns.cell(side, name)}, '') AS {kind})"
            for side, count in enumerate(counts)
        )
        return _Choice(values=(values[0], values[1]), kind=kind, origin=origin)
    texts = []
    for side, count in enumerate(counts):
        cell = columns.cell(side, name)
        fits = cell_texts.is_plain_decimal(cell, zeros_first=zeros_first)
        if count is None:
            texts.append(normalize_decimal(cell))
        else:
            texts.append(f"CASE WHEN {fits} THEN {normalize_decimal(cell)} ELSE nullif({cell}, '') END")
    number = None if kind is None or kind_of(kind) != "whole" else f"DECIMAL({DECIMAL_DIGITS},0)"
    return _Choice(
        values=(texts[0], texts[1]), kind=TEXT, origin=origin, number=number or kind, is_decimal=True, unread=unread
    )


def _holds(kind: str, whole_digits: int, fraction_digits: int) -> bool:
    """Return whether a type holds every number with these digits before and after the decimal point."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return fraction_digits <= int(decimal[2]) and whole_digits <= int(decimal[1]) - int(decimal[2])
    return not fraction_digits and whole_digits < _WHOLE_DIGITS.get(kind, 0)


def _make_views(columns: _Columns, side: int, choices: Mapping[str, _Choice]) -> BoundTable:
    """Make views of a side in which each column has its type."""
    source = columns.sources[side]
    values = {
        columns.names[name][side]: value
        for name, choice in choices.items()
        if (value := choice.values[side]) is not None
    }
    if not values:
        return replace(source, reading=repr(sorted(source.dialect.items())))
    # Column by column: a star with many replacements takes the square of them.
    selected_columns = ", ".join(f"{values.get(name, identifier(name))} AS {identifier(name)}" for name in source.types)
    columns_by_file = (
        selected_columns if source.file_column is None else f"{selected_columns}, {identifier(source.file_column)}"
    )
    for view, selected in {source.raw: selected_columns, source.view: columns_by_file}.items():
        columns.connection.execute(
            f"CREATE TEMP VIEW {identifier(f'{view}_read')} AS SELECT {selected} FROM {identifier(view)}"
        )
    raw = f"{source.raw}_read"
    return replace(
        source,
        raw=raw,
        view=f"{source.view}_read",
        types=types_of(columns.connection, raw),
        reading=repr((sorted(source.dialect.items()), sorted(values.items()))),
    )


def _describe_tables(columns: _Columns, choices: Mapping[str, _Choice]) -> Iterator[TableReading]:
    """Yield, of each side with columns without a type, its dialect and how its columns were read."""
    for side, source in enumerate(columns.sources):
        column_readings = tuple(
            ColumnReading(column=columns.names[name][side], type=_describe_kind(choice), origin=choice.origin)
            for name, choice in choices.items()
            if columns.names[name][side] in source.untyped
            or (choice.origin is Origin.STATED and columns.is_read_as(side, name, choice))
        )
        if column_readings or source.dialect:
            yield TableReading(side=SIDES[side], dialect=dict(source.dialect), columns=column_readings)


def _describe_kind(choice: _Choice) -> str:
    """Return the name of a type for people; texts that are numbers in normal form are decimals."""
    if choice.kind != TEXT:
        return choice.kind.lower()
    return "decimal" if choice.is_decimal and not any(choice.unread) else "text"


def _describe_unread(columns: _Columns, choices: Mapping[str, _Choice]) -> Iterator[str]:
    for name, choice in choices.items():
        for side, count in enumerate(choice.unread):
            if count:
                side_names = columns.names[name]
                kind = columns.sources[1 - side].types[side_names[1 - side]]
                text = f"{count_noun(count, 'cell')} of the {SIDES[side]} side cannot be read as {kind}."
                yield f"Column `{side_names[side]}`: {text}"
