"""Two tables as a request wants them compared, with their digests: groups that differ, and repeated keys.

Names are mapped, columns left out, texts brought to their normal form. Digests that were stored are not computed again.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import duckdb

from cutover.engine.queries import fetch_number, fetch_row
from cutover.errors import DefinitionError
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.column_types import holds, is_float_column, is_from, is_time, replace_parts, sort_maps
from cutover.reconcile.comparison.diff import Budget, Diff, diff_relations
from cutover.reconcile.comparison.digests import compare_digests
from cutover.reconcile.comparison.layout import (
    FLOAT_RELATIVE,
    Layout,
    NumberText,
    Value,
    make_default_comparison,
    narrow_types,
    wide_columns,
)
from cutover.reconcile.external import kept_digests
from cutover.reconcile.external.alignment import Columns, find_like_names, format_map_options, quote_like_name
from cutover.reconcile.external.cell_texts import find_number_pattern
from cutover.reconcile.external.kept_digests import DigestStore
from cutover.reconcile.external.request import DiffRequest, reject_long_numbers
from cutover.reconcile.external.side_digests import (
    Read,
    SideRows,
    count_doubled,
    find_paths,
    kept_rows_sql,
    make_digests,
)
from cutover.reconcile.result.text import count_noun
from cutover.settings import Settings
from cutover.sources.binding import BoundTable
from cutover.timestamps import format_micros

SIDES = ("expected", "actual")
_NAMES_SHOWN = 20
_RESERVED_NAMES = re.compile(r"__(of|part|copy|row|diff|rank|so_far|place|[ead][0-9]+)", re.IGNORECASE)
"""Columns of the tables that a comparison makes of both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Both sides as they are compared, expected side first."""

    notes: tuple[str, ...]  # what is not compared
    texts: tuple[Mapping[str, str], ...]  # column -> its SQL over the raw side
    young: tuple[str, ...]  # SQL over the raw side: a row is too young to compare


def prepare_sides(
    connection: duckdb.DuckDBPyConnection, diff_request: DiffRequest, sources: Sequence[BoundTable], into: Sequence[str]
) -> Prepared:
    """Make a view of each raw side.

    Args:
        connection: Holds the views of the sources.
        diff_request: Its names, `excluded`, `normalized`, `caseless`, `window` and `before`.
        sources: Expected side first.
        into: Names of the views to make.

    Raises:
        DefinitionError: A column is not there, stands twice after it was renamed, or is of another type.
    """
    notes = [f"Not compared, as asked: {', '.join(diff_request.excluded)}."] if diff_request.excluded else []
    texts_by_side: list[Mapping[str, str]] = []
    young_conditions: list[str] = []
    names_by_side: tuple[dict[str, str], ...] = (
        {},
        {name: expected_name for expected_name, name in diff_request.names.items()},
    )
    _check_names("--map", diff_request.names, sources[0].types)
    for side, source, new_names, prepared_view in zip(SIDES, sources, names_by_side, into, strict=True):
        view, types = source.raw, _rename(source.types, new_names, side)
        their_names = {expected_name: actual_name for actual_name, expected_name in new_names.items()}
        compared_names = [name for name in types if name not in diff_request.excluded]
        sorted_maps = _sort_maps(connection, source)
        texts = {
            name: _make_text(diff_request, name, sorted_maps[their_names.get(name, name)], types[name])
            for name in compared_names
        }
        columns = ", ".join(f"{text} AS {identifier(name)}" for name, text in texts.items())
        young, young_rows = _find_young(connection, diff_request, view, types, their_names)
        connection.execute(
            f"CREATE TEMP VIEW {identifier(prepared_view)} AS"
            f" SELECT {columns or '1'} FROM {identifier(view)} WHERE NOT {young}"
        )
        notes += [f"{text} of the {side} side." for text in young_rows]
        texts_by_side.append(texts)
        young_conditions.append(young)
    renamed_columns = [
        {new_names.get(name, name) for name in source.types}
        for source, new_names in zip(sources, names_by_side, strict=True)
    ]
    known_names = {name for names in renamed_columns for name in names} | {*diff_request.excluded}
    _check_names("--exclude", diff_request.excluded, {name for source in sources for name in source.types})
    for option, names in (
        ("--normalize", diff_request.normalized),
        ("--ignore-case", diff_request.caseless),
        ("--mask", diff_request.masked),
        ("--type", diff_request.types),
    ):
        _check_names(option, names, known_names)
    return Prepared(notes=tuple(notes), texts=tuple(texts_by_side), young=tuple(young_conditions))


def _sort_maps(connection: duckdb.DuckDBPyConnection, source: BoundTable) -> dict[str, str]:
    """Return SQL of each column; one with a map has its entries in order."""
    if not any("MAP(" in kind for kind in source.types.values()):
        return {name: identifier(name) for name in source.types}
    relation = connection.table(source.raw)
    return {
        name: sort_maps(identifier(name), kind) for name, kind in zip(relation.columns, relation.types, strict=True)
    }


def make_layout(diff_request: DiffRequest, columns: Columns) -> Layout:
    """Return key and values of two aligned sides.

    Raises:
        DefinitionError: A column of the key or with a tolerance is not on both sides, or a tolerance does not fit it.
    """
    _reject_reserved_names(columns.common)
    repeated_names = sorted({name for name in diff_request.key if diff_request.key.count(name) > 1})
    if repeated_names:
        msg = f"`--key`: column `{repeated_names[0]}`: expected each column once."
        raise DefinitionError(msg)
    window = (diff_request.window,) if diff_request.window else ()
    keys = tuple(dict.fromkeys((*window, *diff_request.key)))
    for name in (*keys, *diff_request.tolerances):
        if name not in columns.common:
            shared_names = list_some(columns.common)
            msg = f"Column `{name}`: expected a column of both tables, they share {shared_names}."
            like_names = [*find_like_names(*columns.types_by_side)]
            if names := [*find_like_names([name], columns.common)]:
                msg += f"\nHint: the column is called {quote_like_name(names[0][1], name)}."
            elif like_names:
                msg += (
                    f"\nHint: `{format_map_options(like_names)}` says that columns written almost alike are one; other"
                )
                msg += " options name them as the expected side has them."
            raise DefinitionError(msg)
    keys_with_tolerance = [name for name in keys if name in diff_request.tolerances]
    if keys_with_tolerance:
        msg = (
            f"`--tolerance`: column `{keys_with_tolerance[0]}`: expected a column that is compared, got one of the key."
        )
        raise DefinitionError(msg + "\nHint: rows are matched by equal keys; round the key on both sides first.")
    values = tuple(_make_value(diff_request, columns, name) for name in columns.common if name not in keys)
    return Layout(
        keys=keys,
        values=values,
        group=diff_request.window,
        wide=wide_columns(columns.common),
        narrow=narrow_types(columns.common),
    )


def list_some(names: Iterable[str]) -> str:
    """Return names as a message lists them: the first ones, and how many more there are."""
    all_names = [*names]
    more = f" and {len(all_names) - _NAMES_SHOWN:,} more" if len(all_names) > _NAMES_SHOWN else ""
    return f"{', '.join(all_names[:_NAMES_SHOWN]) or 'none'}{more}"


def _reject_reserved_names(names: Iterable[str]) -> None:
    """Refuse columns that have the name of one that a comparison makes itself."""
    reserved_names = sorted(name for name in names if _RESERVED_NAMES.fullmatch(name))
    if reserved_names:
        msg = f"Column `{reserved_names[0]}`: expected a name that a comparison does not use itself."
        raise DefinitionError(
            msg + f"\nHint: `--exclude {reserved_names[0]}` leaves it out; or rename it in both tables."
        )


def _make_value(diff_request: DiffRequest, columns: Columns, name: str) -> Value:
    kind, number, digits = columns.common[name], columns.numbers.get(name), columns.digits.get(name, {})
    value = make_default_comparison(name, kind)
    if digits and () not in digits:
        return _make_nested_value(diff_request, columns, value)
    if name in diff_request.tolerances:
        if number is None and digits:
            reject_long_numbers(name)
        if number is None:
            return diff_request.tolerances[name].apply(value, kind)
        text = NumberText(kind=number, pattern=None if is_time(number) else find_number_pattern(number))
        return diff_request.tolerances[name].apply(replace(value, number=text), number)
    integers = columns.integers.get(name, frozenset())
    if number is not None and is_float_column(number):
        # Texts of CSV are floats as the engine writes them, or cells that are none of these.
        text = NumberText(kind=number, pattern=find_number_pattern(number) if digits else None)
        noise = replace(value, exact=False, relative=FLOAT_RELATIVE)
        return replace(noise, keeps_whole=True, integers=integers, number=text)
    if holds(kind, is_float_column):
        return replace(value, exact=False, relative=FLOAT_RELATIVE, keeps_whole=True, nested=kind, integers=integers)
    return replace(value, keeps_whole=True, integers=integers) if is_float_column(kind) else value


def _make_nested_value(diff_request: DiffRequest, columns: Columns, value: Value) -> Value:
    """Return how a list, struct or map is compared of which some numbers are compared by all of their digits."""
    kind = columns.common[value.name]
    digits = {
        path: number for path, number in columns.digits[value.name].items() if number is None or not is_time(number)
    }
    part_numbers = {
        path: NumberText(kind=number, pattern=find_number_pattern(number))
        for path, number in digits.items()
        if number is not None
    }
    kind_of_numbers = replace_parts(kind, {path: text.kind for path, text in part_numbers.items()})
    if value.name in diff_request.tolerances:
        if len(part_numbers) < len(digits):
            reject_long_numbers(value.name)
        value = diff_request.tolerances[value.name].apply(value, kind_of_numbers)
    elif holds(kind_of_numbers, is_float_column):
        integers = columns.integers.get(value.name, frozenset())
        value = replace(value, exact=False, relative=FLOAT_RELATIVE, keeps_whole=True, integers=integers)
    return value if value.exact else replace(value, nested=kind, part_numbers=part_numbers)


def _rename(types: Mapping[str, str], new_names: Mapping[str, str], side: str) -> dict[str, str]:
    _check_names("--map", new_names, types)
    names = [new_names.get(name, name) for name in types]
    repeated_names = sorted({name for name in names if names.count(name) > 1})
    if repeated_names:
        msg = f"`--map`: expected names that the {side} side does not have, got `{repeated_names[0]}`."
        raise DefinitionError(msg)
    return dict(zip(names, types.values(), strict=True))


def _make_text(diff_request: DiffRequest, name: str, column: str, kind: str) -> str:
    """Return SQL of a column as it is compared: a text in normal form and without case, where asked."""
    for option, names in (("--normalize", diff_request.normalized), ("--ignore-case", diff_request.caseless)):
        if name in names and kind != "VARCHAR":
            msg = f"`{option}`: column `{name}`: expected a text, got {kind}."
            raise DefinitionError(msg)
    if name in diff_request.normalized:
        column = f"trim(regexp_replace(nfc_normalize({column}), '[\\s\\p{{Z}}]+', ' ', 'g'))"
    return f"lower({column})" if name in diff_request.caseless else column


def _find_young(
    connection: duckdb.DuckDBPyConnection,
    diff_request: DiffRequest,
    view: str,
    types: Mapping[str, str],
    their_names: Mapping[str, str],
) -> tuple[str, list[str]]:
    """Return SQL that is true for rows whose window is too young, and how many there are, as the head of a note."""
    if diff_request.cutoff is None:
        return "false", []
    kind = types.get(str(diff_request.window))
    if kind is None or not is_time(kind):
        msg = f"`--min-age`: `--window-column`: expected a date or a timestamp on both sides, got {kind or 'none'}."
        if kind == "VARCHAR":
            msg += f"\nHint: `--type {diff_request.window}=timestamp` states that its texts are times."
        raise DefinitionError(msg)
    column = identifier(their_names.get(str(diff_request.window), str(diff_request.window)))
    young = is_from(column, kind, diff_request.cutoff)
    count = fetch_number(connection, f"SELECT count(*) FROM {identifier(view)} WHERE {young}")
    return young, [f"Too young to compare, from {format_micros(diff_request.cutoff)} on: {count_noun(count, 'row')}"]


def _check_names(option: str, names: Iterable[str], known_names: Iterable[str]) -> None:
    existing_names = [*known_names]
    missing = [name for name in names if name not in existing_names]
    if missing:
        msg = f"`{option}`: column `{missing[0]}`: expected one of {list_some(existing_names)}."
        like_names = [*find_like_names(missing[:1], existing_names)]
        if like_names:
            msg += f"\nHint: the column is called {quote_like_name(like_names[0][1], missing[0])}."
        raise DefinitionError(msg)


COUNTING = 50
"""Megabytes of memory per thread to read all keys; beyond it, disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTables:
    """Both sides with their digests."""

    connection: duckdb.DuckDBPyConnection
    layout: Layout
    sides: tuple[SideRows, SideRows]
    doubled: tuple[int, int]  # keys of each side that have more than one row
    notes: tuple[str, ...]

    def find(self, budget: Budget) -> Diff:
        """Make the table `different`: rows of the groups whose digests differ, from the files that hold them.

        Raises:
            LakeError: A file changed since the comparison began.
        """
        groups = "different_groups"
        digests = compare_digests(self.connection, "digests_0", "digests_1", into=groups)
        for side in self.sides:
            paths = find_paths(self.connection, side, groups)
            self.connection.execute(f"CREATE OR REPLACE TEMP VIEW part_{side.number} AS FROM {side.select(paths)}")
        result = diff_relations(
            self.connection,
            self.layout,
            "part_0",
            "part_1",
            into="different",
            budget=budget,
            digests=digests,
            counts_near=True,
        )
        for side in self.sides:
            kept_digests.reject_changed_files(side.files)
        return result

    def count_rows(self) -> int:
        """Return how many rows the actual side has."""
        return fetch_number(self.connection, "SELECT sum(n) FROM digests_1")

    def measure_groups(self) -> tuple[int, Any, Any]:
        """Return how many groups there are on either side, and the lowest and the highest of them."""
        both = "(SELECT _group FROM digests_0 UNION SELECT _group FROM digests_1)"
        count, lowest, highest = fetch_row(self.connection, f"SELECT count(*), min(_group), max(_group) FROM {both}")
        return int(count), lowest, highest


