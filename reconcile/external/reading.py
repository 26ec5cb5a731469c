"""How files of others are read: as they are written, with the columns that their folders name (`day=2024-01-31`).

DuckDB guesses where it is not told. A folder above the table would be a column, one that the files hold too would
take the place of theirs, and a name that stands twice in a head would get another: all of that is decided here.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import escape, has_magic
from pathlib import Path

import duckdb
from pyarrow import DataType, int64, parquet, types, uint64

from cutover.errors import DefinitionError
from cutover.quoting import CSV_AS_WRITTEN, literal
from cutover.reconcile.external.csv_types import choose_types

CSV = (".csv", ".csv.gz", ".tsv")
_NUMBERED = re.compile(r"_[0-9]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """DuckDB's function that reads the files, and columns of folders that are none of the table's."""

    function: str  # up to its closing bracket
    listed: str  # the files, as literals
    aside: tuple[str, ...] = ()
    has_folders: bool = False  # whether folders name columns of the table

    def sql(self, options: str = "") -> str:
        """Return SQL of the files' rows, with further options of the function."""
        return f"{self.function}{options})"


def is_csv(file: str) -> bool:
    """Return whether a file is read as CSV, by the end of its name."""
    return file.lower().endswith(CSV)


def choose_reading(connection: duckdb.DuckDBPyConnection, source: str, files: Sequence[str]) -> Reading:
    """Return how to read the files of one table, all of one kind.

    Raises:
        DefinitionError: A folder names a column that the files hold too, beside one that they do not; or files of
            Parquet hold whole numbers or decimals in a column and others floats, which do not hold all of them.
    """
    listed = ", ".join(literal(escape(file)) for file in files)  # each is taken for a pattern
    if is_csv(files[0]):
        function = f"read_csv([{listed}], union_by_name = true, {CSV_AS_WRITTEN}"
        function += f", sample_size = -1{choose_types(connection, function)}"
    else:
        _refuse_mixed_types(source, files)
        function = f"read_parquet([{listed}], union_by_name = true"
    plain = Reading(function=f"{function}, hive_partitioning = false", listed=listed)
    below, above = _folder_columns(source, files)
    if not below:
        return plain
    own = {str(row[0]).lower() for row in connection.execute(f"DESCRIBE FROM {plain.sql()}").fetchall()}
    if below <= own:
        return plain
    if below & own:
        msg = f"Table `{source}`: expected columns of the files or of their folders, got `{min(below & own)}` in both."
        raise DefinitionError(msg)
    aside = tuple(sorted(above - below - own))
    return Reading(function=f"{function}, hive_partitioning = true", listed=listed, aside=aside, has_folders=True)


def _refuse_mixed_types(source: str, files: Sequence[str]) -> None:
    """Refuse files whose common type of a column would change values of some: 2^53 + 1 is no double."""
    if len(files) == 1:
        return
    kinds: dict[str, dict[str, str]] = defaultdict(dict)  # column, in lower case -> kind of number -> its type
    for file in files:
        for column in parquet.read_schema(file):
            if is_exact(column.type) or types.is_floating(column.type):
                kinds[column.name.lower()][("float", "exact")[is_exact(column.type)]] = str(column.type)
    mixed = [(name, of) for name, of in kinds.items() if len(of) > 1]
    if mixed:
        name, of = min(mixed)
        msg = f"Table `{source}`: column `{name}`: expected one type in all files, got {of['exact']} and {of['float']}."
        raise DefinitionError(msg + "\nHint: a float does not hold each of these; write the files with one type.")


def is_exact(kind: DataType) -> bool:
    """Return whether a type holds numbers of which not every one is a double: of 64 bits, or decimals."""
    return kind in {int64(), uint64()} or types.is_decimal(kind)


def folder_values(chosen: Reading, files: Iterable[str]) -> dict[str, str]:
    """Return, for each file, what its rows hold that its bytes do not; nothing where folders name no column."""
    if not chosen.has_folders:
        return {}
    return {file: "/".join(part for part in Path(file).parts[:-1] if "=" in part) for file in files}


def check_head(connection: duckdb.DuckDBPyConnection, source: str, files: Sequence[str], names: Iterable[str]) -> None:
    """Refuse files with two columns whose names differ in case alone: DuckDB calls the second one otherwise.

    Args:
        connection: To read with.
        source: The table's name.
        files: Its files.
        names: Of its columns, as DuckDB has them.

    Raises:
        DefinitionError: There are two.
    """
    if not any(_NUMBERED.search(name) for name in names):
        return
    for file in files:
        head = _read_head(connection, file)
        twice = [name for name, n in Counter(name.lower() for name in head).items() if n > 1]
        if twice:
            same = [name for name in head if name.lower() == twice[0]]
            msg = f"Table `{source}`: expected columns that differ in more than case, got `{same[0]}` and `{same[1]}`."
            raise DefinitionError(msg)


def _folder_columns(source: str, files: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the names in folders (`name=value`) below the table's place, and in those that it lies in; lower case."""
    parts = Path(source).parts
    plain = next((n for n, part in enumerate(parts) if has_magic(part)), len(parts))
    if Path(source).exists():
        plain = len(parts) - int(Path(source).is_file())
    found: tuple[set[str], set[str]] = (set(), set())
    for file in files:
        for n, part in enumerate(Path(file).parts[:-1]):
            if "=" in part:
                found[int(n < plain)].add(part.split("=")[0].lower())
    return found


def _read_head(connection: duckdb.DuckDBPyConnection, file: str) -> list[str]:
    """Return the names of a file's columns as they stand in it."""
    if not is_csv(file):
        return list(parquet.read_schema(file).names)
    options = CSV_AS_WRITTEN.replace("header = true", "header = false")
    query = f"FROM read_csv({literal(escape(file))}, all_varchar = true, hive_partitioning = false, {options}) LIMIT 1"
    return [str(name) for name in connection.execute(query).fetchone() or () if name is not None]
