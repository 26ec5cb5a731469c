"""Values in Protobuf: which columns a message has, what absent fields are, and which bytes are malformed."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from cutover.definition import JsonField, ProtobufOptions, Topic
from cutover.definition.checks.json_fields import check_json_fields
from cutover.definition.model.protobuf import describe_protobuf
from cutover.errors import DefinitionError
from cutover.records.classes import Reason
from cutover.records.parsing.binary_values import list_unread_fields
from cutover.records.reference.parse import parse_record
from tests.support.rows.protobuf_values import FIELD, NOON, encode_descriptors, make_file, make_topic, new_message

X = "x string, at timestamp"
MICROS = int(NOON.timestamp()) * 1_000_000


def fill() -> Any:
    order = new_message()
    order.id, order.shop, order.open, order.count, order.big = 5, "a", True, -7, 2**63 - 1
    order.weight, order.price, order.state, order.small = 0.5, -0.0, 1, -3
    order.at.FromDatetime(NOON)
    order.at.nanos, order.millis, order.text_time = 1_999, 1_772_366_400_123, "2026-03-01T12:00:00+01:00"
    order.points.value, order.buyer.address.city = 0, "Ulm"
    order.items.add(sku="x")
    order.items.add(sku="y")
    order.tags.extend(["", "t"])
    order.note = ""
    return order


def test_every_kind_of_field_is_read() -> None:
    parsed = parse_record(fill().SerializeToString(), make_topic())

    assert parsed.reason is None
    assert parsed.values == {
        "id": 5,
        "shop": "a",
        "open": True,
        "count": -7,
        "weight": 0.5,
        "price": 0.0,
        "big": 2**63 - 1,
        "state": "PAID",
        "number": 1,
        "at": MICROS + 1,
        "millis": 1_772_366_400_123_000,
        "text_time": MICROS - 3_600_000_000,
        "points": 0,
        "city": "Ulm",
        "small": Decimal("-3.00"),
        "sku": "y",
        "tag": "",
        "note": "",
    }


@pytest.mark.parametrize(("default_values", "zero", "text"), [(False, None, None), (True, 0, "")])
def test_absent_fields_are_null_as_for_the_function_of_spark(
    *, default_values: bool, zero: int | None, text: str | None
) -> None:
    order = new_message()
    order.id = 1
    order.at.FromDatetime(NOON)

    values = parse_record(order.SerializeToString(), make_topic(default_values=default_values)).values

    assert (values["count"], values["shop"], values["state"]) == (zero, text, "NEW" if default_values else None)
    assert [values[name] for name in ("points", "city", "sku", "tag", "note")] == [None] * 5


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("big", 2**63, Reason.TYPE),
        ("price", float("inf"), Reason.TYPE),
        ("weight", float("nan"), Reason.TYPE),
        ("millis", 2**62, Reason.TYPE),
        ("text_time", "12:30", Reason.TYPE),
        ("id", 0, Reason.MISSING),
    ],
)
def test_values_that_no_table_holds_are_malformed(field: str, value: object, reason: Reason) -> None:
    order = fill()
    setattr(order, field, value)

    parsed = parse_record(order.SerializeToString(), make_topic())

    assert parsed.reason is reason
    assert [invalid.name for invalid in parsed.invalid_fields] == [field]


def test_a_record_without_an_event_time_is_malformed() -> None:
    order = new_message()
    order.id = 1

    assert parse_record(order.SerializeToString(), make_topic()).reason is Reason.EVENT_TIME


def test_symbols_without_a_name_are_named_by_their_number() -> None:
    order = fill()
    order.state = 9

    values = parse_record(order.SerializeToString(), make_topic()).values

    assert (values["state"], values["number"]) == ("UNKNOWN_ENUM_VALUE_State_9", 9)


@pytest.mark.parametrize("value", [b"\x08", b"\xff" * 9, b"\x12\x02\xff\xfe", b"\x12\x7fa"])
def test_bytes_that_are_no_message_are_malformed(value: bytes) -> None:
    assert parse_record(value, make_topic()).reason is Reason.PROTOBUF


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"\0\0\0\0\7\2\4", None),
        (b"\0\0\0\0\7\4\4\2", Reason.SCHEMA),
        (b"\0\0\0\0\7\0", Reason.SCHEMA),
        (b"\1\0\0\0\7\2\4", Reason.PROTOBUF),
        (b"\0\0\0\0\7", Reason.PROTOBUF),
        (b"\0\0\0\0\7\1", Reason.PROTOBUF),
    ],
)
def test_the_header_of_a_registry_names_the_message(head: bytes, reason: Reason | None) -> None:
    value = head + (b"" if reason is Reason.PROTOBUF else fill().SerializeToString())

    assert parse_record(value, make_topic(registry_header=True)).reason is reason


def test_fields_of_a_newer_writer_are_counted() -> None:
    order = new_message("shop.Next")
    order.id, order.added = 1, "x"
    order.at.FromDatetime(NOON)
    topic = make_topic("id bigint NOT NULL, at timestamp")
    value = order.SerializeToString()

    assert parse_record(value, topic).unknown == 1
    assert list_unread_fields(value, topic) == ["40"]
    assert list_unread_fields(fill().SerializeToString(), replace(topic, schema="at timestamp"))[:2] == [
        "big",
        "buyer",
    ]


def make_old_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    message = file.message_type.add(name="M")
    message.field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=2)
    message.field.add(name="size", number=2, type=FIELD.TYPE_INT32, label=1, default_value="7")
    message.field.add(name="name", number=3, type=FIELD.TYPE_STRING, label=1)
    message.field.add(name="at", number=4, type=FIELD.TYPE_INT64, label=1)
    return file


def test_proto2_has_defaults_required_fields_and_unchecked_texts() -> None:
    topic = Topic(
        name="t",
        schema="id bigint, size int, name string, at timestamp",
        event_time="at",
        time_format="millis",
        parse="protobuf",
        protobuf=ProtobufOptions(message="old.M", descriptor_set=encode_descriptors(make_old_file())),
    )

    assert parse_record(b"\x08\x01\x20\x05", topic).values == {"id": 1, "size": 7, "name": None, "at": 5_000}
    assert parse_record(b"\x20\x05", topic).reason is Reason.PROTOBUF
    assert parse_record(b"\x08\x01\x1a\x01\xff\x20\x05", topic).reason is Reason.TYPE


def test_descriptors_without_imports_know_times_and_wrappers() -> None:
    topic = make_topic(descriptor_set=encode_descriptors(make_file(), includes_imports=False))

    assert parse_record(fill().SerializeToString(), topic).reason is None


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (make_topic(message="shop.Ordr"), "expected one of shop.Buyer, shop.Item, shop.Next, shop.Order"),
        (make_topic(descriptor_set="AAAA"), "protobuf.descriptor_set: expected a file of descriptors"),
        (make_topic(descriptor_set="no base 64"), "protobuf.descriptor_set: expected a file of descriptors"),
        (make_topic("idd bigint, at timestamp"), "expected a field of shop.Order"),
        (make_topic("id int, at timestamp"), "expected a field that is read as int, got long `id`"),
        (make_topic("raw string, at timestamp"), "got bytes `raw`"),
        (make_topic("buyer string, at timestamp"), "got the message shop.Buyer"),
        (make_topic("tags string, at timestamp"), "an index behind the repeated field, such as `tags[0]`, got none"),
        (make_topic(X, fields={"x": JsonField(path="shop[0]")}), "an index only behind a repeated"),
        (make_topic(X, fields={"x": JsonField(path="items.sku")}), "such as `items[0]`, got none"),
        (make_topic(X, fields={"x": JsonField(path="shop.a")}), "a path that leads through messages"),
        (make_topic("small decimal(10,2), at timestamp"), "read as decimal(10,2), got int `small`"),
        (make_topic("small date, at timestamp"), "read as date, got int `small`"),
        (make_topic("at timestamp, id timestamp"), "got long `id`"),
        (replace(make_topic(), protobuf=None), "source.protobuf: expected ProtobufOptions"),
        (replace(make_topic(), parse="strict"), 'none, since only parse="protobuf" has options'),
    ],
)  # fmt: skip
def test_definitions_that_no_message_fits_are_rejected(topic: Topic, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        check_json_fields("source", topic)

    assert message in str(caught.value)
    assert str(caught.value).startswith("source.")


def test_the_fingerprint_depends_on_the_fields_that_are_read() -> None:
    schema = "id bigint, at timestamp"
    order, longer = make_topic(schema), make_file()
    longer.message_type[2].field.add(name="more", number=50, type=FIELD.TYPE_STRING, label=1)
    longer.message_type[2].field[0].number = 51

    assert describe_protobuf(order) == describe_protobuf(
        make_topic(schema, descriptor_set=encode_descriptors(make_file(), includes_imports=False))
    )
    assert describe_protobuf(order) != describe_protobuf(make_topic(schema, descriptor_set=encode_descriptors(longer)))
    assert describe_protobuf(order) != describe_protobuf(make_topic(schema, default_values=True))
