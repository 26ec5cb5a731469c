"""Readers of files that Cutover did not write, with the columns that their folders name (`day=2024-01-31`).

DuckDB infers what is not stated. A folder above the table would be a column, one that the files hold too would replace
it, and a repeated name in a header would be renamed: this module decides all of that.
"""

# ruff: noqa: S608 -- every text in a query is quoted by `literal`

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape, has_magic
from pathlib import Path

import duckdb
from pyarrow import ArrowException, DataType, Schema, parquet, schema, types
from pyarrow.parquet import ParquetSchema

from cutover.errors import DefinitionError, LakeError
from cutover.quoting import identifier, literal
from cutover.sources.csv_dialect import (
    UNNAMED,
    Dialect,
    describe_delimiters,
    is_csv,
    name_columns,
    read_csv_functions,
    read_csv_head,
)

DECIMAL_DIGITS = 38
"""Digits of the widest decimal of the engine."""

_FRACTIONS = {"halffloat": 11, "float": 24, "double": 53}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """DuckDB's functions that read the files, and columns of folders that are none of the table's."""

    functions: tuple[str, ...]  # each up to its closing bracket; rows of all of them are the table's
    unnamed: str | None = None  # what the engine calls the column `UNNAMED`, if it does not know that name
    optional: Mapping[str, bool] = field(default_factory=dict)  # column -> may hold nulls, where the schema says so
    aside: tuple[str, ...] = ()
    folders: frozenset[str] = frozenset()  # columns of the table that folders name, in lower case
    dialect: Mapping[str, str] = field(default_factory=dict)  # of CSV
    unreadable: Mapping[str, str] = field(
        default_factory=dict
    )  # column -> its type, that the engine would read wrongly

    def sql(self, options: str = "") -> str:
        """Return SQL of the files' rows, with further options of the functions."""
        renamed = "" if self.unnamed is None else f" RENAME ({identifier(self.unnamed)} AS {identifier(UNNAMED)})"
        parts = [f"SELECT *{renamed} FROM {function}{options})" for function in self.functions]
        return f"({' UNION ALL BY NAME '.join(parts)})"


def choose_reading(
    connection: duckdb.DuckDBPyConnection, source: str, files: Sequence[str], dialect: Dialect
) -> Reading:
    """Return how to read the files of one table, all of one kind.

    Raises:
        DefinitionError: Folders name a column that the files hold too, and one that they do not; files of Parquet
            hold whole numbers or decimals in a column and others floats, which do not hold all of these; or two columns
            differ in case alone.
        LakeError: A file is no Parquet, or CSV without a head.
    """
    plain = _read_csv(source, files, dialect) if is_csv(files[0]) else _read_parquet(source, files)
    folder_names, outer_folder_names = _folder_columns(source, files)
    if not folder_names:
        return _ignore_folders(plain)
    file_columns = {
        str(row[0]).lower() for row in connection.execute(f"DESCRIBE FROM {_ignore_folders(plain).sql()}").fetchall()
    }
    if folder_names <= file_columns:
        return _ignore_folders(plain)
    if folder_names & file_columns:
        name = min(folder_names & file_columns)
        msg = f"Table `{source}`: expected columns of the files or of their folders, got `{name}` in both."
        raise DefinitionError(msg)
    functions = tuple(f"{function}, hive_partitioning = true" for function in plain.functions)
    return replace(
        plain,
        functions=functions,
        aside=tuple(sorted(outer_folder_names - folder_names - file_columns)),
        folders=frozenset(folder_names),
    )


def _ignore_folders(plain: Reading) -> Reading:
    return replace(plain, functions=tuple(f"{function}, hive_partitioning = false" for function in plain.functions))


def _read_csv(source: str, files: Sequence[str], dialect: Dialect) -> Reading:
    heads = {file: read_csv_head(source, file, dialect) for file in files}
    for head in heads.values():
        reject_like_names(source, head.names)
    reject_like_names(source, dict.fromkeys(name for head in heads.values() for name in head.names))
    described = {"delimiter": describe_delimiters(heads.values()), **dialect.describe()}
    return Reading(functions=read_csv_functions(heads, dialect), dialect=described)


