"""Columns of a topic in a Protobuf message, which its descriptors describe.

A column is read from a field of a compatible type: numbers, texts, enums, and the messages `Timestamp` and wrappers
(`google.protobuf.Int64Value`, ...). Its path leads through messages, and by an index into repeated fields.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import Field, ProtobufOptions, Topic, list_fields, parse_decimal_type
from cutover.errors import DefinitionError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

Step = Any
"""`FieldDescriptor` of a field, or index of an element of the repeated field before it."""

_KINDS = {
    "bool": ("BOOL",),
    "int": ("INT32", "SINT32", "SFIXED32"),
    "unsigned int": ("UINT32", "FIXED32"),
    "long": ("INT64", "SINT64", "SFIXED64"),
    "unsigned long": ("UINT64", "FIXED64"),
    "float": ("FLOAT", "DOUBLE"),
    "string": ("STRING",),
    "bytes": ("BYTES",),
    "enum": ("ENUM",),
    "message": ("MESSAGE", "GROUP"),
}
_DIGITS = {"int": 10, "unsigned int": 10, "long": 19, "unsigned long": 20}
_WHOLE = tuple(_DIGITS)
_READABLE: Mapping[str, tuple[str, ...]] = {
    "boolean": ("bool",),
    "int": ("int", "enum"),
    "bigint": (*_WHOLE, "enum"),
    "double": (*_WHOLE, "float"),
    "string": ("string", "enum"),
}
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufColumn:
    """Column and where it is in the message."""

    field: Field
    steps: tuple[Step, ...]
    kind: str  # of the value: a key of `_KINDS` other than message, or timestamp
    is_wrapped: bool  # the last step leads to a message with the value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufLayout:
    """Message of a topic, and its columns in the order of the schema."""

    message_class: "type[Message]"
    place: tuple[int, ...]  # of the message in its file, and of the messages that contain it, the outermost first
    columns: tuple[ProtobufColumn, ...]


@lru_cache(maxsize=64)
def make_protobuf_layout(topic: Topic) -> ProtobufLayout:
    """Find the columns of a topic with `parse="protobuf"` in its message.

    Raises:
        DefinitionError: The descriptors lack the message, or a column cannot be read from it.
    """
    from google.protobuf import message_factory  # noqa: PLC0415 -- only a topic in Protobuf needs it

    if topic.protobuf is None:
        msg = "protobuf: expected ProtobufOptions(message=..., descriptor_set=...), got none."
        raise DefinitionError(msg)
    descriptor = _find_message(topic.protobuf)
    return ProtobufLayout(
        message_class=message_factory.GetMessageClass(descriptor),
        place=_find_place(descriptor),
        columns=tuple(_find_column(descriptor, column) for column in list_fields(topic)),
    )


def describe_protobuf(topic: Topic) -> list[Any]:
    """Describe what the columns of a topic depend on: numbers and types of fields, symbols of enums, the options."""
    options, layout = topic.protobuf, make_protobuf_layout(topic)
    flags = [] if options is None else [options.registry_header, options.default_values]
    columns = [[c.field.name, *(_describe_step(step) for step in c.steps)] for c in layout.columns]
    return [layout.message_class.DESCRIPTOR.full_name, *flags, columns]


def _describe_step(step: Step) -> Any:
    if isinstance(step, int):
        return step
    symbols = [] if step.enum_type is None else sorted((v.number, v.name) for v in step.enum_type.values)
    default = repr(step.default_value) if step.has_default_value else None
    return [step.number, step.type, step.is_repeated, step.has_presence, default, symbols]


def _find_message(options: ProtobufOptions) -> "Descriptor":
    from google.protobuf import descriptor_pb2, descriptor_pool, message  # noqa: PLC0415 -- as above

    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(b64decode(options.descriptor_set, validate=True))
        for file in (*_list_well_known_files({file.name for file in files.file}), *files.file):
            pool.AddSerializedFile(file.SerializeToString())
    except (message.DecodeError, ValueError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0].removesuffix(".")
        msg = f"protobuf.descriptor_set: expected a file of descriptors with all of its imports, got: {reason}."
        hint = "\nHint: `protoc --include_imports --descriptor_set_out=orders.desc orders.proto` writes one."
        raise DefinitionError(msg + hint) from None
    try:
        descriptor: Descriptor = pool.FindMessageTypeByName(options.message)
    except KeyError:
        names = sorted(f"{file.package}.{m.name}".lstrip(".") for file in files.file for m in file.message_type)
        own_names = [name for name in names if not name.startswith("google.")] or names
        msg = f"protobuf.message: expected one of {', '.join(own_names[:10])}, got `{options.message[:80]}`."
        raise DefinitionError(msg) from None
    return descriptor


def _list_well_known_files(names: set[str]) -> list[Any]:
    """List the descriptors of `Timestamp` and wrappers, unless they are among the given files."""
    from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2  # noqa: PLC0415 -- as above

    descriptors = [module.DESCRIPTOR for module in (timestamp_pb2, wrappers_pb2)]
    return [
        descriptor_pb2.FileDescriptorProto.FromString(descriptor.serialized_pb)
        for descriptor in descriptors
        if descriptor.name not in names
    ]


def _find_place(descriptor: "Descriptor") -> tuple[int, ...]:
    outer = descriptor.containing_type
    siblings = descriptor.file.message_types_by_name if outer is None else outer.nested_types_by_name
    return (*(() if outer is None else _find_place(outer)), list(siblings).index(descriptor.name))


def _find_column(descriptor: "Descriptor", column: Field) -> ProtobufColumn:
    steps: list[Step] = []
    message: Descriptor | None = descriptor
    for step in column.path:
        needs_index = bool(steps) and not isinstance(steps[-1], int) and steps[-1].is_repeated
        if isinstance(step, int) != needs_index:
            _reject_index(column, steps[-1], is_given=not needs_index)
        if isinstance(step, int):
            steps.append(step)
        else:
            steps.append(_find_field(column, message, step))
            message = steps[-1].message_type
    last = next(step for step in reversed(steps) if not isinstance(step, int))
    if last.is_repeated and last is steps[-1]:
        _reject_index(column, last, is_given=False)
    is_wrapped = last.message_type is not None and last.message_type.full_name in _WRAPPERS
    leaf = last.message_type.fields_by_name["value"] if is_wrapped else last
    return ProtobufColumn(field=column, steps=tuple(steps), kind=_check_type(column, leaf), is_wrapped=is_wrapped)


def _find_field(column: Field, message: "Descriptor | None", name: str) -> "FieldDescriptor":
    if message is None or message.GetOptions().map_entry:
        _reject(column, "a path that leads through messages alone", f"`{name}` behind a field that is none")
    descriptor: FieldDescriptor | None = message.fields_by_name.get(name)
    if descriptor is None:
        names = ", ".join(f"`{field.name}`" for field in message.fields[:12])
        _reject(column, f"a field of {message.full_name} ({names})", f"`{name}`")
    return descriptor


def _check_type(column: Field, leaf: "FieldDescriptor") -> str:
    """Return the kind of a field's values, which its column can have."""
    if leaf.message_type is not None:
        if column.type == "timestamp" and leaf.message_type.full_name == _TIMESTAMP:
            return "timestamp"
        _reject(column, f"a field that is read as {column.type}", f"the message {leaf.message_type.full_name}")
    kind = next(kind for kind, names in _KINDS.items() if leaf.type in {getattr(leaf, f"TYPE_{n}") for n in names})
    if column.type == "timestamp":
        is_readable = kind in _WHOLE if column.time_format in EPOCH_FORMATS else kind == "string"
        hint = "`time_format` says how numbers (seconds, millis, ...) and texts (iso or a pattern) encode a time"
    else:
        decimal = parse_decimal_type(column.type)
        fits = decimal is not None and kind in _WHOLE and _DIGITS[kind] <= decimal[0] - decimal[1]
        is_readable = fits or kind in _READABLE.get(column.type, ())
        hint = "read it as the type that it has, and CAST it in `derive`"
    if not is_readable:
        _reject(column, f"a field that is read as {column.type}", f"{kind} `{leaf.name}`", hint)
    return kind


def _reject_index(column: Field, step: Step, *, is_given: bool) -> NoReturn:
    if is_given:
        _reject(column, "an index only behind a repeated field", "another one")
    _reject(column, f"an index behind the repeated field, such as `{step.name}[0]`", "none")


def _reject(column: Field, expected: str, actual: str, hint: str = "") -> NoReturn:
    msg = f"column `{column.name}`, field `{column.label}` of the message: expected {expected}, got {actual}."
    raise DefinitionError(msg + (f"\nHint: {hint}." if hint else ""))
