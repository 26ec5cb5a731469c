"""The topic that a pipeline reads, the schema of its records, and the places in their JSON that columns come from.

A schema is a closed list of types, each of which every engine reads from JSON in the same way. A place is a path such
as `payload.items[0].price`, read from left to right: a name selects the field of an object, and an index the element of
an array. A name that contains other characters than letters, digits, `_`, `-`, `$` and `@` is written between
backticks.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn, TypeVar

from cutover.errors import DefinitionError

ParseForm = Literal["strict", "from_json", "avro", "protobuf", "csv", "text"]
JsonPath = tuple[str | int, ...]
"""Names of fields and indexes of elements, from the record's object to a value; the first one is a name."""

SchemaPath = tuple[str | None, ...]
"""Path with None instead of each index: all elements of an array have one schema."""

MAX_AVRO_BYTES = 16_777_216
"""Maximum `max_value_bytes` of a topic in Avro, and maximum length of a text or of bytes in its records."""

MAX_STEPS = 32
MAX_INDEX = 9_999
MAX_NAME_LENGTH = 1_000

_PLAIN = re.compile(r"[\w$@-]+")
_STEP = re.compile(r"\[(?P<index>[0-9]+)\]|(?P<dot>\.)?(?:`(?P<quoted>[^`]+)`|(?P<plain>[\w$@-]+))")
_NOT_IN_NAMES = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')
_EXAMPLE = "such as `payload.after.amount`, `items[0].price`; other characters in backticks, `` `Created Date` ``"

Leaf = TypeVar("Leaf")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonField:
    """Place of a column in the JSON of a record, and how its value is read; None: as the topic says."""

    path: str | None = None  # `payload.after.amount`, `items[0].price`; None: the top-level field of the column's name
    parse: ParseForm | None = None  # form of this column's value
    time_format: str | None = None  # of a timestamp column


@cache
def parse_path(text: str) -> JsonPath:
    """Parse a path.

    Raises:
        DefinitionError: The text is not a path; the message says where it ends to be one.
    """
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None or (step["index"] is None and (step["dot"] is None) != (not steps)):
            _reject(text, "a name, `.` and a name, or an index in brackets", text[position:])
        if step["index"] is None:
            steps.append(_check_name(text, step["quoted"] or step["plain"]))
        elif not steps or int(step["index"]) > MAX_INDEX:
            _reject(text, f"a name first, and indexes from 0 to {MAX_INDEX:,}", text[position:])
        else:
            steps.append(int(step["index"]))
        position = step.end()
    if not 1 <= len(steps) <= MAX_STEPS:
        _reject(text, f"1 to {MAX_STEPS} names and indexes", text)
    return tuple(steps)


def _check_name(text: str, name: str) -> str:
    if len(name) > MAX_NAME_LENGTH or _NOT_IN_NAMES.search(name):
        expected = f"names of at most {MAX_NAME_LENGTH:,} characters without quotes, backslashes and control characters"
        _reject(text, expected, name)
    return name


def _reject(text: str, expected: str, actual: str) -> NoReturn:
    shown = actual if len(actual) <= len(_EXAMPLE) else f"{actual[: len(_EXAMPLE)]}..."
    msg = f"Path `{text[:80]}`: expected {expected}, got {shown!r}.\nHint: {_EXAMPLE}."
    raise DefinitionError(msg)


def format_path(path: JsonPath) -> str:
    """Write a path as `parse_path` reads it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if _PLAIN.fullmatch(step) else f"`{step}`")
    return text


def make_schema_path(path: JsonPath) -> SchemaPath:
    """Return the path in the schema, in which every element of an array is the same."""
    return tuple(step if isinstance(step, str) else None for step in path)


Tree = Mapping[str | None, Any]
"""Names (None: the elements of an array) of a place in the JSON, with the tree of each, or the leaf that is read."""


def build_tree(leaves: Sequence[tuple[JsonPath, Leaf]]) -> Tree:
    """Build the tree of some paths, in their order; of paths that differ in an index only, the first one counts."""
    root: dict[str | None, Any] = {}
    for path, leaf in leaves:
        node = root
        *parents, last = make_schema_path(path)
        for step in parents:
            node = node.setdefault(step, {})
        node.setdefault(last, leaf)
    return root


def list_parents(paths: Sequence[JsonPath]) -> Iterator[JsonPath]:
    """Yield the paths of all objects and arrays that some paths lead through, each once."""
    return iter(dict.fromkeys(path[:length] for path in paths for length in range(1, len(path))))


IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_RESERVED = """
    _kind _epoch _class _n _positions _record _partition _offset _log_time _event_time _reason _filtered
    _unknown _ids _pane _timing _index _order _processing_time _served_by _state _month window_start window_end