def _read_parquet(source: str, files: Sequence[str]) -> Reading:
    heads = [_read_head_of_parquet(source, file) for file in files]
    for head in heads:
        reject_like_names(source, head.columns.names)
    reject_like_names(source, dict.fromkeys(name for head in heads for name in head.columns.names))
    _reject_mixed_types(source, heads)
    file_list = ", ".join(literal(escape(file)) for file in files)  # `read_parquet` reads each as a pattern
    # Files of one schema are bound by the first one: a query costs as much as one file, and not as all of them.
    function = f"read_parquet([{file_list}], union_by_name = {str(not _are_alike(heads)).lower()}"
    function += ", hive_types_autocast = false"
    return Reading(
        functions=(function,),
        unnamed=_find_engine_name(source, heads),
        optional=_find_optional(heads),
        unreadable=_find_unreadable(heads),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParquetHead:
    """The schema of one file, as Parquet and as Arrow have it: the first knows how values lie, the second all names."""

    stored: ParquetSchema
    columns: Schema


def _read_head_of_parquet(source: str, file: str) -> _ParquetHead:
    try:
        stored = parquet.read_metadata(file).schema
        columns = stored.to_arrow_schema()
    except (ArrowException, OSError) as error:
        msg = f"Table `{source}`: expected Parquet, got in `{Path(file).name}`: {str(error).splitlines()[0]}"
        raise LakeError(msg, runbook="TableUnreadable") from None
    for column in columns:
        if _has_unnamed_part(column.type):
            msg = f"Table `{source}`: column `{column.name}`: expected fields with names, got one without."
            raise DefinitionError(msg + "\nHint: write a name for it.")
    names = name_columns(source, columns.names)
    return _ParquetHead(
        stored=stored, columns=schema([column.with_name(name) for column, name in zip(columns, names, strict=True)])
    )


def _find_engine_name(source: str, heads: Sequence[_ParquetHead]) -> str | None:
    """Return what the engine calls the column without a name: its place, which another column must not be called."""
    engine_names = {f"C{head.columns.names.index(UNNAMED)}" for head in heads if UNNAMED in head.columns.names}
    if not engine_names:
        return None
    taken = {name for head in heads for name in head.columns.names if name.lower() in map(str.lower, engine_names)}
    if len(engine_names) > 1 or taken:
        requirement = f"no column `{min(taken)}` besides it" if taken else "it in one place of all files"
        msg = f"Table `{source}`: one column has no name: expected {requirement}."
        raise DefinitionError(msg + "\nHint: write a name for it, or export the table to CSV.")
    return engine_names.pop()


def _are_alike(heads: Sequence[_ParquetHead]) -> bool:
    """Return whether all files have the same columns, of the same types, in the same order."""
    head_of_first = heads[0]
    return all(
        head.stored.equals(head_of_first.stored) and head.columns.equals(head_of_first.columns) for head in heads[1:]
    )


def _find_optional(heads: Sequence[_ParquetHead]) -> dict[str, bool]:
    """Return whether a column may hold nulls; one file that allows them, or that lacks the column, is enough."""
    having = Counter(name for head in heads for name in head.columns.names)
    nullable = {column.name for head in heads for column in head.columns if column.nullable}
    return {name: name in nullable or n < len(heads) for name, n in having.items()}


def _reject_mixed_types(source: str, heads: Sequence[_ParquetHead]) -> None:
    """Refuse files whose common type of a column would change values of some: 2^53 + 1 is no double."""
    exact_types: dict[str, DataType] = {}  # column, in lower case -> the widest type of whole numbers or decimals
    float_types: dict[str, DataType] = {}  # -> the narrowest type of floats
    for column in (column for head in heads for column in head.columns):
        name, kind = column.name.lower(), column.type
        if types.is_floating(kind):
            float_types[name] = min(float_types.get(name, kind), kind, key=_count_bits)
        elif types.is_integer(kind) or types.is_decimal(kind):
            exact_types[name] = max(exact_types.get(name, kind), kind, key=_count_bits)
    mixed = sorted(
        name
        for name in exact_types.keys() & float_types.keys()
        if _count_bits(exact_types[name]) > _count_bits(float_types[name])
    )
    if mixed:
        type_pair = f"{exact_types[mixed[0]]} and {float_types[mixed[0]]}"
        msg = f"Table `{source}`: column `{mixed[0]}`: expected one type in all files, got {type_pair}."
        raise DefinitionError(msg + "\nHint: a float does not hold each of these; write the files with one type.")


def _count_bits(kind: DataType) -> int:
    """Return the bits of whole numbers that a type holds, each of them: of floats those of the fraction."""
    return _FRACTIONS.get(str(kind), kind.bit_width)


def folder_values(reading: Reading, files: Iterable[str]) -> dict[str, str]:
    """Return, for each file, what its rows hold that its bytes do not; nothing where folders name no column."""
    if not reading.folders:
        return {}
    return {file: "/".join(part for part in Path(file).parts[:-1] if "=" in part) for file in files}


def _find_unreadable(heads: Sequence[_ParquetHead]) -> dict[str, str]:
    """Return columns with a type that the engine reads as another: long decimals as doubles, durations as integers."""
    return {column.name: str(column.type) for head in heads for column in head.columns if _is_unreadable(column.type)}


def _has_unnamed_part(kind: DataType) -> bool:
    fields = [kind.field(n) for n in range(kind.num_fields)]
    return any((types.is_struct(kind) and not field.name) or _has_unnamed_part(field.type) for field in fields)


def _is_unreadable(kind: DataType) -> bool:
    if types.is_decimal(kind):
        return int(kind.precision) > DECIMAL_DIGITS
    return types.is_duration(kind) or any(_is_unreadable(kind.field(n).type) for n in range(kind.num_fields))


def reject_like_names(source: str, names: Iterable[str]) -> None:
    """Refuse columns whose names differ in case alone: DuckDB calls the second one otherwise."""
    names_by_fold: dict[str, str] = {}
    for name in names:
        earlier_name = names_by_fold.get(name.lower())
        if earlier_name is not None:
            msg = (
                f"Table `{source}`: expected columns that differ in more than case, got `{earlier_name}` and `{name}`."
            )
            raise DefinitionError(msg)
        names_by_fold[name.lower()] = name


def _folder_columns(source: str, files: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the names in folders (`name=value`) below the table's place, and in those that it lies in; lower case."""
    parts = Path(source).parts
    plain = next((n for n, part in enumerate(parts) if has_magic(part)), len(parts))
    if Path(source).exists():
        plain = len(parts) - int(Path(source).is_file())
    names: tuple[set[str], set[str]] = (set(), set())
    for file in files:
        for n, part in enumerate(Path(file).parts[:-1]):
            if "=" in part:
                names[int(n < plain)].add(part.split("=")[0].lower())
    return names