def open_tables(
    connection: duckdb.DuckDBPyConnection,
    diff_request: DiffRequest,
    sources: Sequence[BoundTable],
    prepared: Prepared,
    columns: Columns,
    settings: Settings | None,
) -> OpenTables:
    """Make the digests of both sides, of files that are not known alone, and keep them.

    Args:
        connection: Holds the sources' views.
        diff_request: Key, window and age.
        sources: Expected side first.
        prepared: Of these sources.
        columns: That both have in common.
        settings: Where digests are kept; None: nowhere.

    Raises:
        DefinitionError: A column of the key or with a tolerance is not on both sides, or a tolerance does not fit it.
        LakeError: A file cannot be read.
    """
    layout = make_layout(diff_request, columns)
    group_type = "UBIGINT" if layout.group is None else columns.common[layout.group]
    folder = None if settings is None else settings.home.resolve() / "digests"
    # Windows that are too young are left out of the digests, so that the next run, when they are older, finds the rest.
    by_group = diff_request.cutoff is not None and is_time(group_type)
    young = "false" if not by_group else is_from("_group", group_type, diff_request.cutoff or 0)
    unwanted = ("false", "false") if by_group else prepared.young
    texts = [
        {name: columns.convert(side, name, texts_of_side[name]) for name in columns.common}
        for side, texts_of_side in enumerate(prepared.texts)
    ]
    store = DigestStore(folder=folder, request="", group_type=group_type)
    sides = tuple(
        SideRows(
            number=n,
            source=source,
            files=kept_digests.read_contents(source, checked=store.keeps),
            columns=texts[n],
            unwanted=unwanted[n],
        )
        for n, source in enumerate(sources)
    )
    store = replace(store, request=_name_request(layout, sides))
    kept_files = kept_digests.find_kept(store)
    bucketed, read_files = make_digests(connection, layout, sides, kept_files, group_type=group_type, young=young)
    doubled = _count_doubled(connection, bucketed, sides, settings)
    if read_files.files:
        for side in sides:
            kept_digests.reject_changed_files(side.files)
        is_full = len(kept_files.files) >= kept_digests.MOST_PARTS
        replaced_files = (*kept_files.stale, *(kept_files.files if is_full else ()))
        kept_rows = kept_rows_sql(include_reused=is_full)
        kept_digests.store_digests(connection, store, kept_rows, buckets=bucketed.buckets or 1, instead=replaced_files)
    notes = (*(() if kept_files.note is None else (kept_files.note,)), *_describe_read(read_files))
    return OpenTables(connection=connection, layout=bucketed, sides=(sides[0], sides[1]), doubled=doubled, notes=notes)