"""
RESERVED = frozenset(_RESERVED.split())
"""Names of columns that Cutover adds."""

ALIASES = {"integer": "int", "long": "bigint", "decimal": "decimal(10,0)", "numeric": "decimal(10,0)"}
SIMPLE = ("boolean", "int", "bigint", "double", "string", "timestamp", "date")
TYPES = "boolean, int, bigint, double, decimal(p,s), string, timestamp, date"
CORRUPT_COLUMN = "_corrupt_record"
"""Name of the column that `from_json` fills by default."""

RESERVED_PREFIX = "__"
"""Prefix of the intermediate columns that the parser creates."""

MAX_PRECISION = 38
_MAX_NAME_IN_MESSAGE = 80
_DECIMAL = re.compile(r"^(?:decimal|numeric)\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)$")
_FIELD = re.compile(r"^\s*(`[^`]+`|\S+?)\s*(?:\s|:)\s*(.+?)\s*$", re.DOTALL)
_NOT_NULL = re.compile(r"\s+not\s+null$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """Options of Spark's `from_csv`, with its defaults."""

    delimiter: str = ","  # option `sep`
    quote: str = '"'
    escape: str = "\\"  # in front of a quote inside of quotes
    null_value: str = ""  # option `nullValue`: text that means null; an empty field without quotes always does


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    """How values in Protobuf are decoded."""

    message: str  # full name of the message, such as `shop.Order`
    descriptor_set: str = field(repr=False)  # what `read_descriptor_set` returns
    registry_header: bool = False  # values begin with the header of a schema registry: zero byte, id, place of message
    default_values: bool = False  # option `emit.default.values` of `from_protobuf`: 0, "" and false are not null


def read_descriptor_set(file: Path | str) -> str:
    """Read the output of `protoc --include_imports --descriptor_set_out=FILE`, in base 64.

    Args:
        file: In a definition, `Path(__file__).with_name("orders.desc")`.

    Raises:
        OSError: The file cannot be read.
    """
    return b64encode(Path(file).read_bytes()).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Kafka topic whose values are JSON objects, records in Avro or Protobuf, or lines of CSV; how they are parsed."""

    name: str
    schema: str  # Spark DDL: `seq bigint NOT NULL, carrier string, event_time timestamp`
    event_time: str  # the timestamp column that assigns records to windows
    log_time: str | None = None  # the timestamp column that `produce` copies to the log timestamp
    time_format: str = "iso"  # how the JSON encodes a timestamp: iso, seconds, ..., nanos or `dd.MM.yyyy HH:mm`
    # from_json, from_csv (`csv`), from_protobuf: as Spark's functions of these names do; avro: by a registry's schema
    parse: ParseForm = "strict"
    csv: CsvOptions | None = None  # of `parse="csv"`; None: Spark's defaults
    protobuf: ProtobufOptions | None = None  # of `parse="protobuf"`
    fields: Mapping[str, JsonField] = field(default_factory=dict, hash=False)  # columns of other places or forms
    max_value_bytes: int = 1_000_000  # a larger value is malformed(too_large)
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    record_id: str | None = None  # NOT NULL column that identifies a record: a record sent twice is counted once
    id_horizon: str | None = None  # how far behind the watermark ids are remembered; None: as long as a window is open

    def __post_init__(self) -> None:
        if isinstance(self.fields, Mapping):  # the checks reject anything else
            object.__setattr__(self, "fields", MappingProxyType(dict(self.fields)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Column of the schema, and how it is read from the JSON of a record."""

    name: str
    type: str  # boolean, int, bigint, double, decimal(p,s), string, timestamp or date
    nullable: bool
    path: JsonPath
    parse: ParseForm = "strict"
    time_format: str = "iso"

    @property
    def label(self) -> str:
        """Name of the place in the JSON, for messages and for the header of a CSV file."""
        return str(self.path[0]) if len(self.path) == 1 else format_path(self.path)


