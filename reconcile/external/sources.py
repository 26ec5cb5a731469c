"""Tables that Cutover did not make: Delta folders, Parquet files, folders or globs, as views of one connection."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

import duckdb

from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.quoting import identifier, literal
from cutover.reconcile.result.query import number

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_FLOATS = ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that two tables have in common, with the type that both are compared as."""

    common: Mapping[str, str]
    exact: frozenset[str]  # integers on one side, floats on the other: no noise of summing is to be allowed for
    notes: tuple[str, ...]  # what differs in the schemas
    is_same: bool  # no column is on one side only, no two types are of another kind, every value fits the common type


def bind(connection: duckdb.DuckDBPyConnection, view: str, source: str) -> None:
    """Bind a view to a Delta table (its newest version) or to Parquet.

    Raises:
        DefinitionError: Nothing is there, or it is neither.
        LakeError: A file is missing or cannot be read.
    """
    if "://" in source or (Path(source) / "_delta_log").is_dir():
        delta.relation(connection, view, source)
        return
    listed = ", ".join(literal(file) for file in _parquet_files(source))
    try:
        connection.execute(
            f"CREATE TEMP VIEW {identifier(view)} AS FROM read_parquet([{listed}], union_by_name = true)"
        )
    except duckdb.Error as error:
        msg = f"Table `{source}`: expected Parquet, got: {error}"
        raise LakeError(msg, runbook="TableUnreadable") from None


def _parquet_files(source: str) -> list[str]:
    path = Path(source)
    if path.is_file():
        _refuse_delta(source, [source])
        return [source]
    asked = has_magic(source)
    pattern = source if asked else str(path / "**" / "*.parquet")
    found = sorted(glob(pattern, recursive=True))  # noqa: PTH207 -- a pattern with its folder, as a shell takes it
    files = [file for file in found if asked or not _is_hidden(Path(file).relative_to(path))]
    if not files:
        msg = f"Table `{source}`: expected a Delta folder, a Parquet file, a folder of them or a glob, found nothing."
        raise DefinitionError(msg)
    _refuse_delta(source, files)
    return files


def _is_hidden(path: Path) -> bool:
    """Return whether Spark and its kin pass a file over: what is under way, or about the others."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.parts)


def _refuse_delta(source: str, files: Sequence[str]) -> None:
    folders = {folder for file in files for folder in Path(file).parents}
    inside = sorted(folder for folder in folders if (folder / "_delta_log").is_dir())
    if inside:
        msg = f"Table `{source}`: expected Parquet files, got those of the Delta table `{inside[0]}`."
        raise DefinitionError(msg + "\nHint: name its folder; among its files are some that it no longer lists.")


def align(connection: duckdb.DuckDBPyConnection, raw: Sequence[str], into: Sequence[str]) -> Columns:
    """Make both sides comparable: views `into` over `raw` with the common columns, cast to the common type.

    Args:
        connection: Holds the views `raw`, expected side first.
        raw: Names of two views.
        into: Names of the views to make.
    """
    left, right = (_types(connection, view) for view in raw)
    common = {name: _common(connection, kind, right[name]) for name, kind in left.items() if name in right}
    lossy = {
        name: sum(_count_changed_values(connection, view, name, kind) for view in raw)
        for name, kind in common.items()
        if left[name] != right[name]
    }
    for view, name in zip(raw, into, strict=True):
        columns = ", ".join(f"TRY_CAST({identifier(c)} AS {kind}) AS {identifier(c)}" for c, kind in common.items())
        connection.execute(f"CREATE TEMP VIEW {identifier(name)} AS SELECT {columns or '1'} FROM {identifier(view)}")
    notes = [f"Column `{name}` is on the expected side only." for name in left if name not in right]
    notes += [f"Column `{name}` is on the actual side only." for name in right if name not in left]
    absent = bool(notes)
    apart = [name for name in common if lossy.get(name) or not _is_alike(left[name], right[name])]
    notes += [
        f"Column `{name}` is {left[name]} on the expected side, {right[name]} on the actual side: compared as {kind}."
        for name, kind in common.items()
        if left[name] != right[name]
    ]
    notes += [
        f"Column `{name}`: {count:,} values do not fit into {common[name]}." for name, count in lossy.items() if count
    ]
    exact = frozenset(name for name in common if {_kind(left[name]), _kind(right[name])} == {"whole", "float"})
    return Columns(common=common, exact=exact, notes=tuple(notes), is_same=not absent and not apart)


def _types(connection: duckdb.DuckDBPyConnection, view: str) -> dict[str, str]:
    rows = connection.execute(f"DESCRIBE {identifier(view)}").fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def _common(connection: duckdb.DuckDBPyConnection, left: str, right: str) -> str:
    """Return the type that both fit into; text where nothing else does."""
    if left == right:
        return left
    if not _is_alike(left, right):
        return "VARCHAR"
    query = f"DESCRIBE SELECT CAST(NULL AS {left}) AS c UNION ALL SELECT CAST(NULL AS {right})"
    return str(connection.execute(query).fetchall()[0][1])


def _count_changed_values(connection: duckdb.DuckDBPyConnection, view: str, column: str, kind: str) -> int:
    """Return how many values of a column a cast to a type would change."""
    name, own = identifier(column), _types(connection, view)[column]
    if kind in {own, "VARCHAR"}:
        return 0
    back = f"TRY_CAST(TRY_CAST({name} AS {kind}) AS {own})"
    return number(connection, f"SELECT count(*) FROM {identifier(view)} WHERE {back} IS DISTINCT FROM {name}")


def _is_alike(left: str, right: str) -> bool:
    """Return whether two types are of one kind, so that a cast between them changes no value that fits."""
    numbers = {"whole", "decimal", "float"}
    kinds = {_kind(left), _kind(right)}
    return left == right or kinds <= numbers or kinds == {"timestamp"}


def _kind(name: str) -> str:
    if name.endswith("]"):
        return name  # a list of numbers is no number
    if name in _NUMBERS:
        return "whole"
    if name in _FLOATS:
        return "float"
    if name.startswith("DECIMAL"):
        return "decimal"
    return "timestamp" if name.startswith("TIMESTAMP") else name


def is_number(name: str) -> bool:
    """Return whether values of a type can be a tolerance apart."""
    return _kind(name) in {"whole", "decimal", "float"}
