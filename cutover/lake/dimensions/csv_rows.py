"""Rows of a CSV file for a dimension: each cell is validated by the parser of records."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from cutover.errors import DefinitionError
from cutover.lake.tables.schemas import arrow_type
from cutover.records.files.cells import convert_cell, describe_invalid_value
from cutover.records.files.tables import read_csv
from cutover.records.reference.values import InvalidValueError, parse_value

CHUNK = 50_000


def read_header(file: Path) -> list[str]:
    """Return the names of the columns.

    Raises:
        DefinitionError: The file is no CSV with a header.
    """
    _, header = next(read_csv(file), (1, []))
    if not header:
        msg = f"{file}, line 1: expected a header, got an empty file."
        raise DefinitionError(msg)
    return header


def read_typed_rows(place: str, file: Path, columns: Mapping[str, str]) -> pa.Table:
    """Return the rows of a CSV file with typed columns; an empty cell is null, times are in ISO 8601.

    Args:
        place: Prefix of messages.
        file: CSV with a header.
        columns: Name to type, in the order of the header.

    Raises:
        DefinitionError: The file cannot be read, a row has another number of cells, or cells are not values of their
            type; names the number of such cells, and the first line, column and cell.
    """
    schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns.items()])
    reader = _TypedReader(place, file, columns)
    batches = [pa.Table.from_pydict(chunk, schema=schema) for chunk in reader.read_chunks()]
    reader.check()
    return pa.concat_tables([schema.empty_table(), *batches])


class _TypedReader:
    def __init__(self, place: str, file: Path, columns: Mapping[str, str]) -> None:
        self._place = place
        self._file = file
        self._columns = columns
        self._invalid_cells = 0
        self._first = ""

    def read_chunks(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the values of some rows by column."""
        records = islice(read_csv(self._file), 1, None)
        while chunk := list(islice(records, CHUNK)):
            for line, cells in chunk:
                if len(cells) != len(self._columns):
                    msg = f"{self._place}, line {line}: expected {len(self._columns)} cells, got {len(cells)}."
                    raise DefinitionError(msg)
            yield {
                name: self._read_column(name, kind, [(line, cells[place]) for line, cells in chunk])
                for place, (name, kind) in enumerate(self._columns.items())
            }

    def check(self) -> None:
        """Check that all cells were values of their type.

        Raises:
            DefinitionError: Names the first cell that was not.
        """
        if self._invalid_cells:
            further = f"; {self._invalid_cells - 1:,} other cells do not fit either" if self._invalid_cells > 1 else ""
            msg = f"{self._place}, {self._first}{further}."
            raise DefinitionError(msg + "\nHint: such as -12, 1.5e3, true, 2013-01-31 or 2013-01-31 23:59:59.5 (UTC).")

    def _read_column(self, name: str, kind: str, cells: Sequence[tuple[int, str]]) -> list[Any]:
        if kind == "string":
            return [cell or None for _, cell in cells]
        return [self._read_cell(name, kind, line, cell) for line, cell in cells]

    def _read_cell(self, name: str, kind: str, line: int, cell: str) -> Any:
        value = convert_cell(cell, kind, "iso")
        try:
            return parse_value(value, kind, "iso")
        except InvalidValueError:
            if not self._invalid_cells:
                self._first = f"line {line}, column `{name}`: {describe_invalid_value(value, kind, 'iso')}"
            self._invalid_cells += 1
            return None
