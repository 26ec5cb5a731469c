"""Spark SQL of each column of a topic in the strict form: how it is read from the JSON, and how its type is checked.

A column in an object is read by `from_json` with nested structs. Elements of arrays are read as VARIANT, with the place
inside of them selected from it, since `from_json` gives up a whole array if one of its elements has a wrong type.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutover.definition.model.times import EPOCH_FORMATS, ISO_TIMESTAMP, compile_pattern
from cutover.definition.model.topic import (
    Field,
    JsonPath,
    Topic,
    Tree,
    build_tree,
    list_fields,
    list_parents,
    parse_decimal_type,
)
from cutover.quoting import spark_identifier
from cutover.records.parsing import limits

VARIANT = "variant"


def format_json_schema(leaves: Sequence[tuple[JsonPath, str]]) -> str:
    """Write the columns of a schema that has a type at each path; objects are structs, and elements are of one type."""
    return ", ".join(_format_members(build_tree(leaves)))


def _format_members(tree: Tree) -> list[str]:
    return [f"{spark_identifier(str(name))} {_format_type(node)}" for name, node in tree.items()]


def _format_type(node: Tree | str) -> str:
    if isinstance(node, str):
        return node
    return f"array<{_format_type(node[None])}>" if None in node else f"struct<{', '.join(_format_members(node))}>"


def select_path_sql(root: str, path: Iterable[str | int]) -> str:
    """Return the SQL of a value in a struct; null if a parent is null, or an array has too few elements."""
    for step in path:
        root = f"get({root}, {step})" if isinstance(step, int) else f"{root}.{spark_identifier(step)}"
    return root


def select_variant_sql(root: str, path: JsonPath) -> str:
    """Return the SQL of the variant in an array of variants; the path begins with an index."""
    element = f"get({root}, {path[0]})"
    if len(path) == 1:
        return element
    steps = "".join(f"[{step}]" if isinstance(step, int) else _format_key(step) for step in path[1:])
    return f"""try_variant_get({element}, "${steps}", '{VARIANT}')"""


def _format_key(name: str) -> str:
    return f'[\\"{name}\\"]' if set(name) & set(".[") else f".{name}"


def list_named_parents(paths: Sequence[JsonPath]) -> list[JsonPath]:
    """List the paths of the objects and arrays that have a name, so that a colon follows it in the JSON."""
    return [path for path in list_parents(paths) if isinstance(path[-1], str)]


def count_present_sql(conditions: Iterable[str]) -> str:
    """Build the sum of ones for the conditions that hold."""
    return " + ".join(f"IF({condition}, 1, 0)" for condition in conditions) or "0"


def join_by_or(conditions: Iterable[str]) -> str:
    """Return the disjunction of conditions; false if there are none."""
    return " OR ".join(conditions) or "false"


def count_colons_sql(text: str) -> str:
    """Build an expression; it splits, which is faster than a regular expression."""
    return f"(size(split({text}, ':')) - 1)"


LOG_COLUMNS = ("_partition", "_offset", "_log_time")

_NUMBER_KINDS = "({kind} IN ('BIGINT', 'DOUBLE', 'FLOAT') OR startswith({kind}, 'DECIMAL'))"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSql:
    """Spark SQL of one column, over the columns `<name>` (read by `from_json`) and `__kind_<name>` (its JSON type)."""

    name: str
    nullable: bool
    path: JsonPath  # in the JSON
    read_as: str  # type in the schema of `from_json`, at the path up to its first index
    value: str  # the typed value; null if it is invalid
    is_present: str | None  # condition under which a null `value` is a wrong type; None: the type cannot be wrong
    has_colons: bool  # its text contains colons

    @property
    def is_variant(self) -> bool:
        """Return whether the JSON type has to be checked explicitly."""
        return VARIANT in self.read_as

    @property
    def is_absent(self) -> str:
        """Return the condition that the field is missing or null, as opposed to invalid."""
        return f"coalesce(`__kind_{self.name}` = 'VOID', true)" if self.is_variant else f"`{self.name}` IS NULL"

    @property
    def outer_path(self) -> JsonPath:
        """Path up to the first index."""
        return split_path(self.path)[0]

    def select_sql(self, root: str) -> str:
        """Return the SQL of the value as it is read, in the struct of the record."""
        outer, inner = split_path(self.path)
        value = select_path_sql(root, outer)
        return select_variant_sql(value, inner) if inner else value

    def is_wrong_parent_sql(self, root: str) -> str | None:
        """Return the condition that a parent inside of an array is neither an object nor an array, as the path says."""
        outer, inner = split_path(self.path)
        array = select_path_sql(root, outer)
        conditions = []
        for length in range(1, len(inner)):
            kind = f"schema_of_variant({select_variant_sql(array, inner[:length])})"
            expected = "ARRAY" if isinstance(inner[length], int) else "OBJECT"
            conditions.append(f"NOT ({kind} = 'VOID' OR startswith({kind}, '{expected}'))")
        return f"coalesce({' OR '.join(conditions)}, false)" if conditions else None


def split_path(path: JsonPath) -> tuple[JsonPath, JsonPath]:
    """Split a path before its first index, from which on it is read from VARIANT."""
    first = next((place for place, step in enumerate(path) if isinstance(step, int)), len(path))
    return path[:first], path[first:]


def make_field_sqls(topic: Topic) -> tuple[FieldSql, ...]:
    """Build the SQL of each column of a topic that is read strictly, in the order of the schema."""
    return tuple(make_field_sql(field, topic) for field in list_fields(topic) if field.parse == "strict")


def make_field_sql(field: Field, topic: Topic, *, from_variant: bool = False) -> FieldSql:
    """Build the SQL of one column; `from_variant`: it is read as VARIANT whatever its type is."""
    is_event_time = field.name == topic.event_time
    is_element = bool(split_path(field.path)[1])
    if from_variant or is_element:
        read_as = f"array<{VARIANT}>" if is_element and not from_variant else VARIANT
        return _make_variant_sql(field, read_as, is_event_time=is_event_time)
    name = f"`{field.name}`"
    if field.type in {"boolean", "int", "bigint"}:
        return _make_sql(field, field.type, name, None)
    if field.type == "double":
        return _make_sql(field, "double", read_finite_sql(name), f"{name} IS NOT NULL")
    if field.type == "timestamp" and field.time_format in EPOCH_FORMATS:
        is_present = None if is_event_time else f"{name} IS NOT NULL"
        return _make_sql(field, "bigint", convert_epoch_sql(name, field.time_format), is_present)
    return _make_variant_sql(field, VARIANT, is_event_time=is_event_time)


def _make_sql(field: Field, read_as: str, value: str, is_present: str | None) -> FieldSql:
    return FieldSql(
        name=field.name,
        nullable=field.nullable,
        path=field.path,
        read_as=read_as,
        value=value,
        is_present=is_present,
        has_colons=field.type == "timestamp" and VARIANT in read_as,
    )


def _make_variant_sql(field: Field, read_as: str, *, is_event_time: bool) -> FieldSql:
    name, kind = f"`{field.name}`", f"`__kind_{field.name}`"
    is_number_time = field.type == "timestamp" and field.time_format in EPOCH_FORMATS
    # A value of the right JSON type that is not a time is an invalid event time (EVENT_TIME), another one a wrong type.
    right_kinds = ("'VOID'", "'BIGINT'" if is_number_time else "'STRING'")
    is_present = f"({kind} NOT IN ({', '.join(right_kinds if is_event_time else right_kinds[:1])}))"
    if field.type == "boolean":
        value = f"IF({kind} = 'BOOLEAN', {_get_sql(name, 'boolean')}, NULL)"
    elif field.type in {"int", "bigint"}:
        value = f"IF({kind} = 'BIGINT', {_get_sql(name, field.type)}, NULL)"
    elif field.type == "double":
        number = read_finite_sql(_get_sql(name, "double"))
        value = f"IF({_NUMBER_KINDS.format(kind=kind)}, {number}, NULL)"
    elif is_number_time:
        value = f"IF({kind} = 'BIGINT', {convert_epoch_sql(_get_sql(name, 'bigint'), field.time_format)}, NULL)"
    else:
        value = _read_text_sql(field)
    return _make_sql(field, read_as, value, is_present)


def _get_sql(value: str, kind: str) -> str:
    return f"try_variant_get({value}, '$', '{kind}')"


def read_finite_sql(value: str) -> str:
    """Return the SQL of a double; null if it is not finite."""
    # 1e400 is read as infinity. Adding zero turns -0.0 into 0.0, since engines order and group the two differently.
    return f"IF(abs({value}) < double('Infinity'), {value} + 0D, NULL)"


def convert_epoch_sql(value: str, time_format: str) -> str:
    """Return the SQL of a whole number as a timestamp; null if it is out of range."""
    if time_format == "nanos":  # rounded down; all of them are in range
        return f"timestamp_micros({value} div 1000L - IF({value} % 1000L < 0L, 1L, 0L))"
    unit = 1_000_000 // EPOCH_FORMATS[time_format]
    first_value, last_value = limits.MIN_MICROS // unit, limits.MAX_MICROS // unit
    return f"IF({value} BETWEEN {first_value}L AND {last_value}L, timestamp_micros({value} * {unit}L), NULL)"


def _read_text_sql(field: Field) -> str:
    """Return the SQL of a decimal, a string, a date or a time that is a text."""
    text, kind = f"CAST(`{field.name}` AS string)", f"`__kind_{field.name}`"
    decimal = parse_decimal_type(field.type)
    if decimal is not None:
        pattern = limits.decimal_pattern(*decimal)
        number = f"({kind} = 'BIGINT' OR startswith({kind}, 'DECIMAL'))"
        return f"IF({number} AND {_match_whole_sql(text, pattern)}, try_cast({text} AS {field.type}), NULL)"
    if field.type == "string":
        return f"IF({kind} = 'STRING', {text}, NULL)"
    return f"IF({kind} = 'STRING', {read_time_sql(text, field)}, NULL)"


def read_time_sql(text: str, field: Field) -> str:
    """Return the SQL of a text as a date or a time; null if it is none."""
    if field.type == "timestamp" and field.time_format != "iso":
        pattern, value = f"(?i:{compile_pattern(field.time_format).regex})", _make_pattern_sql(text, field.time_format)
    else:
        pattern = limits.ISO_DATE if field.type == "date" else ISO_TIMESTAMP
        value = f"try_cast({text} AS {field.type})"
    # Compared as a date or timestamp: converting a rejected year to a number could overflow and fail the query.
    literal = field.type.upper()
    in_range = f"{value} >= {literal} '1000-01-01' AND {value} < {literal} '9000-01-01'"
    return f"IF({_match_whole_sql(text, pattern)} AND {in_range}, {value}, NULL)"


def _make_pattern_sql(text: str, pattern: str) -> str:
    return f'try_to_timestamp({text}, r"{pattern}")'


def _match_whole_sql(text: str, pattern: str) -> str:
    # `$` would also match before a line break at the end.
    return f'{text} RLIKE r"^(?:{pattern})\\z"'
