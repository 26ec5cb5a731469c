"""Tables that Cutover did not make: Delta folders, Parquet and CSV, as views of one connection."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

import duckdb

from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.column_types import is_alike, kind_of
from cutover.reconcile.result.query import number

_CSV = (".csv", ".csv.gz", ".tsv")
_READ_PARQUET = "read_parquet([{}], union_by_name = true)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that two tables have in common, with the type that both are compared as."""

    common: Mapping[str, str]
    exact: frozenset[str]  # integers on one side, floats on the other: no noise of summing is to be allowed for
    notes: tuple[str, ...]  # what differs in the schemas
    is_same: bool  # no column is on one side only, no two types are of another kind, every value fits the common type


def bind(connection: duckdb.DuckDBPyConnection, view: str, source: str) -> None:
    """Bind a view to a Delta table (its newest version), to Parquet, or to CSV with a head.

    Types of CSV are those that every value of a column fits; an empty cell is null.

    Raises:
        DefinitionError: Nothing is there, or it is none of these.
        LakeError: A file is missing or cannot be read.
    """
    if "://" in source or (Path(source) / "_delta_log").is_dir():
        delta.relation(connection, view, source)
        return
    files = _files(source)
    listed = ", ".join(literal(file) for file in files)
    is_csv = files[0].endswith(_CSV)
    read = "read_csv([{}], header = true, sample_size = -1, union_by_name = true)" if is_csv else _READ_PARQUET
    try:
        connection.execute(f"CREATE TEMP VIEW {identifier(view)} AS FROM {read.format(listed)}")
    except duckdb.Error as error:
        msg = f"Table `{source}`: expected {'CSV' if is_csv else 'Parquet'}, got: {error}"
        raise LakeError(msg, runbook="TableUnreadable") from None


def _files(source: str) -> list[str]:
    path = Path(source)
    if path.is_file():
        _refuse_delta(source, [source])
        return [source]
    asked = has_magic(source)
    patterns = [source] if asked else [str(path / "**" / f"*{end}") for end in (".parquet", *_CSV)]
    found = sorted({file for pattern in patterns for file in glob(pattern, recursive=True)})  # noqa: PTH207 -- a pattern with its folder, as a shell takes it
    files = [file for file in found if asked or not _is_hidden(Path(file).relative_to(path))]
    if not files:
        msg = f"Table `{source}`: expected a Delta folder, a Parquet or CSV file, a folder or a glob, found nothing."
        raise DefinitionError(msg)
    if len({file.endswith(_CSV) for file in files}) > 1:
        msg = f"Table `{source}`: expected files of one kind, got Parquet and CSV."
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
    left, right = (types_of(connection, view) for view in raw)
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
    apart = [name for name in common if lossy.get(name) or not is_alike(left[name], right[name])]
    notes += [
        f"Column `{name}` is {left[name]} on the expected side, {right[name]} on the actual side: compared as {kind}."
        for name, kind in common.items()
        if left[name] != right[name]
    ]
    notes += [
        f"Column `{name}`: {count:,} values do not fit into {common[name]}." for name, count in lossy.items() if count
    ]
    exact = frozenset(name for name in common if {kind_of(left[name]), kind_of(right[name])} == {"whole", "float"})
    return Columns(common=common, exact=exact, notes=tuple(notes), is_same=not absent and not apart)


def types_of(connection: duckdb.DuckDBPyConnection, view: str) -> dict[str, str]:
    """Return the columns of a view with their DuckDB types, in order."""
    rows = connection.execute(f"DESCRIBE {identifier(view)}").fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def _common(connection: duckdb.DuckDBPyConnection, left: str, right: str) -> str:
    """Return the type that both fit into; text where nothing else does."""
    if left == right:
        return left
    if not is_alike(left, right):
        return "VARCHAR"
    query = f"DESCRIBE SELECT CAST(NULL AS {left}) AS c UNION ALL SELECT CAST(NULL AS {right})"
    return str(connection.execute(query).fetchall()[0][1])


def _count_changed_values(connection: duckdb.DuckDBPyConnection, view: str, column: str, kind: str) -> int:
    """Return how many values of a column a cast to a type would change."""
    name, own = identifier(column), types_of(connection, view)[column]
    if kind in {own, "VARCHAR"}:
        return 0
    back = f"TRY_CAST(TRY_CAST({name} AS {kind}) AS {own})"
    return number(connection, f"SELECT count(*) FROM {identifier(view)} WHERE {back} IS DISTINCT FROM {name}")
