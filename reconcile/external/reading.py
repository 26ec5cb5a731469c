"""How files of others are read: as they are written, with the columns that their folders name (`day=2024-01-31`).

DuckDB guesses where it is not told. A folder above the table would be a column, one that the files hold too would
take the place of theirs, and a name that stands twice in a head would get another: all of that is decided here.
"""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape, has_magic
from pathlib import Path

import duckdb
from pyarrow import ArrowException, DataType, Schema, parquet, types
from pyarrow.parquet import ParquetSchema

from cutover.errors import DefinitionError, LakeError
from cutover.quoting import CSV_AS_WRITTEN, literal
from cutover.reconcile.external.csv_types import choose_types

CSV = (".csv", ".csv.gz", ".tsv")
_NUMBERED = re.compile(r"_[0-9]+$")
_SEPARATOR = re.compile(r"[,;|\t]")
_FRACTIONS = {"halffloat": 11, "float": 24, "double": 53}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """DuckDB's function that reads the files, and columns of folders that are none of the table's."""

    function: str  # up to its closing bracket
    optional: Mapping[str, bool] = field(default_factory=dict)  # column -> may hold nulls, where the schema says so
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
        LakeError: A file is no Parquet.
    """
    listed = ", ".join(literal(escape(file)) for file in files)  # each is taken for a pattern
    if is_csv(files[0]):
        function = f"read_csv([{listed}], union_by_name = true, {CSV_AS_WRITTEN}"
        function += f", sample_size = -1{choose_types(connection, function)}"
        optional = {}
    else:
        heads = [_read_head_of_parquet(source, file) for file in files]
        _refuse_mixed_types(source, heads)
        # Files of one schema are bound by the first one: a query costs as much as one file, and not as all of them.
        function = f"read_parquet([{listed}], union_by_name = {str(not _are_alike(heads)).lower()}"
        optional = _find_optional(heads)
    plain = Reading(function=f"{function}, hive_partitioning = false", optional=optional)
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
    function += ", hive_partitioning = true"
    return Reading(function=function, optional=optional, aside=aside, has_folders=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParquetHead:
    """The schema of one file, as Parquet and as Arrow have it: the first knows how values lie, the second all names."""

    stored: ParquetSchema
    columns: Schema


def _read_head_of_parquet(source: str, file: str) -> _ParquetHead:
    try:
        stored = parquet.read_metadata(file).schema
        return _ParquetHead(stored=stored, columns=stored.to_arrow_schema())
    except (ArrowException, OSError) as error:
        msg = f"Table `{source}`: expected Parquet, got in `{Path(file).name}`: {str(error).splitlines()[0]}"
        raise LakeError(msg, runbook="TableUnreadable") from None


def _are_alike(heads: Sequence[_ParquetHead]) -> bool:
    """Return whether all files have the same columns, of the same types, in the same order."""
    one = heads[0]
    return all(head.stored.equals(one.stored) and head.columns.equals(one.columns) for head in heads[1:])


def _find_optional(heads: Sequence[_ParquetHead]) -> dict[str, bool]:
    """Return whether a column may hold nulls; one file that allows them, or that lacks the column, is enough."""
    having = Counter(name for head in heads for name in head.columns.names)
    nullable = {column.name for head in heads for column in head.columns if column.nullable}
    return {name: name in nullable or n < len(heads) for name, n in having.items()}


def _refuse_mixed_types(source: str, heads: Sequence[_ParquetHead]) -> None:
    """Refuse files whose common type of a column would change values of some: 2^53 + 1 is no double."""
    whole: dict[str, DataType] = {}  # column, in lower case -> the widest type of whole numbers or decimals
    floats: dict[str, DataType] = {}  # -> the narrowest type of floats
    for column in (column for head in heads for column in head.columns):
        name, kind = column.name.lower(), column.type
        if types.is_floating(kind):
            floats[name] = min(floats.get(name, kind), kind, key=_count_bits)
        elif types.is_integer(kind) or types.is_decimal(kind):
            whole[name] = max(whole.get(name, kind), kind, key=_count_bits)
    mixed = sorted(
        name for name in whole.keys() & floats.keys() if _count_bits(whole[name]) > _count_bits(floats[name])
    )
    if mixed:
        got = f"{whole[mixed[0]]} and {floats[mixed[0]]}"
        msg = f"Table `{source}`: column `{mixed[0]}`: expected one type in all files, got {got}."
        raise DefinitionError(msg + "\nHint: a float does not hold each of these; write the files with one type.")


def _count_bits(kind: DataType) -> int:
    """Return the bits of whole numbers that a type holds, each of them: of floats those of the fraction."""
    return _FRACTIONS.get(str(kind), kind.bit_width)


def folder_values(chosen: Reading, files: Iterable[str]) -> dict[str, str]:
    """Return, for each file, what its rows hold that its bytes do not; nothing where folders name no column."""
    if not chosen.has_folders:
        return {}
    return {file: "/".join(part for part in Path(file).parts[:-1] if "=" in part) for file in files}


def check_head(connection: duckdb.DuckDBPyConnection, source: str, files: Sequence[str], names: Iterable[str]) -> None:
    """Refuse files with two columns whose names differ in case alone: DuckDB calls the second one otherwise.

    And CSV whose rows do not have the same number of fields, which it takes for one column.

    Args:
        connection: To read with.
        source: The table's name.
        files: Its files.
        names: Of its columns, as DuckDB has them.

    Raises:
        DefinitionError: There are two, or a whole head was taken for one name.
    """
    names = [*names]
    _refuse_one_column(source, files, names)
    if not any(_NUMBERED.search(name) for name in names):
        return
    for file in files:
        head = _read_head(connection, file)
        twice = [name for name, n in Counter(name.lower() for name in head).items() if n > 1]
        if twice:
            same = [name for name in head if name.lower() == twice[0]]
            msg = f"Table `{source}`: expected columns that differ in more than case, got `{same[0]}` and `{same[1]}`."
            raise DefinitionError(msg)


def _refuse_one_column(source: str, files: Sequence[str], names: Iterable[str]) -> None:
    """Refuse CSV of which DuckDB took a head of several names for one: no separator splits all of its rows alike."""
    odd = {name for name in names if _SEPARATOR.search(name)}
    for file in files if odd and is_csv(files[0]) else ():
        line = _read_first_line(file)
        fields = next(csv.reader([line], delimiter=(_SEPARATOR.search(line) or [","])[0]), [])
        if line in odd and len(fields) > 1:
            msg = f"Table `{source}`: expected rows of as many fields as the head has, got one column `{line[:80]}`."
            hint = "\nHint: some row has more fields or fewer, or a quote that is not closed."
            raise DefinitionError(msg + hint)


def _read_first_line(file: str) -> str:
    opened = gzip.open if file.endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", errors="replace") as stream:
        return str(stream.readline().rstrip("\r\n"))


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
