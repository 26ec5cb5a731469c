"""Records in Avro, in the wire format of a registry: drawn ones by fastavro, with broken bytes, and nasty ones."""

import io
import json
import random
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import fastavro

from cutover.definition import Count, Fixed, JsonField, Pipeline, Topic
from cutover.errors import LogError
from cutover.records.parsing.writer_schemas import WriterSchema

SCHEMA = (
    "id bigint NOT NULL, flag boolean, small int, wide bigint, x double, y double, amount decimal(12,4), "
    "price decimal(20,2), note string, kind string, day date, at timestamp, seen timestamp, said timestamp, "
    "deep string, gone string"
)
TOPIC = Topic(
    name="t",
    schema=SCHEMA,
    event_time="at",
    parse="avro",
    fields={
        "seen": JsonField(time_format="seconds"),
        "said": JsonField(time_format="iso"),
        "deep": JsonField(path="payload.after.text"),
        "price": JsonField(path="payload.price"),
    },
    max_value_bytes=200_000,
)
PIPELINE = Pipeline(name="p", source=TOPIC, key=("note",), window=Fixed(hours=1), measures={"n_": Count()})


def decimal_type(precision: int, scale: int, **others: Any) -> dict[str, Any]:
    """Return the type of a decimal."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, **others}


_LONG_TIMES = ("timestamp-millis", "timestamp-micros")


def first_schema() -> dict[str, Any]:
    """Return a schema with every type that a column is read from."""
    after = {"type": "record", "name": "After", "fields": [{"name": "text", "type": ["string", "null"]}]}
    fixed = {"type": "fixed", "name": "Price", "size": 6, "logicalType": "decimal", "precision": 14, "scale": 1}
    payload = {
        "type": "record",
        "name": "Payload",
        "fields": [{"name": "after", "type": ["null", after]}, {"name": "price", "type": fixed}],
    }
    types: dict[str, Any] = {
        "id": "long",
        "flag": ["null", "boolean"],
        "small": "int",
        "skipped": {"type": "array", "items": ["null", "string", {"type": "map", "values": "bytes"}]},
        "wide": ["long", "null"],
        "x": "double",
        "y": ["null", "float"],
        "amount": decimal_type(9, 2),
        "note": ["null", "string"],
        "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]},
        "again": {"type": "array", "items": "Kind"},
        "day": ["null", {"type": "int", "logicalType": "date"}],
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "seen": ["null", "long"],
        "said": ["null", "string"],
        "payload": ["null", payload],
        "last": {"type": "map", "values": "double"},
    }
    fields = [{"name": name, "type": kind, "doc": "text"} for name, kind in types.items()]
    return {"type": "record", "name": "Event", "namespace": "shop.v1", "fields": fields}


def draw_schema(draw: random.Random) -> dict[str, Any]:
    """Draw another version of the first schema: fields removed, added, moved, and of other types."""
    schema = first_schema()
    fields = [item for item in schema["fields"] if draw.random() > 0.1 or item["name"] in {"id", "kind"}]
    for item in fields:
        if item["name"] == "amount" and draw.random() < 0.3:
            item["type"] = draw.choice([decimal_type(12, 4), decimal_type(8, 0), ["null", decimal_type(5, 3)]])
        if item["name"] == "at" and draw.random() < 0.5:
            item["type"] = draw.choice(
                [["null", {"type": "long", "logicalType": kind}] for kind in _LONG_TIMES] + ["string"]
            )
        if item["name"] == "wide" and draw.random() < 0.3:
            item["type"] = "int"
        if item["name"] in {"x", "y"} and draw.random() < 0.4:
            item["type"] = draw.choice(["int", "long", "float", "double", ["null", "double"]])
        if item["name"] == "small" and draw.random() < 0.1:
            item["type"] = draw.choice(["long", "string", ["null", "int", "string"]])
    if draw.random() < 0.5:
        fields.insert(draw.randrange(len(fields)), {"name": "more", "type": ["null", "string", "int"]})
    return {**schema, "fields": fields}


@dataclass
class ListedSchemas:
    """Schemas of a test by id, of which none is unknown to the registry but those that are missing."""

    schemas: dict[int, Any] = field(default_factory=dict)
    known: dict[int, WriterSchema] = field(default_factory=dict)
    is_down: bool = False
    requests: list[int] = field(default_factory=list)

    def list_known(self) -> Mapping[int, WriterSchema]:
        """Return the schemas that were learned."""
        return dict(self.known)

    def learn(self, ids: Collection[int]) -> None:
        """Learn schemas; ids that are missing have none."""
        if self.is_down:
            msg = "Schema registry: expected a response, got none."
            raise LogError(msg)
        for number in ids:
            self.requests.append(number)
            schema = self.schemas.get(number)
            self.known[number] = WriterSchema(id=number, text=None if schema is None else json.dumps(schema))


def wrap(number: int, payload: bytes) -> bytes:
    """Return a value in the wire format."""
    return b"\0" + struct.pack(">i", number) + payload


def encode(number: int, schema: Any, row: Any) -> bytes:
    """Encode a record by fastavro."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return wrap(number, stream.getvalue())


