"""Checks of the places in the JSON that the columns of a topic come from, and of their forms and time formats."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import get_args

from cutover.definition.checks.measures import reject_field
from cutover.definition.model.json_fields import (
    MAX_AVRO_BYTES,
    JsonField,
    JsonPath,
    ParseForm,
    make_schema_path,
    parse_path,
)
from cutover.definition.model.time_patterns import EXAMPLE, compile_pattern
from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import (
    CORRUPT_COLUMN,
    Field,
    Topic,
    list_column_types,
    list_fields,
    parse_decimal_type,
)
from cutover.errors import DefinitionError

_MAX_SHOWN_LENGTH = 80  # characters of an invalid value in a message


def check_json_fields(prefix: str, topic: Topic) -> None:
    """Reject forms, time formats and places from which the columns of a topic cannot be read.

    Args:
        prefix: Name of the topic in messages: `source` or `join.right`.
        topic: The topic; its schema is valid.

    Raises:
        DefinitionError: The message names the first invalid field.
    """
    _check_time_format(f"{prefix}.time_format", topic.time_format)
    _check_parse(f"{prefix}.parse", topic.parse)
    types = list_column_types(topic)
    for name, place in topic.fields.items():
        label = f"{prefix}.fields.{name}"
        if name not in types:
            close = get_close_matches(str(name), types, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "the schema has the type of each column"
            reject_field(f"{prefix}.fields", f"a column of {', '.join(types)}", f"`{name}`", hint)
        if not isinstance(place, JsonField):
            reject_field(label, 'JsonField(path="a.b", parse=..., time_format=...)', repr(place)[:_MAX_SHOWN_LENGTH])
        _check_place(label, place, types[name])
    columns = list_fields(topic)
    _check_avro(prefix, topic, columns)
    for column in columns:
        label = f"{prefix}.fields.{column.name}" if column.name in topic.fields else f"{prefix}.schema"
        _check_job_column(label, column)
        _check_variant_names(label, column)
    _check_distinct_places(prefix, columns)


def _check_avro(prefix: str, topic: Topic, columns: tuple[Field, ...]) -> None:
    """Reject what Avro does not have: other forms in the same record, and elements of arrays as columns."""
    is_avro = topic.parse == "avro"
    hint = "a value is Avro or JSON as a whole"
    for column in columns:
        label = f"{prefix}.fields.{column.name}"
        if (column.parse == "avro") != is_avro:
            reject_field(f"{label}.parse", f"the form of the topic, {topic.parse}", column.parse, hint)
        if is_avro and any(isinstance(step, int) for step in column.path):
            array_hint = "elements of arrays in Avro are not read yet; a job can write them as fields"
            reject_field(f"{label}.path", "names alone in a topic in Avro", f"`{column.label}`", array_hint)
    if is_avro and topic.max_value_bytes > MAX_AVRO_BYTES:
        expected = f"at most {MAX_AVRO_BYTES:,} in a topic in Avro"
        reject_field(f"{prefix}.max_value_bytes", expected, f"{topic.max_value_bytes:,}")
    if is_avro and topic.log_time is not None:
        produce_hint = "`cutover produce` sends JSON alone, and this column is what it copies"
        reject_field(f"{prefix}.log_time", "none in a topic in Avro", f"`{topic.log_time}`", produce_hint)


def _check_place(label: str, place: JsonField, kind: str) -> None:
    if place.path is not None:
        _check_text(f"{label}.path", place.path, parse_path)
    if place.parse is not None:
        _check_parse(f"{label}.parse", place.parse)
    if place.time_format is not None:
        if kind != "timestamp":
            reject_field(f"{label}.time_format", "none, since only timestamps have one", f"one of a {kind}")
        _check_time_format(f"{label}.time_format", place.time_format)


def _check_parse(field: str, form: str) -> None:
    if form not in get_args(ParseForm):
        hint = "values in Protobuf are not read yet" if form == "protobuf" else ""
        reject_field(field, "strict, from_json or avro", repr(form)[:_MAX_SHOWN_LENGTH], hint)


def _check_text(field: str, text: str, parse: Callable[[str], object]) -> None:
    try:
        parse(text)
    except DefinitionError as error:
        expected, _, hint = str(error).partition("\nHint: ")
        expected, _, actual = expected.partition(": expected ")[2].removesuffix(".").rpartition(", got ")
        reject_field(field, expected, f"{actual} in `{text[:_MAX_SHOWN_LENGTH]}`", hint.removesuffix("."))


def _check_time_format(field: str, time_format: str) -> None:
    if time_format == "iso" or time_format in EPOCH_FORMATS:
        return
    try:
        compile_pattern(time_format)
    except DefinitionError as error:
        names = ", ".join(("iso", *EPOCH_FORMATS))
        reject_field(
            field,
            f"{names} or a pattern such as {EXAMPLE}",
            repr(time_format[:_MAX_SHOWN_LENGTH]),
            str(error).partition("\n")[0],
        )


def _check_job_column(label: str, column: Field) -> None:
    """Reject places that `from_json` fills itself, and elements whose errors it handles by their type."""
    if column.path[0] == CORRUPT_COLUMN and column.parse == "from_json":
        hint = "from_json writes the text of a record with an unreadable field into it"
        reject_field(label, f"another name than `{CORRUPT_COLUMN}`", f"`{CORRUPT_COLUMN}`", hint)
    is_text_time = column.type == "timestamp" and column.time_format not in EPOCH_FORMATS
    is_element = isinstance(column.path[-1], int)
    if is_element and column.parse == "from_json" and (is_text_time or parse_decimal_type(column.type)):
        hint = "an unreadable element makes the whole array null; read it as a string, and CAST it in `derive`"
        reject_field(label, "a path that ends with a name", f"`{column.label}` for a {column.type}", hint)


def _check_variant_names(label: str, column: Field) -> None:
    """Reject names in arrays that paths into VARIANT, as which Spark reads elements in the strict form, cannot have."""
    indexes = [place for place, step in enumerate(column.path) if isinstance(step, int)]
    inner = column.path[indexes[0] :] if indexes and column.parse == "strict" else ()
    for name in inner:
        if isinstance(name, str) and (name[:1].isspace() or ("?" in name and set(name) & set(".["))):
            expected = "names in an array that neither begin with a blank nor have `?` next to `.` or `[`"
            reject_field(label, expected, f"`{name}` in `{column.label}`", 'parse="from_json" reads it')


def _check_distinct_places(prefix: str, columns: tuple[Field, ...]) -> None:
    """Reject columns of one place, and places of which one is both a value and an object or array."""
    by_place: dict[JsonPath, Field] = {}
    kinds: dict[tuple[str | None, ...], tuple[object, Field]] = {}
    spellings: dict[tuple[str | None, ...], tuple[str | None, Field]] = {}
    for column in columns:
        if column.path in by_place:
            other = by_place[column.path]
            hint = "read it once, and convert it in `derive`"
            _reject_pair(prefix, column, other, "another place for each column", hint)
        by_place[column.path] = column
        path = make_schema_path(column.path)
        for length in range(1, len(path) + 1):
            place, last = path[:length], path[length - 1]
            folded = tuple(step and step.lower() for step in place)
            spelling, other = spellings.setdefault(folded, (last, column))
            if spelling != last:
                hint = "Spark does not tell them apart"
                _reject_pair(prefix, column, other, "names that differ by more than case", hint)
            is_leaf = length == len(path)
            kind: object = (column.type, column.parse, column.time_format) if is_leaf else path[length] is None
            first_kind, other = kinds.setdefault(place, (kind, column))
            if first_kind != kind:
                _reject_pair(prefix, column, other, "one kind of value at each place", "read one of them as a string")


def _reject_pair(prefix: str, column: Field, other: Field, expected: str, hint: str) -> None:
    actual = f"`{column.label}` for `{column.name}` and `{other.label}` for `{other.name}`"
    reject_field(f"{prefix}.fields", expected, actual, hint)
