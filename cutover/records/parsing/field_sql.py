"""Spark SQL of each field of a topic in the strict form: how it is read from the JSON, and how its type is checked."""

from collections.abc import Iterable
from dataclasses import dataclass

from cutover.definition.model.time_patterns import compile_pattern
from cutover.definition.model.times import EPOCH_FORMATS, ISO_TIMESTAMP
from cutover.definition.model.topic import Field, Topic, list_fields, parse_decimal_type
from cutover.records.parsing import limits

LOG_COLUMNS = ("_partition", "_offset", "_log_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSql:
    """Spark SQL of one field, over the columns `<name>` (read by `from_json`) and `__kind_<name>` (its JSON type)."""

    name: str
    nullable: bool
    read_as: str  # type in the schema of `from_json`
    value: str  # the typed value; null if it is invalid
    is_present: str | None  # condition under which a null `value` is a wrong type; None: the type cannot be wrong
    has_colons: bool  # its text contains colons

    @property
    def is_variant(self) -> bool:
        """Return whether the JSON type has to be checked explicitly."""
        return self.read_as == "variant"

    @property
    def is_absent(self) -> str:
        """Return the condition that the field is missing or null, as opposed to invalid."""
        return f"coalesce(`__kind_{self.name}` = 'VOID', true)" if self.is_variant else f"`{self.name}` IS NULL"


def make_field_sqls(topic: Topic) -> tuple[FieldSql, ...]:
    """Build the SQL of each field of a topic, in the order of the schema."""
    return tuple(_make_field_sql(field, topic) for field in list_fields(topic))


def _make_field_sql(field: Field, topic: Topic) -> FieldSql:
    if field.type in {"boolean", "int", "bigint"}:
        return _make_sql(field, field.type, f"`{field.name}`", None)
    if field.type == "double":
        return _make_sql(field, "double", _read_finite_sql(field.name), f"`{field.name}` IS NOT NULL")
    if field.type == "timestamp" and topic.time_format in EPOCH_FORMATS:
        is_present = None if field.name == topic.event_time else f"`{field.name}` IS NOT NULL"
        return _make_sql(field, "bigint", convert_epoch_sql(field.name, topic.time_format), is_present)
    is_present = _is_present_sql(field, topic)
    value = _read_variant_sql(field, topic)
    return _make_sql(field, "variant", value, is_present, has_colons=field.type == "timestamp")


def _make_sql(field: Field, read_as: str, value: str, is_present: str | None, *, has_colons: bool = False) -> FieldSql:
    return FieldSql(
        name=field.name,
        nullable=field.nullable,
        read_as=read_as,
        value=value,
        is_present=is_present,
        has_colons=has_colons,
    )


def _is_present_sql(field: Field, topic: Topic) -> str:
    # A string that is not a time is an invalid event time (EVENT_TIME); a value that is not a string is a wrong type.
    kinds = "'VOID', 'STRING'" if field.name == topic.event_time else "'VOID'"
    return f"(`__kind_{field.name}` NOT IN ({kinds}))"


def _read_finite_sql(name: str) -> str:
    # 1e400 is read as infinity. Adding zero turns -0.0 into 0.0, since engines order and group the two differently.
    return f"IF(abs(`{name}`) < double('Infinity'), `{name}` + 0D, NULL)"


def convert_epoch_sql(name: str, time_format: str) -> str:
    """Return the SQL of a whole number as a timestamp; null if it is out of range."""
    if time_format == "nanos":  # rounded down; all of them are in range
        return f"timestamp_micros(`{name}` div 1000L - IF(`{name}` % 1000L < 0L, 1L, 0L))"
    unit = 1_000_000 // EPOCH_FORMATS[time_format]
    first_value, last_value = limits.MIN_MICROS // unit, limits.MAX_MICROS // unit
    return f"IF(`{name}` BETWEEN {first_value}L AND {last_value}L, timestamp_micros(`{name}` * {unit}L), NULL)"


def _read_variant_sql(field: Field, topic: Topic) -> str:
    text, kind = f"CAST(`{field.name}` AS string)", f"`__kind_{field.name}`"
    decimal = parse_decimal_type(field.type)
    if decimal is not None:
        pattern = limits.decimal_pattern(*decimal)
        number = f"({kind} = 'BIGINT' OR startswith({kind}, 'DECIMAL'))"
        return f"IF({number} AND {_match_whole_sql(text, pattern)}, try_cast({text} AS {field.type}), NULL)"
    if field.type == "string":
        return f"IF({kind} = 'STRING', {text}, NULL)"
    if field.type == "timestamp" and topic.time_format != "iso":
        pattern, value = f"(?i:{compile_pattern(topic.time_format).regex})", _make_pattern_sql(text, topic.time_format)
    else:
        pattern = limits.ISO_DATE if field.type == "date" else ISO_TIMESTAMP
        value = f"try_cast({text} AS {field.type})"
    # Compared as a date or timestamp: converting a rejected year to a number could overflow and fail the query.
    literal = field.type.upper()
    in_range = f"{value} >= {literal} '1000-01-01' AND {value} < {literal} '9000-01-01'"
    return f"IF({kind} = 'STRING' AND {_match_whole_sql(text, pattern)} AND {in_range}, {value}, NULL)"


def _make_pattern_sql(text: str, pattern: str) -> str:
    return f'try_to_timestamp({text}, r"{pattern}")'


def _match_whole_sql(text: str, pattern: str) -> str:
    # `$` would also match before a line break at the end.
    return f'{text} RLIKE r"^(?:{pattern})\\z"'


def join_by_or(conditions: Iterable[str]) -> str:
    """Return the disjunction of conditions; false if there are none."""
    return " OR ".join(conditions) or "false"


def count_colons_sql(text: str) -> str:
    """Build an expression; it splits, which is faster than a regular expression."""
    return f"(size(split({text}, ':')) - 1)"