def list_fields(topic: Topic) -> tuple[Field, ...]:
    """Return the fields of a topic's schema, with where and how they are read.

    Raises:
        DefinitionError: As `parse_schema` does, or a path is invalid.
    """
    return _list_fields(topic.schema, topic.parse, topic.time_format, tuple(topic.fields.items()))


@lru_cache(maxsize=256)
def _list_fields(
    schema: str, parse: ParseForm, time_format: str, overrides: tuple[tuple[str, JsonField], ...]
) -> tuple[Field, ...]:
    places = dict(overrides)
    columns = []
    for column in parse_schema(schema):
        place = places.get(column.name, JsonField())
        path = column.path if place.path is None else parse_path(place.path)
        form, format_of_times = place.parse or parse, place.time_format or time_format
        columns.append(replace(column, path=path, parse=form, time_format=format_of_times))
    return tuple(columns)


def list_column_types(topic: Topic) -> dict[str, str]:
    """Map each column to its type (`bigint`, `decimal(9,2)`), in schema order; raises as `parse_schema` does."""
    return {column.name: column.type for column in parse_schema(topic.schema)}


@cache
def parse_schema(text: str) -> tuple[Field, ...]:
    """Parse a schema such as `seq bigint NOT NULL, carrier string`, whose columns are top-level fields of their names.

    Raises:
        DefinitionError: A type is not in the list, or a name is not an identifier, is reserved or appears twice
            (names are compared without case, as Spark and DuckDB do).
    """
    schema_fields = tuple(_parse_field(part) for part in _split_fields(text))
    if not schema_fields:
        msg = "Schema: expected at least one field, such as `carrier string`, got none."
        raise DefinitionError(msg)
    names: set[str] = set()
    for column in schema_fields:
        if column.name.lower() in names:
            msg = f"Schema: expected distinct names, got `{column.name}` twice (names are compared without case)."
            raise DefinitionError(msg)
        names.add(column.name.lower())
    return schema_fields


def normalize_type(text: str) -> str:
    """Return the canonical spelling of a type: lower case, without aliases or blanks.

    Raises:
        DefinitionError: The type is not in the list.
    """
    kind = " ".join(text.lower().split())
    kind = ALIASES.get(kind, kind)
    if kind in SIMPLE:
        return kind
    match = _DECIMAL.match(kind)
    if match and 1 <= int(match[1]) <= MAX_PRECISION and int(match[2] or 0) <= int(match[1]):
        return f"decimal({int(match[1])},{int(match[2] or 0)})"
    msg = f"Type: expected one of {TYPES}, got `{text[:80]}`."
    raise DefinitionError(msg)


def parse_decimal_type(kind: str) -> tuple[int, int] | None:
    """Return (precision, scale) of a decimal type; None for any other type."""
    match = _DECIMAL.match(kind)
    return (int(match[1]), int(match[2] or 0)) if match else None


def check_name(name: str, *, of: str) -> None:
    """Reject a name that is not a plain identifier, or that Cutover uses.

    Raises:
        DefinitionError: The message gives the name, and the field (`of`).
    """
    if not IDENTIFIER.match(name):
        shortened = name if len(name) <= _MAX_NAME_IN_MESSAGE else name[:_MAX_NAME_IN_MESSAGE] + "..."
        msg = f"{of}: expected letters, digits and `_`, at most 63, not starting with a digit, got {shortened!r}."
        raise DefinitionError(msg)
    if name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX):
        msg = f"{of}: `{name}` is a name that Cutover uses.\nHint: choose another one."
        raise DefinitionError(msg)


def _split_fields(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _parse_field(part: str) -> Field:
    match = _FIELD.match(part)
    if match is None:
        msg = f"Schema: expected a name and a type, such as `carrier string`, got `{part.strip()}`."
        raise DefinitionError(msg)
    name, type_text = match[1].strip("`"), match[2]
    check_name(name, of="Schema")
    kind = _NOT_NULL.sub("", type_text)
    try:
        return Field(name=name, type=normalize_type(kind), nullable=kind == type_text, path=(name,))
    except DefinitionError as error:
        msg = f"Schema, field `{name}`: {error}"
        raise DefinitionError(msg) from None
