"""Values in Protobuf, decoded by the library of the format in plain Python, on both paths and in every check.

No JAR of this Spark decodes them, so it runs the same parser in its Python workers, which need the packages of this
project on executors. A message is decoded by the descriptors of the definition.

A field without presence that has its default (0, "", false), which is not in the bytes, is null, unless the options say
otherwise, as in Spark's `from_protobuf`; so is an absent field, unless its descriptor has a default of its own. An enum
is read as the name of its symbol; a number without one as Java's library names it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from cutover.definition.model.protobuf import ProtobufColumn, ProtobufLayout, Step, make_protobuf_layout
from cutover.definition.model.times import convert_epoch_time, parse_text_time
from cutover.definition.model.topic import Field, Topic, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.columns import select_expressions
from cutover.records.parsing import limits
from cutover.records.parsing.field_sql import LOG_COLUMNS
from cutover.records.parsing.job_values import reject_size_sql
from cutover.records.parsing.parsed_record import EXACT, RANGES, InvalidValueError, ParsedRecord, collect_fields

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.message import Message
    from pyspark.sql import DataFrame

_ID_END = 5
_MORE = 0x80
_MAX_NUMBER_BYTES = 10


class _BrokenValueError(Exception):
    """Bytes that are no message of the topic."""


def parse_protobuf_value(value: bytes, topic: Topic) -> ParsedRecord:
    """Parse a value of at most `max_value_bytes` of a topic in Protobuf."""
    layout = make_protobuf_layout(topic)
    try:
        message = _decode(value, topic, layout)
    except _BrokenValueError:
        return ParsedRecord(reason=Reason.PROTOBUF)
    if message is None:
        return ParsedRecord(reason=Reason.SCHEMA)
    columns = {column.field.name: column for column in layout.columns}
    has_defaults = topic.protobuf is not None and topic.protobuf.default_values

    def read(field: Field) -> Any:
        column = columns[field.name]
        raw = _select(message, column, has_defaults=has_defaults)
        return None if raw is None else _convert(raw, column)

    return collect_fields(topic, read, unknown=len(_list_unread_fields(message, layout)))


def list_unread_fields(value: bytes, topic: Topic) -> list[str]:
    """List the top-level fields of a value that no column is read from; those without a name by their number."""
    layout = make_protobuf_layout(topic)
    try:
        message = _decode(value, topic, layout)
    except _BrokenValueError:
        return []
    return [] if message is None else _list_unread_fields(message, layout)


def _list_unread_fields(message: "Message", layout: ProtobufLayout) -> list[str]:
    from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: PLC0415 -- only a topic in Protobuf needs it

    read = {column.steps[0].name for column in layout.columns}
    names = [field.name for field, _ in message.ListFields() if field.name not in read]
    return sorted([*names, *{str(field.field_number) for field in UnknownFieldSet(message)}])


def _decode(value: bytes, topic: Topic, layout: ProtobufLayout) -> "Message | None":
    """Decode a value; None if its header names another message.

    Raises:
        _BrokenValueError: It is no message of the topic.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 -- only a topic in Protobuf needs it

    payload = value
    if topic.protobuf is not None and topic.protobuf.registry_header:
        place, payload = _split_header(value)
        if place != layout.place:
            return None
    try:
        message = layout.message_class.FromString(payload)
    except DecodeError:
        raise _BrokenValueError from None
    if not message.IsInitialized():
        raise _BrokenValueError
    return message


