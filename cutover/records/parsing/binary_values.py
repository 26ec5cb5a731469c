"""Values in Protobuf, decoded by its library in plain Python on both paths and in every check, and in Avro, by Spark.

Protobuf: no JAR of this Spark decodes them, so it runs the same parser in its Python workers, which need the packages
of this project on executors. A message is decoded by the descriptors of the definition.

A field without presence that has its default (0, "", false), which is not in the bytes, is null, unless the options say
otherwise, as in Spark's `from_protobuf`; so is an absent field, unless its descriptor has a default of its own. An enum
is read as the name of its symbol; a number without one as Java's library names it.

Avro: Spark's `from_avro` with the schema that the id in front of each value names.

`from_avro` takes one schema of the writer, so there is one call for each known schema, and each record is decoded by
the one of its id. Schemas whose columns are the same, as after most changes, share the column that is decoded. A record
that cannot be decoded has no mark. A record whose schema is not known fails the plan; its caller learns the schema.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from cutover.definition.model.protobuf import ProtobufColumn, ProtobufLayout, Step, make_protobuf_layout
from cutover.definition.model.times import convert_epoch_time, parse_text_time
from cutover.definition.model.topic import Field, Topic, list_fields, parse_decimal_type
from cutover.quoting import spark_literal
from cutover.records.classes import Reason
from cutover.records.columns import select_expressions
from cutover.records.parsing import limits, writer_schemas
from cutover.records.parsing.avro_layout import AvroLayout, Node, find_time_unit, make_avro_layout
from cutover.records.parsing.field_sql import (
    LOG_COLUMNS,
    convert_epoch_sql,
    join_by_or,
    read_finite_sql,
    read_time_sql,
    select_path_sql,
)
from cutover.records.parsing.job_values import reject_size_sql
from cutover.records.parsing.parsed_record import EXACT, RANGES, InvalidValueError, ParsedRecord, collect_fields
from cutover.records.parsing.writer_schemas import HEAD_BYTES, MET_SCHEMA, WriterSchema

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.message import Message
    from pyspark.sql import DataFrame

_DAYS = f"{limits.MIN_MICROS // 86_400_000_000} AND {limits.MAX_MICROS // 86_400_000_000}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Known schemas of which the columns are decoded as one."""

    number: int
    layouts: Mapping[WriterSchema, AvroLayout]

    @property
    def decoded(self) -> str:
        return f"__decoded_{self.number}"

    @property
    def layout(self) -> AvroLayout:
        """Return the layout of any of them, of which `nodes` and `reader` count."""
        return next(iter(self.layouts.values()))

    @property
    def condition(self) -> str:
        """Return the SQL that is true for a record whose head is that of one of them."""
        return _is_one_of_sql(self.layouts)

    def decode_sql(self) -> str:
        """Return the SQL of the decoded record; null if it is of another group."""
        options = f"map('mode', 'PERMISSIVE', 'avroSchema', {spark_literal(self.layout.reader)})"
        cases = (
            f"WHEN {_is_one_of_sql([schema])} THEN "
            f"from_avro(substring(value, {HEAD_BYTES + 1}), {spark_literal(layout.writer)}, {options})"
            for schema, layout in self.layouts.items()
        )
        return f"CASE {' '.join(cases)} END AS {self.decoded}"


