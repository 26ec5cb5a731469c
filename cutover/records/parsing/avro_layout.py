"""Columns of a topic in the schema of a writer: where they are, how they are read, and with which schema of a reader.

The reader's schema has the columns' fields alone, with the types of the writer, so that nothing is converted by rules
that engines do not share; other fields are skipped. Dates and times are read as the numbers that they are.

A column is read from a field of a compatible type, or from a union of null and one. The schema as a whole is rejected,
and each of its records is malformed(schema), if it is no record, or if it has a type that a few broken bytes could make
endless to skip: one that contains itself, or an array of elements without bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import Field, JsonPath, Topic, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.parsing.writer_schemas import WriterSchema

_MARK = "__is_read"
"""Field that no writer has, with `_` in front as often as needed: its default is in each record that could be read."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_MAX_DEPTH = 64
_TIMES = {"timestamp-millis": "millis", "timestamp-micros": "micros", "timestamp-nanos": "nanos"}
_MAX_DECIMAL = 38
_WHOLE_DIGITS = {"int": 10, "long": 19}
_READABLE = {
    "boolean": ("boolean",),
    "int": ("int",),
    "bigint": ("int", "long"),
    "double": ("int", "long", "float", "double"),
    "string": ("string", "enum"),
    "date": ("date",),
}


class IncompatibleError(Exception):
    """Schema, or a type in it, that the columns of a topic cannot be read from."""