def _count_doubled(
    connection: duckdb.DuckDBPyConnection, layout: Layout, sides: Sequence[SideRows], settings: Settings | None
) -> tuple[int, int]:
    """Count the keys that have more than one row; by way of the disk, so that memory does not grow with the rows."""
    if settings is None:  # an engine that others use, too
        return count_doubled(connection, layout, sides)
    threads = fetch_number(connection, "SELECT current_setting('threads')")
    try:
        connection.execute(f"SET memory_limit = '{COUNTING * threads}MB'")
        return count_doubled(connection, layout, sides)
    except duckdb.OutOfMemoryException:
        connection.execute(f"SET memory_limit = {literal(settings.read.memory)}")
        return count_doubled(connection, layout, sides)
    finally:
        connection.execute(f"SET memory_limit = {literal(settings.read.memory)}")


def _name_request(layout: Layout, sides: Sequence[SideRows]) -> str:
    return kept_digests.request_of(
        version("cutover"),
        duckdb.__version__,
        layout.keys,
        layout.group,
        layout.hash_sql,
        [(s.source.name, s.columns, s.unwanted, s.source.types, s.source.reading, s.source.rows_of) for s in sides],
    )


def _describe_read(read_files: Read) -> list[str]:
    if not read_files.reused:
        return []
    text = f"Digests of {count_noun(read_files.reused, 'file')} are known from an earlier run"
    return [f"{text}; {read_files.files:,} were read."]
