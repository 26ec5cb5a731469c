"""Values in Avro: Spark's `from_avro` with the schema that the id in front of each value names.

`from_avro` takes one schema of the writer, so there is one call for each known schema, and each record is decoded by
the one of its id. Schemas whose columns are the same, as after most changes, share the column that is decoded. A record
that cannot be decoded has no mark. A record whose schema is not known fails the plan; its caller learns the schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutover.definition.model.topic import Field, Topic, list_fields
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
from cutover.records.parsing.writer_schemas import HEAD_BYTES, MET_SCHEMA, WriterSchema

if TYPE_CHECKING:
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
