"""Messages in Protobuf of every kind of field, and topics whose columns are read from them."""

import random
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2

from cutover.definition import JsonField, ProtobufOptions, Topic
from cutover.definition.model.protobuf import make_protobuf_layout

FIELD = descriptor_pb2.FieldDescriptorProto
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

FIELDS: dict[str, tuple[int, int, str]] = {  # name -> number, type, full name of a message or an enum
    "id": (1, FIELD.TYPE_INT64, ""),
    "shop": (2, FIELD.TYPE_STRING, ""),
    "open": (3, FIELD.TYPE_BOOL, ""),
    "count": (4, FIELD.TYPE_INT32, ""),
    "weight": (5, FIELD.TYPE_FLOAT, ""),
    "price": (6, FIELD.TYPE_DOUBLE, ""),
    "big": (7, FIELD.TYPE_UINT64, ""),
    "state": (8, FIELD.TYPE_ENUM, ".shop.State"),
    "at": (9, FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
    "millis": (10, FIELD.TYPE_INT64, ""),
    "text_time": (11, FIELD.TYPE_STRING, ""),
    "points": (12, FIELD.TYPE_MESSAGE, ".google.protobuf.Int64Value"),
    "buyer": (13, FIELD.TYPE_MESSAGE, ".shop.Buyer"),
    "raw": (14, FIELD.TYPE_BYTES, ""),
    "small": (15, FIELD.TYPE_SINT32, ""),
    "items": (16, FIELD.TYPE_MESSAGE, ".shop.Item"),
    "tags": (17, FIELD.TYPE_STRING, ""),
    "note": (18, FIELD.TYPE_STRING, ""),
}
REPEATED, OPTIONAL = ("items", "tags"), ("note",)

SCHEMA = """id bigint NOT NULL, shop string, open boolean, count int, weight double, price double, big bigint,
    state string, number int, at timestamp, millis timestamp, text_time timestamp, points bigint, city string,
    small decimal(12,2), sku string, tag string, note string"""
PLACES = {
    "number": JsonField(path="state"),
    "millis": JsonField(time_format="millis"),
    "city": JsonField(path="buyer.address.city"),
    "sku": JsonField(path="items[1].sku"),
    "tag": JsonField(path="tags[0]"),
}


def make_file() -> descriptor_pb2.FileDescriptorProto:
    """Make the descriptors of the file `shop.proto`."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    file.enum_type.add(name="State").value.extend(
        descriptor_pb2.EnumValueDescriptorProto(name=name, number=number) for number, name in enumerate(("NEW", "PAID"))
    )
    buyer = file.message_type.add(name="Buyer")
    buyer.nested_type.add(name="Address").field.add(name="city", number=1, type=FIELD.TYPE_STRING, label=1)
    buyer.field.add(name="address", number=1, type=FIELD.TYPE_MESSAGE, type_name=".shop.Buyer.Address", label=1)
    item = file.message_type.add(name="Item")
    item.field.add(name="sku", number=1, type=FIELD.TYPE_STRING, label=1)
    order = file.message_type.add(name="Order")
    for name, (number, kind, type_name) in FIELDS.items():
        field = order.field.add(name=name, number=number, type=kind, label=3 if name in REPEATED else 1)
        if type_name:
            field.type_name = type_name
        if name in OPTIONAL:
            field.proto3_optional = True
            field.oneof_index = len(order.oneof_decl)
            order.oneof_decl.add(name=f"_{name}")
    old = file.message_type.add(name="Next")
    old.CopyFrom(order)
    old.name = "Next"
    old.field.add(name="added", number=40, type=FIELD.TYPE_STRING, label=1)
    return file


def encode_descriptors(*files: descriptor_pb2.FileDescriptorProto, includes_imports: bool = True) -> str:
    """Encode files as `protoc --include_imports` writes them, in base 64."""
    modules = (timestamp_pb2, wrappers_pb2) if includes_imports else ()
    imports = [descriptor_pb2.FileDescriptorProto.FromString(m.DESCRIPTOR.serialized_pb) for m in modules]
    return b64encode(descriptor_pb2.FileDescriptorSet(file=[*imports, *files]).SerializeToString()).decode()


def make_topic(schema: str = SCHEMA, **options: Any) -> Topic:
    """Make a topic of `shop.Order`, or of another message."""
    names = {part.split()[0] for part in schema.split(",")}
    return Topic(
        name=options.pop("name", "t"),
        schema=schema,
        event_time=options.pop("event_time", "at"),
        parse="protobuf",
        fields={name: place for name, place in {**PLACES, **options.pop("fields", {})}.items() if name in names},
        protobuf=ProtobufOptions(
            **{"message": "shop.Order", "descriptor_set": encode_descriptors(make_file()), **options}
        ),
    )


def new_message(message: str = "shop.Order") -> Any:
    """Return an empty message, to be filled."""
    return make_protobuf_layout(make_topic("id bigint, at timestamp", message=message)).message_class()


def draw_message(draw: random.Random, message: str = "shop.Order") -> Any:
    """Draw a message: fields are absent, have their default, or a value, also one that no table holds."""
    order = new_message(message)
    values: dict[str, list[Any]] = {
        "id": [0, 1, -(2**63), 2**63 - 1],
        "shop": ["", "a", "\u00e9\n\0"],
        "open": [False, True],
        "count": [0, 7, -(2**31)],
        "weight": [0.0, -0.0, 0.1, float("nan")],
        "price": [0.0, -0.0, 1e300, float("inf")],
        "big": [0, 5, 2**63, 2**64 - 1],
        "state": [0, 1, 9],
        "millis": [0, 1_772_366_400_000, 2**62],
        "text_time": ["", "2026-03-01T12:00:00Z", "x"],
        "raw": [b"", b"\xff"],
        "small": [0, -1, 2**31 - 1],
        "note": ["", "n"],
        **({"added": ["", "x"]} if message == "shop.Next" else {}),
    }
    for name, choices in values.items():
        if draw.random() < 0.7:
            setattr(order, name, draw.choice(choices))
    if draw.random() < 0.9:
        order.at.FromDatetime(NOON)
        order.at.nanos = draw.choice([0, 1_999, 999_999_999])
    if draw.random() < 0.1:
        order.at.seconds = 2**60
    if draw.random() < 0.7:
        order.points.value = draw.choice([0, 3])
    if draw.random() < 0.7:
        order.buyer.address.city = draw.choice(["", "Ulm"])
    for number in range(draw.randrange(3)):
        order.items.add(sku=draw.choice(["", f"s{number}"]))
        order.tags.append(draw.choice(["", f"t{number}"]))
    return order