def draw_value(draw: random.Random, kind: Any, named: dict[str, Any]) -> Any:
    """Draw a value of a type."""
    if isinstance(kind, list):
        return draw_value(draw, draw.choice(kind), named)
    if isinstance(kind, str):
        kind = named.get(kind, {"type": kind})
    if "name" in kind:
        named[kind["name"]] = kind
    if kind.get("logicalType") == "decimal":
        digits = draw.randint(1, kind["precision"])
        number = Decimal(draw.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-kind["scale"])
        return draw.choice([number, number, Decimal(0)])
    if kind["type"] == "record":
        return {item["name"]: draw_value(draw, item["type"], named) for item in kind["fields"]}
    if kind["type"] == "array":
        return [draw_value(draw, kind["items"], named) for _ in range(draw.choice([0, 1, 3]))]
    if kind["type"] == "map":
        return {f"k{n}": draw_value(draw, kind["values"], named) for n in range(draw.choice([0, 1, 3]))}
    return _DRAWN[kind["type"]](draw, kind)


_TEXTS = ("", "a", "\u00e9\U0001f600", "\0", "it's", "2026-03-02T10:00:00Z", "2026-03-02 25:00:00", "x" * 300)
_DOUBLES = (0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), 5e-324, 3.4e38, 0.1)


def draw_int(draw: random.Random, kind: Any) -> Any:
    """Draw a number, or a day."""
    if "logicalType" in kind:
        return draw.choice([date(1970, 1, 1) + timedelta(days=draw.randint(-354_285, 2_567_000)), date(1, 1, 1)])
    return draw.choice([0, -1, 2**31 - 1, -(2**31), draw.randint(-(2**31), 2**31 - 1)])


def draw_long(draw: random.Random, kind: Any) -> int:
    """Draw a number, or a time in the unit of its type."""
    second = {"timestamp-millis": 1_000, "timestamp-micros": 1_000_000}.get(kind.get("logicalType"), 1)
    beyond = [2**63 - 1, -(2**63), -30_610_224_001 * second, 221_845_392_000 * second, 0, -1]
    return draw.choice([*beyond, *(draw.randint(1_760_000_000 * second, 1_780_000_000 * second) for _ in range(9))])


_DRAWN: Mapping[str, Callable[[random.Random, Any], Any]] = {
    "null": lambda _, __: None,
    "enum": lambda draw, kind: draw.choice(kind["symbols"]),
    "boolean": lambda draw, _: draw.random() < 0.5,
    "int": draw_int,
    "long": draw_long,
    "float": lambda draw, _: draw.choice([*_DOUBLES, draw.uniform(-1e6, 1e6)]),
    "double": lambda draw, _: draw.choice([*_DOUBLES, draw.uniform(-1e6, 1e6)]),
    "bytes": lambda draw, _: draw.randbytes(draw.randint(0, 4)),
    "string": lambda draw, _: draw.choice(_TEXTS),
}