def _split_header(value: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the place of the message in its file, and the bytes behind the header.

    Source:
        Confluent, "Wire format": a zero byte, the id in four bytes, and for Protobuf the number of indexes and the
        indexes of the message, zigzag varints; a single 0 stands for the first message.
    """
    if len(value) <= _ID_END or value[0] != 0:
        raise _BrokenValueError
    count, position = _read_number(value, _ID_END)
    if count == 0:
        return (0,), value[position:]
    place = []
    for _ in range(count):
        index, position = _read_number(value, position)
        place.append(index)
    if count < 0:
        raise _BrokenValueError
    return tuple(place), value[position:]


def _read_number(value: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(_MAX_NUMBER_BYTES):
        if position + shift >= len(value):
            raise _BrokenValueError
        byte = value[position + shift]
        number |= (byte & ~_MORE) << (7 * shift)
        if not byte & _MORE:
            return (number >> 1) ^ -(number & 1), position + shift + 1
    raise _BrokenValueError


def _select(message: "Message", column: ProtobufColumn, *, has_defaults: bool) -> Any:
    """Select the value of a column; None if it, or a message or element on its path, is absent."""
    value: Any = message
    for step in column.steps:
        if isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            value = _get_field(value, step, has_defaults=has_defaults)
        if value is None:
            return None
    return value.value if column.is_wrapped else value


def _get_field(message: Any, field: Step, *, has_defaults: bool) -> Any:
    value = getattr(message, field.name)
    if field.is_repeated:
        return value
    if field.has_presence:
        is_given = message.HasField(field.name) or field.has_default_value
    else:
        is_given = has_defaults or value != field.default_value or _is_minus_zero(value)
    return value if is_given else None


def _is_minus_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0


def _convert(raw: Any, column: ProtobufColumn) -> Any:
    """Convert a value to that of its column.

    Raises:
        InvalidValueError: No table holds the value.
    """
    field = column.field
    if isinstance(raw, bytes):  # a text of proto2 that is not UTF-8
        raise InvalidValueError
    if field.type == "timestamp":
        return _convert_time(raw, column)
    if field.type == "double":
        if not math.isfinite(raw):
            raise InvalidValueError
        return float(raw) + 0.0  # minus zero is zero
    if field.type == "string":
        return _name_symbol(raw, column.steps) if column.kind == "enum" else raw
    decimal = parse_decimal_type(field.type)
    if decimal is not None:
        return Decimal(raw).quantize(Decimal(1).scaleb(-decimal[1]), context=EXACT)
    if field.type in RANGES and not -RANGES[field.type] <= raw < RANGES[field.type]:
        raise InvalidValueError
    return raw


def _convert_time(raw: Any, column: ProtobufColumn) -> int:
    if column.kind == "string":
        try:
            return parse_text_time(raw, column.field.time_format)
        except ValueError:
            raise InvalidValueError from None
    if column.kind == "timestamp":
        micros = int(raw.seconds) * 1_000_000 + int(raw.nanos / 1_000)
    else:
        micros = convert_epoch_time(raw, column.field.time_format)
    if not limits.MIN_MICROS <= micros <= limits.MAX_MICROS:
        raise InvalidValueError
    return micros


def _name_symbol(number: int, steps: Sequence[Step]) -> str:
    enum = next(step for step in reversed(steps) if not isinstance(step, int)).enum_type
    symbol = enum.values_by_number.get(number)
    return f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}" if symbol is None else str(symbol.name)


def parse_protobuf_values(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Parse records of a topic in Protobuf to their log columns, `__reason`, `__unknown` and the columns."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 -- only where Spark is
    from pyspark.sql.types import StructType  # noqa: PLC0415 -- the same

    sized = select_expressions(
        records,
        "partition AS _partition",
        "offset AS _offset",
        "timestamp AS _log_time",
        f"{reject_size_sql(topic.max_value_bytes)} AS __reason",
        f"IF(octet_length(value) <= {topic.max_value_bytes}, value, NULL) AS __payload",
    )
    columns = ", ".join(f"`{field.name}` {field.type}" for field in list_fields(topic))
    kinds = f"_partition int, _offset bigint, _log_time timestamp, __reason string, __unknown int, {columns}"
    rows = StructType.fromDDL(kinds)
    schema = to_arrow_schema(rows, timezone="UTC")  # type: ignore[arg-type]  # of DDL with several columns
    return sized.mapInArrow(partial(_parse_batches, topic=topic, schema=schema), kinds)


def _parse_batches(
    batches: "Iterable[pa.RecordBatch]", topic: Topic, schema: "pa.Schema"
) -> "Iterator[pa.RecordBatch]":
    for batch in batches:
        yield _parse_batch(batch, topic, schema)


def _parse_batch(batch: "pa.RecordBatch", topic: Topic, schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa  # noqa: PLC0415 -- the parser itself does not need it

    names = [field.name for field in list_fields(topic)]
    reasons: list[Any] = batch.column("__reason").to_pylist()
    unknown = [0] * len(reasons)
    columns: dict[str, list[Any]] = {name: [None] * len(reasons) for name in names}
    for row, payload in enumerate(batch.column("__payload")):
        if reasons[row] is not None:
            continue
        parsed = parse_protobuf_value(payload.as_py(), topic)
        reasons[row], unknown[row] = parsed.reason, parsed.unknown
        for name, value in parsed.values.items():
            columns[name][row] = value
    arrays = [batch.column(name).cast(schema.field(name).type) for name in LOG_COLUMNS]
    values = {"__reason": reasons, "__unknown": unknown, **columns}
    arrays += [pa.array(items, schema.field(name).type) for name, items in values.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