@dataclass(frozen=True, slots=True)
class Node:
    """Type in the schema of a writer, without names: what decoders need.

    `kind` is the name of a primitive type, or record, enum, fixed, array, map, union, date, decimal.
    """

    kind: str
    fields: tuple[tuple[str, "Node"], ...] = ()  # of a record; of an array, map or union its types, with empty names
    size: int = 0  # of a fixed; number of symbols of an enum; precision of a decimal
    symbols: tuple[str, ...] = ()
    scale: int = 0
    time: str | None = None  # of a long: millis, micros or nanos
    name: str = ""  # full name of an enum or fixed

    @property
    def may_be_empty(self) -> bool:
        """Return whether a value may take no bytes."""
        if self.kind == "record":
            return all(node.may_be_empty for _, node in self.fields)
        if self.kind == "decimal":
            return any(node.may_be_empty for _, node in self.fields)
        return self.kind == "null" or (self.kind == "fixed" and self.size == 0)

    @property
    def is_named(self) -> bool:
        """Return whether a union may have several types of this kind."""
        return self.kind in {"record", "enum", "fixed"} or (self.kind == "decimal" and bool(self.name))

    @property
    def value(self) -> "Node":
        """Return the type of values that are not null."""
        others = [node for _, node in self.fields if node.kind != "null"] if self.kind == "union" else [self]
        if len(others) != 1:
            raise IncompatibleError
        return others[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroLayout:
    """How the columns of a topic are read from records of one schema."""

    reason: Reason | None  # of all records of the schema, which are malformed; None: they are read
    root: Node | None = None
    nodes: Mapping[str, Node]  # by column: the type that its values have; a column that the writer lacks is missing
    writer: str = ""  # in JSON, without what decoding does not need
    reader: str = ""
    mark: str = _MARK  # field of the reader that is null in a record that could not be read
    unknown: int = 0  # top-level fields that no column is read from


@lru_cache(maxsize=1024)
def _make_layout(document_text: str, topic: Topic) -> AvroLayout:
    fields = list_fields(topic)
    builder = _Builder()
    try:
        root = builder.build(json.loads(document_text), "", ())
    except (IncompatibleError, KeyError, TypeError, ValueError, AttributeError):
        return AvroLayout(reason=Reason.SCHEMA, nodes={})
    if root.kind != "record":
        return AvroLayout(reason=Reason.SCHEMA, nodes={})
    nodes: dict[str, Node] = {}
    try:
        for field in fields:
            node = _find_node(root, field)
            if node is not None:
                nodes[field.name] = node
    except IncompatibleError:
        return AvroLayout(reason=Reason.TYPE, nodes={})
    known = {field.path[0] for field in fields}
    mark, names = _MARK, {name.lower() for name, _ in root.fields}
    while mark in names:
        mark = f"_{mark}"
    return AvroLayout(
        reason=None,
        root=root,
        nodes=nodes,
        writer=json.dumps(builder.writer),
        reader=_format_reader(root, [field.path for field in fields if field.name in nodes], mark),
        mark=mark,
        unknown=sum(name not in known for name, _ in root.fields),
    )


def make_avro_layout(schema: WriterSchema, topic: Topic) -> AvroLayout:
    """Make the layout of a topic's columns in the schema of a writer."""
    if schema.text is None:
        return AvroLayout(reason=Reason.SCHEMA, nodes={})
    return _make_layout(schema.text, topic)


class _Builder:
    """Builder of nodes from a schema; `writer` is the schema without documentation, defaults and aliases."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._schemas = 0
        self.writer: Any = None

    def build(self, schema: Any, namespace: str, within: tuple[str, ...]) -> Node:
        node, self.writer = self._build(schema, namespace, within)
        return node

    def _build(self, schema: Any, namespace: str, within: tuple[str, ...]) -> tuple[Node, Any]:
        if len(within) > _MAX_DEPTH:
            raise IncompatibleError
        if isinstance(schema, list):
            built = [self._build(item, namespace, (*within, "")) for item in schema]
            _check_union([node for node, _ in built])
            return Node("union", fields=tuple(("", node) for node, _ in built)), [text for _, text in built]
        if isinstance(schema, str):
            return self._build_reference(schema, namespace, within)
        kind = schema["type"]
        if isinstance(kind, dict | list) or kind not in {"record", "error", "enum", "fixed", "array", "map"}:
            if isinstance(kind, str) and kind in _PRIMITIVES:
                return self._build_primitive(kind, schema)
            return self._build(kind, namespace, (*within, ""))
        if kind in {"array", "map"}:
            items = "items" if kind == "array" else "values"
            node, text = self._build(schema[items], namespace, (*within, ""))
            if kind == "array" and node.may_be_empty:
                raise IncompatibleError
            return Node(kind, fields=(("", node),)), {"type": kind, items: text}
        return self._build_named(kind, schema, namespace, within)

    def _build_reference(self, name: str, namespace: str, within: tuple[str, ...]) -> tuple[Node, Any]:
        if name in _PRIMITIVES:
            return Node(name), name
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self._named or full in within else name
        return self._named[full], full  # a type that contains itself has no node yet

    @staticmethod
    def _build_primitive(kind: str, schema: Mapping[str, Any]) -> tuple[Node, Any]:
        logical = schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            node = _make_decimal(schema)
            if node is not None:
                return node, _format_decimal("bytes", node)
        if kind == "int" and logical == "date":
            return Node("date"), kind
        if kind == "long":
            local = isinstance(logical, str) and logical.startswith("local-timestamp")
            return Node("long", time="local" if local else _TIMES.get(str(logical))), kind
        return Node(kind), kind

    def _build_named(
        self, kind: str, schema: Mapping[str, Any], namespace: str, within: tuple[str, ...]
    ) -> tuple[Node, Any]:
        name = schema["name"]
        outer = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace) or ""
        short = name.rpartition(".")[2]
        full = f"{outer}.{short}" if outer else short
        _check_names(full.split("."))
        if full in self._named or full in within or full in _PRIMITIVES:
            raise IncompatibleError
        head = {"type": "record" if kind == "error" else kind, "name": full}
        if kind in {"record", "error"}:
            built = [(item["name"], *self._build(item["type"], outer, (*within, full))) for item in schema["fields"]]
            node = Node("record", fields=tuple((field, inner) for field, inner, _ in built))
            _check_names([field for field, _ in node.fields])
            text = {**head, "fields": [{"name": field, "type": inner} for field, _, inner in built]}
        elif kind == "enum":
            symbols = tuple(schema["symbols"])
            _check_names(symbols)
            node = Node("enum", size=len(symbols), symbols=symbols, name=full)
            text = {**head, "symbols": list(symbols)}
        else:
            size = _read_size(schema)
            decimal = _make_decimal(schema, size) if schema.get("logicalType") == "decimal" else None
            node = Node("fixed", size=size, name=full)
            text = {**head, "size": size}
            if decimal is not None:
                node = Node("decimal", fields=(("", node),), size=decimal.size, scale=decimal.scale, name=full)
                text = _format_decimal("fixed", decimal) | text
        self._named[full] = node
        return node, text


def _check_names(names: Sequence[str]) -> None:
    """Reject names that Avro's Java library rejects: the plan of Spark would fail."""
    if len(set(names)) != len(names) or not all(_NAME.fullmatch(name) for name in names):
        raise IncompatibleError


def _check_union(nodes: Sequence[Node]) -> None:
    """Reject a union in a union, and two types of a kind, which only their names could tell apart."""
    kinds = [
        f"{node.kind} {node.name or id(node)}" if node.is_named else _PLAIN.get(node.kind, node.kind) for node in nodes
    ]
    if "union" in kinds or len(set(kinds)) != len(kinds):
        raise IncompatibleError


_PLAIN = {"date": "int", "decimal": "bytes"}


def _read_size(schema: Mapping[str, Any]) -> int:
    size = schema["size"]
    if not isinstance(size, int) or size < 0:
        raise IncompatibleError
    return size


def _make_decimal(schema: Mapping[str, Any], size: int | None = None) -> Node | None:
    """Return the type of a decimal; None if its precision or scale is not valid, so that it is only bytes.

    Args:
        schema: The type.
        size: Bytes of a fixed, in which each number of the precision has to fit; None: any number of bytes.
    """
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    is_valid = 0 <= scale <= precision and 1 <= precision <= _MAX_DECIMAL
    is_valid = is_valid and (size is None or 10**precision <= 2 ** (8 * size - 1))
    return Node("decimal", size=precision, scale=scale) if is_valid else None


def _format_decimal(kind: str, node: Node) -> dict[str, Any]:
    return {"type": kind, "logicalType": "decimal", "precision": node.size, "scale": node.scale}


def _find_node(root: Node, field: Field) -> Node | None:
    """Find the type that a column is read from; None if the writer lacks it, or a parent of it."""
    node = root
    for step in field.path:
        node = node.value
        if node.kind != "record":
            raise IncompatibleError
        inner = dict(node.fields).get(str(step))
        if inner is None:
            return None
        node = inner
    node = Node("null") if node.kind == "null" else node.value
    if node.kind != "null" and not _is_readable(node, field):
        raise IncompatibleError
    return node


def _is_readable(node: Node, field: Field) -> bool:
    decimal = parse_decimal_type(field.type)
    if decimal is not None:
        before, after = decimal[0] - decimal[1], decimal[1]
        fits = node.size - node.scale <= before and node.scale <= after
        return (
            fits
            if node.kind == "decimal"
            else node.kind in _WHOLE_DIGITS and not node.time and _WHOLE_DIGITS[node.kind] <= before
        )
    if field.type == "timestamp" and node.kind == "string":
        return field.time_format not in EPOCH_FORMATS
    if field.type == "timestamp":
        return node.kind == "long" and node.time != "local" and find_time_unit(node, field) is not None
    return node.kind in _READABLE[field.type] and node.time is None


def find_time_unit(node: Node, field: Field) -> str | None:
    """Return the unit of a time that is a number: that of the writer's type, or else of the definition."""
    return node.time or (field.time_format if field.time_format in EPOCH_FORMATS else None)


def _format_reader(root: Node, paths: list[tuple[str | int, ...]], mark: str) -> str:
    formatter = _ReaderFormatter()
    schema = formatter.format_record(root, paths)
    schema["fields"].append({"name": mark, "type": "int", "default": 1})
    return json.dumps(schema)


class _ReaderFormatter:
    """Formatter of the schema of a reader; names of records are its own, since only their structure is matched."""

    def __init__(self) -> None:
        self._records = 0
        self._named: set[str] = set()

    def format_record(self, node: Node, paths: list[tuple[str | int, ...]]) -> dict[str, Any]:
        self._records += 1
        name = f"cutover_record_{self._records}"
        fields = [{"name": step, "type": text} for step, text in self._format_fields(node, paths)]
        return {"type": "record", "name": name, "fields": fields}

    def _format_fields(self, node: Node, paths: list[tuple[str | int, ...]]) -> Iterator[tuple[str, Any]]:
        for name, inner in node.fields:
            rests = [path[1:] for path in paths if path[0] == name]
            if rests:
                yield name, self._format(inner, rests)

    def _format(self, node: Node, rests: list[tuple[str | int, ...]]) -> Any:
        if node.kind == "union":
            return [self._format(inner, rests) for _, inner in node.fields]
        if node.kind == "record":
            return self.format_record(node, rests)
        if node.name in self._named:
            return node.name
        return self._format_named(node) if node.name else self._format_unnamed(node)

    def _format_named(self, node: Node) -> dict[str, Any]:
        self._named.add(node.name)
        if node.kind == "enum":
            return {"type": "enum", "name": node.name, "symbols": list(node.symbols)}
        return {**_format_decimal("fixed", node), "name": node.name, "size": node.fields[0][1].size}

    @staticmethod
    def _format_unnamed(node: Node) -> Any:
        if node.kind == "decimal":
            return _format_decimal("bytes", node)
        return "int" if node.kind == "date" else node.kind


def list_readable_columns(schema: WriterSchema) -> dict[JsonPath, str]:
    """List the fields of a schema that a column can be read from, with the type of the column, also in inner records.

    Empty if the schema is none of a record. A long without a logical type is a `bigint`, though it may be a time.
    """
    try:
        root = _Builder().build(schema.document, "", ())
    except (IncompatibleError, KeyError, TypeError, ValueError, AttributeError):
        return {}
    return dict(_list_columns(root, ())) if root.kind == "record" else {}


def _list_columns(node: Node, path: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    for name, inner in node.fields:
        try:
            value = inner.value
        except IncompatibleError:
            continue
        kind = _find_column_type(value)
        if value.kind == "record":
            yield from _list_columns(value, (*path, name))
        elif kind is not None:
            yield (*path, name), kind


def _find_column_type(node: Node) -> str | None:
    if node.kind == "long" and node.time is not None:
        return None if node.time == "local" else "timestamp"
    if node.kind == "decimal":
        return f"decimal({node.size},{node.scale})" if node.size <= _MAX_DECIMAL else None
    simple = {"int": "int", "long": "bigint", "float": "double", "enum": "string"}
    kind = simple.get(node.kind, node.kind)
    return kind if kind in {"boolean", "int", "bigint", "double", "string", "date"} else None
