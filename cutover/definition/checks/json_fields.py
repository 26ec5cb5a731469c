"""Checks of the places in the JSON that the columns of a topic come from, and of their forms and time formats."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import get_args

from cutover.definition.checks.measures import reject_field
from cutover.definition.model.protobuf import make_protobuf_layout
from cutover.definition.model.times import EPOCH_FORMATS, EXAMPLE, compile_pattern
from cutover.definition.model.topic import (
    CORRUPT_COLUMN,
    MAX_AVRO_BYTES,
    CsvOptions,
    Field,
    JsonField,
    JsonPath,
    ParseForm,
    ProtobufOptions,
    Topic,
    list_column_types,
    list_fields,
    make_schema_path,
    parse_decimal_type,
    parse_path,
)
from cutover.errors import DefinitionError

_MAX_SHOWN_LENGTH = 80  # characters of an invalid value in a message
_WHOLE_FORMS = {"avro": "Avro", "protobuf": "Protobuf", "csv": "CSV", "text": "texts"}


def find_whole_form(topic: Topic) -> str | None:
    """Return the name of the form of values that are not JSON; None if they are."""
    return _WHOLE_FORMS.get(topic.parse)


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
    _check_whole_form(prefix, topic, columns)
    _check_avro(prefix, topic, columns)
    _check_protobuf(prefix, topic)
    _check_csv(prefix, topic)
    _check_texts(prefix, topic, columns)
    for column in columns:
        label = f"{prefix}.fields.{column.name}" if column.name in topic.fields else f"{prefix}.schema"
        _check_job_column(label, column)
        _check_variant_names(label, column)
    _check_distinct_places(prefix, columns)


def _check_whole_form(prefix: str, topic: Topic, columns: tuple[Field, ...]) -> None:
    """Reject what values that are not JSON do not have: other forms in the same record, and places in the JSON."""
    name = find_whole_form(topic)
    for column in columns:
        if column.parse != topic.parse and (name is not None or column.parse in _WHOLE_FORMS):
            hint = "a value is JSON or not as a whole"
            label = f"{prefix}.fields.{column.name}.parse"
            reject_field(label, f"the form of the topic, {topic.parse}", column.parse, hint)
        if name not in {None, "Avro", "Protobuf"} and column.path != (column.name,):
            reject_field(f"{prefix}.fields.{column.name}.path", f"none in a topic of {name}", f"`{column.label}`")
    if name is not None and topic.log_time is not None:
        hint = "`cutover produce` sends JSON alone, and this column is what it copies"
        reject_field(f"{prefix}.log_time", f"none in a topic of {name}", f"`{topic.log_time}`", hint)


def _check_avro(prefix: str, topic: Topic, columns: tuple[Field, ...]) -> None:
    if topic.parse != "avro":
        return
    for column in columns:
        if any(isinstance(step, int) for step in column.path):
            hint = "elements of arrays in Avro are not read yet; a job can write them as fields"
            label = f"{prefix}.fields.{column.name}.path"
            reject_field(label, "names alone in a topic of Avro", f"`{column.label}`", hint)
    if topic.max_value_bytes > MAX_AVRO_BYTES:
        expected = f"at most {MAX_AVRO_BYTES:,} in a topic of Avro"
        reject_field(f"{prefix}.max_value_bytes", expected, f"{topic.max_value_bytes:,}")


def _check_protobuf(prefix: str, topic: Topic) -> None:
    options = topic.protobuf
    if topic.parse != "protobuf":
        if options is not None:
            expected = 'none, since only parse="protobuf" has options'
            reject_field(f"{prefix}.protobuf", expected, repr(options)[:_MAX_SHOWN_LENGTH])
        return
    is_complete = isinstance(options, ProtobufOptions) and all(
        isinstance(text, str) for text in (options.message, options.descriptor_set)
    )
    if not is_complete:
        expected = "ProtobufOptions(message=..., descriptor_set=read_descriptor_set(...))"
        reject_field(f"{prefix}.protobuf", expected, repr(options)[:_MAX_SHOWN_LENGTH])
    try:
        make_protobuf_layout(topic)
    except DefinitionError as error:
        msg = f"{prefix}.{error}"
        raise DefinitionError(msg) from None


def _check_csv(prefix: str, topic: Topic) -> None:
    if topic.csv is None:
        return
    label = f"{prefix}.csv"
    if topic.parse != "csv":
        reject_field(label, 'none, since only parse="csv" has options', repr(topic.csv)[:_MAX_SHOWN_LENGTH])
    if not isinstance(topic.csv, CsvOptions):
        reject_field(label, 'CsvOptions(delimiter=",", ...)', repr(topic.csv)[:_MAX_SHOWN_LENGTH])
    marks = {"delimiter": topic.csv.delimiter, "quote": topic.csv.quote, "escape": topic.csv.escape}
    for name, mark in marks.items():
        is_mark = isinstance(mark, str) and re.fullmatch(r"[^\x00\r\n\ud800-\udfff\U00010000-\U0010ffff]", mark)
        if not is_mark and (name, mark) != ("quote", ""):
            none = ", or an empty text for no quotes" if name == "quote" else ""
            shown = repr(mark)[:_MAX_SHOWN_LENGTH]
            reject_field(f"{label}.{name}", f"one character that does not end a line{none}", shown)
    if topic.csv.delimiter in {topic.csv.quote, topic.csv.escape, "\\"}:
        expected = "another character than the quote, the escape and a backslash"
        reject_field(f"{label}.delimiter", expected, repr(topic.csv.delimiter))
    if not isinstance(topic.csv.null_value, str):
        reject_field(f"{label}.null_value", "a text", repr(topic.csv.null_value)[:_MAX_SHOWN_LENGTH])


def _check_texts(prefix: str, topic: Topic, columns: tuple[Field, ...]) -> None:
    types = sorted(column.type for column in columns)
    if topic.parse == "text" and types != ["string", "timestamp"]:
        expected = "one string column, which is the value, and the event time, which is the log timestamp"
        reject_field(f"{prefix}.schema", expected, f"`{topic.schema[:_MAX_SHOWN_LENGTH]}`")


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
        reject_field(field, "strict, from_json, avro, protobuf, csv or text", repr(form)[:_MAX_SHOWN_LENGTH])


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
    if column.path[0] == CORRUPT_COLUMN and column.parse in {"from_json", "csv"}:
        hint = f"from_{column.parse.removeprefix('from_')} writes the text of a record with an unreadable field into it"
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
