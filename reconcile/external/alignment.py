"""Columns that two tables have in common, each in the type that both fit; a value that does not fit is never equal.

Hints name columns whose names look alike: other case, blanks at an end, invisible characters.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeVar

import duckdb

from cutover.counts import choose_form, count_clause
from cutover.engine.queries import count_where, fetch_row
from cutover.quoting import identifier
from cutover.reconcile.comparison.column_types import (
    NO_TYPE,
    CommonType,
    Path,
    convert,
    find_common_type,
    find_greatest,
    is_changed,
    is_float_column,
    is_scalar,
    kind_of,
    list_integer_parts,
    list_parts,
    replace_parts,
)
from cutover.reconcile.external import cell_texts
from cutover.reconcile.result.text import count_noun
from cutover.sources.binding import types_of

Place = tuple[str, Path]  # a column, and the path to a part of it
Value = TypeVar("Value")

SIDES = ("expected", "actual")
_EXACT = {"whole", "decimal"}
_NUMBERS = {*_EXACT, "float"}
_COLUMNS_A_QUERY = 200
"""Columns of which one query counts something: it is planned in a time that grows faster than they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that two tables have in common, with the type that both are compared as."""

    common: Mapping[str, str]
    types_by_side: tuple[Mapping[str, str], ...]  # where they differ, parts that are null everywhere have no type
    digits: Mapping[str, Mapping[Path, str | None]]
    """Parts whose numbers or moments no type of the engine holds, compared by all of their digits: with the type of the
    side that holds floats or finer moments, if one does."""
    integers: Mapping[str, frozenset[Path]]  # parts of columns that hold integers on one side, floats on the other
    numbers: Mapping[str, str]  # text columns that contain numbers -> type of the numbers
    notes: tuple[str, ...]  # what differs in the schemas
    is_same: bool  # no column is on one side only, no two types are of another kind, every value fits the common type

    def convert(self, side: int, name: str, value: str) -> str:
        """Return SQL of a value of one side in the type that both are compared as."""
        return convert(value, self.types_by_side[side][name], self.common[name], self.digits.get(name))


def find_like_names(left: Iterable[str], right: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a name that only the expected side has and the only one of the actual side that looks like it."""
    expected_names, actual_names = dict.fromkeys(left), dict.fromkeys(right)
    names_by_fold: dict[str, list[str]] = {}
    if expected_names.keys() - actual_names.keys():
        for name in actual_names:
            names_by_fold.setdefault(_fold(name), []).append(name)
    for name in expected_names:
        like_names = [] if name in actual_names else names_by_fold.get(_fold(name), [])
        if len(like_names) == 1 and like_names[0] not in expected_names:
            yield name, like_names[0]