def parse_avro_values(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Parse records of a topic in Avro to their log columns, `__reason`, `__unknown` and the columns.

    Raises:
        DefinitionError: No registry is configured.
    """
    layouts = {schema: make_avro_layout(schema, topic) for schema in writer_schemas.list_known().values()}
    groups = _group_layouts(layouts)
    checked = select_expressions(
        records,
        "partition AS _partition",
        "offset AS _offset",
        "timestamp AS _log_time",
        "value",
        f"substring(value, 1, {HEAD_BYTES}) AS __head",
        f"{reject_size_sql(topic.max_value_bytes)} AS __size",
    )
    known = select_expressions(checked, *LOG_COLUMNS, "value", "__head", _check_head_sql(layouts))
    # inline(array(..)) is a generator: the optimizer cannot copy the decoding into each column that uses it.
    decoded = ", ".join(group.decode_sql() for group in groups) or "CAST(NULL AS int) AS __decoded"
    read = select_expressions(known, *LOG_COLUMNS, "__head", "__reason", f"inline(array(struct({decoded})))")
    fields = list_fields(topic)
    values = select_expressions(
        read,
        *LOG_COLUMNS,
        _check_payload_sql(groups),
        _choose_sql(groups, {g.number: _count_unknown_sql(g) for g in groups}, "int", "__unknown"),
        *(_choose_sql(groups, {g.number: _value_sql(f, g) for g in groups}, f.type, f"`{f.name}`") for f in fields),
        *(
            _choose_sql(groups, {g.number: _is_present_sql(f, g) for g in groups}, "boolean", f"`__present_{f.name}`")
            for f in fields
        ),
    )
    return select_expressions(
        values,
        *LOG_COLUMNS,
        _check_fields_sql(fields, topic),
        "coalesce(__unknown, 0) AS __unknown",
        *(f"`{field.name}`" for field in fields),
    )


def _group_layouts(layouts: Mapping[WriterSchema, AvroLayout]) -> list[_Group]:
    by_reader: dict[str, dict[WriterSchema, AvroLayout]] = {}
    for schema, layout in layouts.items():
        if layout.reason is None:
            by_reader.setdefault(f"{layout.reader} {sorted(layout.nodes.items())}", {})[schema] = layout
    return [_Group(number=number, layouts=group) for number, group in enumerate(by_reader.values())]


def _is_one_of_sql(schemas: "Mapping[WriterSchema, AvroLayout] | Sequence[WriterSchema]") -> str:
    return f"__head IN ({', '.join(_head_sql(schema) for schema in schemas)})"


def _head_sql(schema: WriterSchema) -> str:
    return f"X'{schema.head.hex().upper()}'"


def _check_head_sql(layouts: Mapping[WriterSchema, AvroLayout]) -> str:
    """Return `__reason` of values that are not decoded; null if the value is of a schema that can be read."""
    by_reason: dict[Reason | None, list[WriterSchema]] = {}
    for schema, layout in layouts.items():
        by_reason.setdefault(layout.reason, []).append(schema)
    cases = (
        f"WHEN {_is_one_of_sql(schemas)} THEN " + ("NULL" if reason is None else f"'{reason}'")
        for reason, schemas in by_reason.items()
    )
    return f"""CASE
        WHEN __size IS NOT NULL THEN __size
        WHEN octet_length(value) < {HEAD_BYTES} OR substring(value, 1, 1) <> X'00' THEN '{Reason.AVRO}'
        {" ".join(cases)}
        ELSE CAST(raise_error(concat('{MET_SCHEMA}', hex(__head))) AS string)
    END AS __reason"""


def _check_payload_sql(groups: Sequence[_Group]) -> str:
    marks = ", ".join(f"{group.decoded}.{group.layout.mark}" for group in groups)
    return f"IF(__reason IS NULL AND coalesce({marks or 'NULL'}, NULL) IS NULL, '{Reason.AVRO}', __reason) AS __reason"


def _count_unknown_sql(group: _Group) -> str:
    """Return the SQL of the number of fields that no column is read from, which schemas of a group differ in."""
    cases = (f"WHEN {_is_one_of_sql([schema])} THEN {layout.unknown}" for schema, layout in group.layouts.items())
    return f"CASE {' '.join(cases)} END"


def _choose_sql(groups: Sequence[_Group], values: Mapping[int, str], kind: str, name: str) -> str:
    """Return the SQL of a value that each group has in its own way; null for other records."""
    cases = " ".join(f"WHEN {group.condition} THEN {values[group.number]}" for group in groups)
    value = f"CASE {cases} END" if groups else f"CAST(NULL AS {kind})"
    return f"{value} AS {name}"


def _raw_sql(field: Field, group: _Group) -> str:
    return select_path_sql(group.decoded, field.path)


def _is_present_sql(field: Field, group: _Group) -> str:
    return f"{_raw_sql(field, group)} IS NOT NULL" if field.name in group.layout.nodes else "false"


def _value_sql(field: Field, group: _Group) -> str:
    node = group.layout.nodes.get(field.name)
    if node is None or node.kind == "null":
        return f"CAST(NULL AS {field.type})"
    return f"CAST({_convert_sql(_raw_sql(field, group), node, field)} AS {field.type})"


def _convert_sql(value: str, node: Node, field: Field) -> str:
    """Return the SQL of a value as its column has it; null if no table holds it."""
    if field.type == "double":
        return read_finite_sql(f"CAST({value} AS double)")
    if field.type == "date":
        return f"IF({value} BETWEEN {_DAYS}, date_from_unix_date({value}), NULL)"
    if field.type == "timestamp":
        unit = find_time_unit(node, field)
        if node.kind == "string" or unit is None:
            return read_time_sql(value, field)
        return convert_epoch_sql(value, unit)
    if field.type == "string":
        return f"IF(is_valid_utf8({value}), {value}, NULL)"
    return value


def _check_fields_sql(fields: Sequence[Field], topic: Topic) -> str:
    """Return `__reason`, which now also covers values that no table holds and missing ones."""
    invalid = [f"(`__present_{f.name}` AND `{f.name}` IS NULL)" for f in fields if f.name != topic.event_time]
    missing = [f"NOT `__present_{field.name}`" for field in fields if not field.nullable]
    return f"""CASE
        WHEN __reason IS NOT NULL THEN __reason
        WHEN {join_by_or(invalid)} THEN '{Reason.TYPE}'
        WHEN {join_by_or(missing)} THEN '{Reason.MISSING}'
    END AS __reason"""


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
