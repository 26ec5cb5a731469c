"""Parser of one record in Avro in plain Python, which decodes bytes as Avro's Java library does.

That library ignores some errors: bytes after the record, a boolean that is neither 0 nor 1 (false), digits of a number
beyond its type, and a negative length of something that is skipped.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from cutover.definition.model.times import convert_epoch_time, parse_text_time
from cutover.definition.model.topic import Field, JsonPath, Topic, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.parsing import limits, writer_schemas
from cutover.records.parsing.avro_layout import Node, find_time_unit, make_avro_layout
from cutover.records.parsing.parsed_record import (
    AFTER_LAST_DATE,
    EXACT,
    FIRST_DATE,
    InvalidValueError,
    ParsedRecord,
    collect_fields,
)

_INT_BITS, _LONG_BITS = 32, 64
_BITS_PER_BYTE = 7
_EPOCH = date(1970, 1, 1)


class BrokenAvroError(Exception):
    """Bytes that are no record of their schema."""


def parse_avro_value(value: bytes, topic: Topic) -> ParsedRecord:
    """Parse a value of at most `max_value_bytes` of a topic in Avro."""
    if len(value) < writer_schemas.HEAD_BYTES or value[0] != 0:
        return ParsedRecord(reason=Reason.AVRO)
    layout = make_avro_layout(writer_schemas.find_schema(value[: writer_schemas.HEAD_BYTES]), topic)
    if layout.reason is not None or layout.root is None:
        return ParsedRecord(reason=layout.reason)
    fields = list_fields(topic)
    paths = [field.path for field in fields if field.name in layout.nodes]
    try:
        row = _Decoder(value, writer_schemas.HEAD_BYTES).read(layout.root, paths)
    except (BrokenAvroError, IndexError, struct.error):
        return ParsedRecord(reason=Reason.AVRO)

    def read(field: Field) -> Any:
        raw = _select(row, field.path) if field.name in layout.nodes else None
        return None if raw is None else _convert(raw, layout.nodes[field.name], field)

    return collect_fields(topic, read, unknown=layout.unknown)


class _Decoder:
    """Decoder of values that lie one after the other."""

    def __init__(self, value: bytes, position: int) -> None:
        self._value, self._position = value, position

    def read(self, node: Node, rests: Sequence[JsonPath]) -> Any:
        """Read a value, of a record only what some paths lead to."""
        if node.kind == "record":
            return self._read_record(node, rests)
        if node.kind == "union":
            return self.read(self._select_branch(node), rests)
        if node.kind == "decimal":
            return self._read_decimal(node)
        if node.kind == "string":
            return self._take(self._read_number(_LONG_BITS))
        if node.kind == "enum":
            index = self._read_number(_INT_BITS)
            return node.symbols[self._check_index(index, node.size)].encode()
        return self._read_scalar(node)

    def _read_scalar(self, node: Node) -> Any:
        match node.kind:
            case "null":
                return None
            case "boolean":
                return self._take(1)[0] == 1
            case "int" | "date":
                return self._read_number(_INT_BITS)
            case "long":
                return self._read_number(_LONG_BITS)
            case "float":
                return struct.unpack("<f", self._take(4))[0]
            case _:
                return struct.unpack("<d", self._take(8))[0]

    def _read_record(self, node: Node, rests: Sequence[JsonPath]) -> dict[str, Any]:
        row = {}
        for name, inner in node.fields:
            inner_rests = [path[1:] for path in rests if path[0] == name]
            if inner_rests:
                row[name] = self.read(inner, inner_rests)
            else:
                self._skip(inner)
        return row

    def _read_decimal(self, node: Node) -> Decimal:
        size = node.fields[0][1].size if node.fields else self._read_number(_LONG_BITS)
        unscaled = int.from_bytes(self._take(size), "big", signed=True)
        if size == 0 or len(str(abs(unscaled))) > node.size:
            raise BrokenAvroError
        return Decimal(unscaled).scaleb(-node.scale, context=EXACT)

    def _skip(self, node: Node) -> None:
        match node.kind:
            case "record":
                for _, inner in node.fields:
                    self._skip(inner)
            case "union":
                self._skip(self._select_branch(node))
            case "array" | "map":
                self._skip_blocks(node)
            case "string" | "bytes":
                self._take(max(0, self._read_number(_LONG_BITS)))
            case "fixed":
                self._take(node.size)
            case "decimal":
                self._take(node.fields[0][1].size if node.fields else max(0, self._read_number(_LONG_BITS)))
            case "enum":
                self._read_number(_INT_BITS)
            case _:
                self._read_scalar(node)

    def _skip_blocks(self, node: Node) -> None:
        while True:
            count = self._read_number(_LONG_BITS)
            while count < 0:  # the number of bytes follows
                self._take(max(0, self._read_number(_LONG_BITS)))
                count = self._read_number(_LONG_BITS)
            if count == 0:
                return
            for _ in range(count):
                if node.kind == "map":
                    self._take(max(0, self._read_number(_LONG_BITS)))
                self._skip(node.fields[0][1])

    def _select_branch(self, node: Node) -> Node:
        return node.fields[self._check_index(self._read_number(_INT_BITS), len(node.fields))][1]

    @staticmethod
    def _check_index(index: int, size: int) -> int:
        if not 0 <= index < size:
            raise BrokenAvroError
        return index

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._value):
            raise BrokenAvroError
        taken = self._value[self._position : end]
        self._position = end
        return taken

    def _read_number(self, bits: int) -> int:
        """Read a number of at most as many bytes as its type needs; digits beyond the type are dropped."""
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += _BITS_PER_BYTE
            if byte < 1 << _BITS_PER_BYTE:
                break
            if shift >= bits:
                raise BrokenAvroError
        number &= (1 << bits) - 1
        return (number >> 1) ^ -(number & 1)


def _select(row: Any, path: JsonPath) -> Any:
    for step in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(str(step))
    return row


def _convert(raw: Any, node: Node, field: Field) -> Any:
    """Convert a value to that of its column.

    Raises:
        InvalidValueError: No table holds the value.
    """
    if field.type == "timestamp":
        return _convert_time(raw, node, field)
    if field.type == "double":
        if not math.isfinite(raw):
            raise InvalidValueError
        return float(raw) + 0.0  # minus zero is zero
    if field.type == "date":
        first, end = ((day - _EPOCH).days for day in (FIRST_DATE, AFTER_LAST_DATE))
        if not first <= raw < end:
            raise InvalidValueError
        return _EPOCH + timedelta(days=raw)
    if field.type == "string":
        return _decode_text(raw)
    decimal = parse_decimal_type(field.type)
    return raw if decimal is None else Decimal(raw).quantize(Decimal(1).scaleb(-decimal[1]), context=EXACT)


def _convert_time(raw: Any, node: Node, field: Field) -> int:
    unit = find_time_unit(node, field)
    if node.kind == "string" or unit is None:
        try:
            return parse_text_time(_decode_text(raw), field.time_format)
        except ValueError:
            raise InvalidValueError from None
    micros = convert_epoch_time(raw, unit)
    if not limits.MIN_MICROS <= micros <= limits.MAX_MICROS:
        raise InvalidValueError
    return micros


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InvalidValueError from None