def format_map_options(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the options that make such names one, as a shell takes them."""
    return " ".join(f"--map {_quote_pair(*pair)}" for pair in pairs)


def _quote_pair(expected_name: str, actual_name: str) -> str:
    return quote_word(f"{expected_name}={actual_name}", is_ascii=_is_same_text(expected_name, actual_name))


def quote_like_name(name: str, like: str) -> str:
    """Return a name as one word of bash, so that its difference from one like it is visible."""
    return quote_word(name, is_ascii=_is_same_text(name, like))


def _is_same_text(left: str, right: str) -> bool:
    """Return whether two names are shown with the same characters: `é` is one character or two."""
    return unicodedata.normalize("NFC", left) == unicodedata.normalize("NFC", right)


def _fold(name: str) -> str:
    """Return a name without case, without what cannot be seen, and with one blank for each run."""
    visible = "".join(
        character
        for character in unicodedata.normalize("NFKC", name)
        if unicodedata.category(character) not in {"Cf", "Cc"}
    )
    return " ".join(visible.split()).casefold()


def quote_word(text: str, *, is_ascii: bool = False) -> str:
    """Return a text as one word of bash, with invisible characters escaped.

    Args:
        text: The word.
        is_ascii: Whether all characters beyond ASCII are escaped.
    """

    def is_shown(character: str) -> bool:
        is_visible = character == " " or (character.isprintable() and not character.isspace())
        return is_visible and (character.isascii() or not is_ascii)

    if all(map(is_shown, text)):
        return shlex.quote(text)
    body = "".join(
        character if is_shown(character) and character not in "'\\" else _escape(character) for character in text
    )
    return f"$'{body}'"


def _escape(character: str) -> str:
    return f"\\U{ord(character):08x}"


def align(
    connection: duckdb.DuckDBPyConnection, raw: Sequence[str], into: Sequence[str], numbers: Mapping[str, str]
) -> Columns:
    """Make both sides comparable: views `into` over `raw` with the common columns, cast to the common type.

    Args:
        connection: Holds the views `raw`, expected side first.
        raw: Names of two views.
        into: Names of the views to make.
        numbers: Text columns that contain numbers, with the type of the numbers.
    """
    types_by_side = tuple(types_of(connection, view) for view in raw)
    left, right = types_by_side
    widen = _Widening(connection)
    shared_types = {name: find_common_type(kind, right[name], widen) for name, kind in left.items() if name in right}
    unlike_names = [name for name, kind in shared_types.items() if not kind.is_alike or kind.missing]
    types_by_side = tuple(
        _drop_empty(connection, view, types, unlike_names) for view, types in zip(raw, types_by_side, strict=True)
    )
    shared_types |= {
        name: find_common_type(types_by_side[0][name], types_by_side[1][name], widen) for name in unlike_names
    }
    changed_counts = _count_changed_values(connection, raw, types_by_side, shared_types)
    exact_types, digits = _find_exact_comparisons(connection, raw, types_by_side, changed_counts)
    lossy_counts = {place: n for place, n in changed_counts.items() if place not in exact_types.keys() | digits.keys()}
    common_types = {
        name: replace_parts(kind.name, _select_paths({**exact_types, **dict.fromkeys(digits, "VARCHAR")}, name))
        for name, kind in shared_types.items()
    }
    integers = _find_integers(types_by_side, common_types)
    digits = {
        (name, path): "DOUBLE" if kind is not None and path in integers.get(name, ()) else kind
        for (name, path), kind in digits.items()
    }
    is_alike = not lossy_counts and all(kind.is_alike and not kind.missing for kind in shared_types.values())
    columns = Columns(
        common=common_types,
        types_by_side=types_by_side,
        digits={name: paths for name in common_types if (paths := _select_paths(digits, name))},
        integers=integers,
        numbers={**numbers, **{name: kind for (name, path), kind in digits.items() if not path and kind is not None}},
        notes=(
            *_describe_schemas((left, right), common_types, shared_types),
            *_describe_lossy(lossy_counts, common_types),
        ),
        is_same=left.keys() == right.keys() and is_alike,
    )
    for side, names in enumerate(zip(raw, into, strict=True)):
        _make_view(connection, columns, side, *names)
    return columns


def _find_exact_comparisons(
    connection: duckdb.DuckDBPyConnection,
    raw: Sequence[str],
    types_by_side: Sequence[Mapping[str, str]],
    places: Iterable[Place],
) -> tuple[dict[Place, str], dict[Place, str | None]]:
    """Find how numbers and moments are compared exactly that the common type of both sides does not hold.

    Returns:
        Parts with a type that holds the numbers of both sides, and parts that are compared by all of their digits, with
        the type of the side that holds floats or finer moments, if one does.
    """
    types = {place: _types_at(types_by_side, place) for place in places}
    kinds = {place: {*map(kind_of, types_of_part)} for place, types_of_part in types.items()}
    exact_places = [place for place, kinds_of_part in kinds.items() if kinds_of_part <= _EXACT]
    exact_types = _find_exact_types(connection, raw, types_by_side, exact_places)
    digits = {
        place: next(filter(is_float_column, types[place]), None)
        for place, kinds_of_part in kinds.items()
        if place not in exact_types and kinds_of_part <= _NUMBERS
    }
    digits |= {
        place: "TIMESTAMP_NS" if any(kind.endswith("_NS") for kind in types[place]) else "TIMESTAMP"
        for place, kinds_of_part in kinds.items()
        if kinds_of_part == {"timestamp"}
    }
    return exact_types, digits


def _types_at(types_by_side: Sequence[Mapping[str, str]], place: Place) -> list[str]:
    """Return the type of a part of a column on each side."""
    name, path = place
    return [list_parts(types[name])[path] for types in types_by_side]


def _select_paths(values: Mapping[Place, Value], name: str) -> dict[Path, Value]:
    """Return what the parts of one column have, by path."""
    return {path: value for (column, path), value in values.items() if column == name}


def _make_view(connection: duckdb.DuckDBPyConnection, columns: Columns, side: int, raw: str, into: str) -> None:
    converted = (f"{columns.convert(side, name, identifier(name))} AS {identifier(name)}" for name in columns.common)
    selected = ", ".join(converted) or "1"
    connection.execute(f"CREATE TEMP VIEW {identifier(into)} AS SELECT {selected} FROM {identifier(raw)}")


def _find_integers(types_by_side: Sequence[Mapping[str, str]], names: Iterable[str]) -> dict[str, frozenset[Path]]:
    """Return the columns with parts that hold integers on one side and floats on the other."""
    expected, actual = types_by_side
    return {name: paths for name in names if (paths := list_integer_parts(expected[name], actual[name]))}


class _Widening:
    """The type that two scalar types of one kind both fit, as DuckDB has it; queried once for each pair."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, left: str, right: str) -> str:
        if (left, right) not in self._known:
            query = f"DESCRIBE SELECT CAST(NULL AS {left}) AS c UNION ALL SELECT CAST(NULL AS {right})"
            self._known[left, right] = str(self._connection.execute(query).fetchall()[0][1])
        return self._known[left, right]


def _drop_empty(
    connection: duckdb.DuckDBPyConnection, view: str, types: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    """Return the types of a side, in which parts of some columns that are null everywhere have no type."""
    places = [(name, path) for name in names for path in list_parts(types[name])]
    counts = {
        (name, path): count_where(find_greatest(identifier(name), types[name], path, "({}) IS NOT NULL".format))
        for name, path in places
    }
    empty_paths: dict[str, set[Path]] = {}
    for (name, path), count in _count_each(connection, view, counts):
        if not count:
            empty_paths.setdefault(name, set()).add(path)
    return {
        **types,
        **{name: replace_parts(types[name], dict.fromkeys(paths, NO_TYPE)) for name, paths in empty_paths.items()},
    }


def _count_each(
    connection: duckdb.DuckDBPyConnection, view: str, counts: Mapping[Place, str]
) -> Iterator[tuple[Place, int]]:
    """Yield a column, or a part of one, with what an aggregate counts of it."""
    names = [*counts]
    for start in range(0, len(names), _COLUMNS_A_QUERY):
        batch = names[start : start + _COLUMNS_A_QUERY]
        row = fetch_row(connection, f"SELECT {', '.join(counts[name] for name in batch)} FROM {identifier(view)}")
        yield from zip(batch, (int(count or 0) for count in row), strict=True)


def _count_changed_values(
    connection: duckdb.DuckDBPyConnection,
    raw: Sequence[str],
    types_by_side: Sequence[Mapping[str, str]],
    shared: Mapping[str, CommonType],
) -> dict[Place, int]:
    """Return the parts of which the common type does not hold every value, and how many rows have such values."""
    changed_counts: dict[Place, int] = {}
    for view, types in zip(raw, types_by_side, strict=True):
        counts = {
            place: count_where(condition)
            for name, kind in shared.items()
            for place, condition in _find_changed_parts(name, types[name], kind.name)
        }
        for place, count in _count_each(connection, view, counts):
            if count:
                changed_counts[place] = changed_counts.get(place, 0) + count
    return changed_counts


def _find_changed_parts(name: str, column_type: str, common_type: str) -> Iterator[tuple[Place, str]]:
    """Yield each scalar part of a column that is converted to another type, with SQL that is true if one is changed."""
    if common_type in {column_type, "VARCHAR"}:
        return
    common_parts = list_parts(common_type)
    for path, kind in list_parts(column_type).items():
        target = common_parts.get(path, kind)
        if kind != NO_TYPE and target not in {kind, "VARCHAR"} and is_scalar(kind):
            is_part_changed = partial(is_changed, own=kind, kind=target)
            yield (name, path), find_greatest(identifier(name), column_type, path, is_part_changed)


def _find_exact_types(
    connection: duckdb.DuckDBPyConnection,
    raw: Sequence[str],
    types_by_side: Sequence[Mapping[str, str]],
    places: Sequence[Place],
) -> dict[Place, str]:
    """Return, of numbers, a type that holds every value of both sides exactly, where there is one."""
    counters = (cell_texts.count_whole_digits, cell_texts.count_fraction_digits)
    most_digits: list[dict[Place, int]] = [dict.fromkeys(places, 0) for _ in counters]
    for (view, types), (counter, digits) in product(
        zip(raw, types_by_side, strict=True) if places else (), zip(counters, most_digits, strict=True)
    ):
        counts = {
            (name, path): f"max({find_greatest(identifier(name), types[name], path, partial(_count_digits, counter))})"
            for name, path in places
        }
        for place, count in _count_each(connection, view, counts):
            digits[place] = max(digits[place], count)
    whole, fraction = most_digits
    kinds = {place: cell_texts.find_decimal(whole[place], fraction[place]) for place in places}
    return {place: kind for place, kind in kinds.items() if kind is not None}


def _count_digits(counter: Callable[[str], str], value: str) -> str:
    return counter(f"{value}::VARCHAR")


def _describe_schemas(
    types_by_side: Sequence[Mapping[str, str]], common: Mapping[str, str], shared_types: Mapping[str, CommonType]
) -> Iterator[str]:
    left, right = types_by_side
    yield from (f"Column `{name}` is on the expected side only." for name in left if name not in right)
    yield from (f"Column `{name}` is on the actual side only." for name in right if name not in left)
    like_names = [*find_like_names(left, right)]
    if like_names:
        count, verb = count_noun(len(like_names), "column"), choose_form(len(like_names), "is", "are")
        options = format_map_options(like_names)
        yield f"{count} of both sides {verb} written almost alike: `{options}` says that they are one."
    for name, kind in shared_types.items():
        for side, path in kind.missing:
            yield f"Field `{name}{path}` is on the {SIDES[side]} side only."
        paths = [[f"{name}{path}" for on, path in kind.missing if on == side] for side in (0, 1)]
        for expected_path, actual_path in find_like_names(*paths):
            fields = f"Fields `{expected_path}` and `{actual_path}`"
            yield f"{fields} are written almost alike: rename one, or `--exclude {quote_word(name)}`."
        if left[name] != right[name]:
            sides_text = f"Column `{name}` is {left[name]} on the expected side, {right[name]} on the actual side"
            yield f"{sides_text}: compared as {common[name].replace(NO_TYPE, 'NULL')}."
        if {kind_of(left[name]), kind_of(right[name])} == {"DATE", "timestamp"}:
            yield f"`--type {quote_word(f'{name}=timestamp')}` compares the dates of this column as midnights."


def _describe_lossy(lossy: Mapping[Place, int], common: Mapping[str, str]) -> Iterator[str]:
    names = dict.fromkeys(name for name, _ in lossy)
    for name, count in {name: sum(_select_paths(lossy, name).values()) for name in names}.items():
        yield f"Column `{name}`: {count_clause(count, 'value', 'does', 'do')} not fit into {common[name]}."