def draw_record(draw: random.Random, number: int, schema: Any) -> bytes:
    """Draw a value; some have broken bytes, or another id."""
    raw_schema = _without_logical_times(schema)
    value = encode(number, raw_schema, draw_value(draw, schema, {}))
    if draw.random() < 0.35:
        edited = bytearray(value)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(5, len(edited) + 1)
            change = draw.choice(["flip", "cut", "insert", "set"])
            if change == "cut":
                del edited[at : at + draw.choice([1, 2, 500])]
            elif change == "insert":
                edited[at:at] = draw.randbytes(draw.randint(1, 3))
            elif at < len(edited):
                edited[at] = draw.choice([0, 1, 2, 0x7F, 0x80, 0xFF]) if change == "set" else edited[at] ^ 1
        value = bytes(edited)
    if draw.random() < 0.05:
        others = [b"", b"\0", b"\0\0\0\0", b"\x01" + value[1:], wrap(-1, b""), wrap(99, value[5:]), value[:5]]
        return draw.choice(others)
    return value


def _without_logical_times(schema: Any) -> Any:
    """Return a schema in which times are numbers, as they are drawn."""
    if isinstance(schema, list):
        return [_without_logical_times(item) for item in schema]
    if isinstance(schema, dict):
        if str(schema.get("logicalType", "")).startswith("timestamp"):
            return schema["type"]
        return {name: _without_logical_times(item) for name, item in schema.items()}
    return schema


def zigzag(number: int) -> bytes:
    """Encode a number as Avro does."""
    number = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


NASTY_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Nasty",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": ["null", "int"]},
        {"name": "note", "type": ["null", "string"]},
        {"name": "amount", "type": decimal_type(6, 2)},
        {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": "int"}},
        {"name": "blob", "type": "bytes"},
        {"name": "other", "type": {"type": "enum", "name": "F", "symbols": ["A"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def list_nasty_payloads() -> Iterator[bytes]:
    """Yield payloads of the nasty schema that decoders disagree on."""
    good = {
        "id": zigzag(7), "flag": b"\1", "small": zigzag(1) + zigzag(5), "note": zigzag(1) + zigzag(2) + b"ab",
        "amount": zigzag(1) + b"\x7d", "kind": zigzag(1), "list": zigzag(2) + zigzag(1) + zigzag(2) + zigzag(0),
        "blob": zigzag(1) + b"z", "other": zigzag(0), "at": zigzag(1_772_445_600_000_000),
    }  # fmt: skip
    others = {
        "id": [b"\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f", b"\xff" * 10 + b"\x01"],
        "flag": [b"\0", b"\2", b"\xff", b""],
        "small": [zigzag(0), zigzag(2), zigzag(-1), zigzag(1) + b"\xff\xff\xff\xff\x7f", zigzag(1) + zigzag(2**40)],
        "note": [
            zigzag(0), zigzag(1) + zigzag(0), zigzag(1) + zigzag(2) + b"\xff\xfe", zigzag(1) + zigzag(-2),
            zigzag(1) + zigzag(3) + b"\xed\xa0\x80", zigzag(1) + zigzag(2**31 - 20), zigzag(1) + zigzag(2**62),
        ],
        "amount": [zigzag(0), zigzag(3) + b"\x0f\x42\x3f", zigzag(3) + b"\x0f\x42\x40", zigzag(20) + b"\x7f" * 20,
                   zigzag(4) + b"\0\0\0\x01", zigzag(1) + b"\xff", zigzag(2**31 - 20), zigzag(-1)],
        "kind": [zigzag(2), zigzag(-1), zigzag(0)],
        "list": [zigzag(0), zigzag(-2) + zigzag(2) + b"ab" + zigzag(0), zigzag(-2) + zigzag(99) + zigzag(0),
                 zigzag(-2) + zigzag(-5) + zigzag(0), zigzag(2**62) + zigzag(0),
                 zigzag(-(2**63)) + zigzag(0) + zigzag(0)],
        "blob": [zigzag(-3), zigzag(0), zigzag(2**40), zigzag(2**31 - 20)],
        "other": [zigzag(5), zigzag(-5)],
        "at": [zigzag(2**63 - 1), zigzag(-(2**63)), zigzag(0), b""],
    }  # fmt: skip
    yield b"".join(good.values())
    yield b"".join(good.values()) + b"trailing"
    for length in range(len(b"".join(good.values()))):
        yield b"".join(good.values())[:length]
    for name, values in others.items():
        for value in values:
            yield b"".join({**good, name: value}.values())
