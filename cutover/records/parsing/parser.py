"""Strict parser from record bytes to typed columns, used by both paths; other forms are read by modules of their own.

Spark's `from_json` is too lenient: it accepts text after the object, a number or an object for a string, and a string
for a decimal. So the value is parsed as the first element of `{"<array>": [value, {"<end>": 1}]}`, where both names are
random per process: only a value that is exactly one JSON object results in an array of two elements that ends with our
marker. Strings, dates, decimals and ISO timestamps are read as VARIANT, which preserves the JSON type, and converted
without implicit casts; `from_json` parses the other types strictly. A present but invalid value becomes null;
`is_present` distinguishes it from a missing one.

Measured on 300,000 records of nine fields, four of them strings (2 cores, warm): plain `from_json` 0.46 s, with the
array 0.62 s, with strings as VARIANT and their JSON type checked 0.85 s, with strings checked by a regular expression
over the raw text (which needs a second code path for escapes) 0.81 s; counting unknown fields with `json_object_keys`
adds 0.22 s.
"""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.joins import Join
from cutover.definition.model.pipeline import Pipeline, make_left_side, make_right_side
from cutover.definition.model.topic import JsonPath, Topic, list_fields
from cutover.quoting import spark_literal
from cutover.records import enrich
from cutover.records.classes import Reason
from cutover.records.columns import select_expressions
from cutover.records.enrich import Dimensions
from cutover.records.parsing import limits
from cutover.records.parsing.binary_values import parse_avro_values, parse_protobuf_values
from cutover.records.parsing.field_sql import (
    LOG_COLUMNS,
    FieldSql,
    count_colons_sql,
    count_present_sql,
    format_json_schema,
    join_by_or,
    list_named_parents,
    make_field_sqls,
    select_path_sql,
)
from cutover.records.parsing.job_values import add_job_values, parse_csv_values, parse_job_values, parse_texts
from cutover.records.parsing.writer_schemas import learn_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


PARSED_COLUMNS = (*LOG_COLUMNS, "_event_time", "_reason", "_filtered", "_unknown")

JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "__corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxNestingDepth": str(limits.MAX_DEPTH + 2),  # the object and the array around the value
    "maxNumLen": str(limits.MAX_NUMBER),
    "maxStringLen": str(2**31 - 1),  # `max_value_bytes` bounds it
}


@dataclass(frozen=True, slots=True)
class _WrapperNames:
    """Names of the wrapper around the value; random, so that no record can contain them."""

    value: str
    end: str


def _draw_names() -> _WrapperNames:
    text = secrets.token_hex(16)
    return _WrapperNames(f"__value_{text}", f"__end_{text}")


# Drawn once per process, not per plan: Spark recompiles the generated code when the SQL text changes.
_NAMES = _draw_names()


def parse_records(
    records: "DataFrame",
    pipeline: Pipeline,
    dimensions: Dimensions = enrich.NO_DIMENSIONS,
    *,
    learns_schemas: bool = True,
) -> "DataFrame":
    """Parse records of a Kafka source and determine why malformed ones are malformed.

    Args:
        records: `value binary`, `partition int`, `offset bigint`, `timestamp timestamp`; for a join of two topics also
            `_right boolean`; other columns are dropped.
        pipeline: Schema, event time, lookups, expressions and limits.
        dimensions: Dimensions of the lookups.
        learns_schemas: Learn the schemas of values in Avro by a pass over the records. If False, the plan fails if it
            meets a schema that is not known, as `run_with_schemas` expects.

    Returns:
        One row per record: `_partition int`, `_offset bigint`, `_log_time timestamp`, `_event_time timestamp` (UTC;
        null if malformed), `_reason string` (of `Reason`; null if well formed), `_filtered boolean` (never null),
        `_unknown int` (distinct top-level fields that are not in the schema; 0 if malformed), and the columns of the
        schema, of the lookups and of `derive`, which are undefined if the record is malformed. For a join of two topics
        it has the columns of both; those of the other side are null, except for the key.
    """
    if isinstance(pipeline.join, Join):
        left_rows = parse_records(
            records.where("NOT _right"), make_left_side(pipeline), dimensions, learns_schemas=learns_schemas
        )
        right_side = make_right_side(pipeline)
        right_rows = parse_records(records.where("_right"), right_side, learns_schemas=learns_schemas)
        return _widen_left_rows(left_rows, pipeline).unionAll(_widen_right_rows(right_rows, pipeline))
    if pipeline.source.parse == "avro":
        if learns_schemas:
            learn_schemas(records, pipeline.source)
        typed = parse_avro_values(records, pipeline.source)
    elif pipeline.source.parse == "protobuf":
        typed = parse_protobuf_values(records, pipeline.source)
    elif pipeline.source.parse == "from_json":
        typed = parse_job_values(records, pipeline.source)
    elif pipeline.source.parse == "csv":
        typed = parse_csv_values(records, pipeline.source)
    elif pipeline.source.parse == "text":
        typed = parse_texts(records, pipeline.source)
    else:
        typed = _parse_strictly(records, pipeline.source)
    return _finish_rows(_derive_columns(enrich.join_dimensions(typed, pipeline, dimensions), pipeline), pipeline)


def _parse_strictly(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Parse records to their log columns, `__reason`, `__unknown` and the columns of the schema."""
    field_sqls = make_field_sqls(topic)
    typed = _cast_fields(_extract_fields(_decode_json(records, topic, field_sqls), field_sqls), field_sqls, topic)
    return typed if len(field_sqls) == len(list_fields(topic)) else add_job_values(typed, topic)


def _widen_left_rows(rows: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    compiled = compile_pipeline(pipeline)
    right_columns = [f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in compiled.right_types.items()]
    return select_expressions(rows, *PARSED_COLUMNS, *(f"`{name}`" for name in compiled.own_types), *right_columns)


def _widen_right_rows(rows: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    compiled = compile_pipeline(pipeline)
    keys = dict(zip(pipeline.key, compiled.right.definition.key, strict=True))
    left_columns = [
        f"`{keys[name]}` AS `{name}`" if name in keys else f"CAST(NULL AS {kind}) AS `{name}`"
        for name, kind in compiled.own_types.items()
    ]
    right_columns = (
        f"`{name}` AS `{output_name}`"
        for name, output_name in zip(compiled.right.own_types, compiled.right_types, strict=True)
    )
    return select_expressions(rows, *PARSED_COLUMNS, *left_columns, *right_columns)


def _decode_json(records: "DataFrame", topic: Topic, field_sqls: tuple[FieldSql, ...]) -> "DataFrame":
    """Parse the JSON into `__value array<struct>` and `__corrupt string`; both are null if the bytes are rejected."""
    shape = format_json_schema([*((field.outer_path, field.read_as) for field in field_sqls), ((_NAMES.end,), "int")])
    checked = select_expressions(
        records,
        "partition AS _partition",
        "offset AS _offset",
        "timestamp AS _log_time",
        "CAST(value AS string) AS __text",
        f"{_reject_bytes_sql(topic.max_value_bytes)} AS __rejected",
    )
    # inline(array(..)) is a generator: the optimizer cannot copy the parse into each column that uses it.
    parse = f"inline(array({_parse_wrapped_sql(f'array<struct<{shape}>>')})) AS (__value, __corrupt)"
    return select_expressions(checked, *LOG_COLUMNS, "__text", "__rejected", parse)


def _parse_wrapped_sql(kind: str) -> str:
    """Return the SQL of the value in its wrapper, read as a type."""
    options = ", ".join(f"'{key}', '{value}'" for key, value in JSON_OPTIONS.items())
    wrapped = f"""IF(__rejected IS NULL, concat('{{"{_NAMES.value}":[', __text, ',{{"{_NAMES.end}":1}}]}}'), NULL)"""
    schema = spark_literal(f"{_NAMES.value} {kind}, __corrupt string")
    return f"from_json({wrapped}, {schema}, map({options}))"


def _reject_bytes_sql(max_bytes: int) -> str:
    return f"""CASE
        WHEN value IS NULL THEN '{Reason.NULL_VALUE}'
        WHEN octet_length(value) = 0 THEN '{Reason.EMPTY}'
        WHEN octet_length(value) > {max_bytes} THEN '{Reason.TOO_LARGE}'
        WHEN NOT is_valid_utf8(CAST(value AS string)) THEN '{Reason.UTF8}'
    END"""


def _extract_fields(decoded: "DataFrame", field_sqls: tuple[FieldSql, ...]) -> "DataFrame":
    """Unwrap the record: raw fields, the JSON type of each VARIANT, and `__reason` for invalid bytes or JSON."""
    # `from_json` reports an invalid escape in a string like a wrong type and continues after it.
    is_broken = "json_object_keys(__text) IS NULL"
    # It continues in the middle of an object or array that VARIANT cannot represent, and may end in any state.
    without_fields = f"{_parse_wrapped_sql(f'array<struct<{_NAMES.end} int>>')}.{_NAMES.value}"
    is_json = f"get(transform(array({without_fields}), v -> {_is_one_object_sql('v')}), 0)"
    reason = f"""CASE
        WHEN __rejected IS NOT NULL THEN __rejected
        WHEN NOT {_is_one_object_sql("__value")} THEN
            IF({is_json}, '{Reason.TYPE}', '{Reason.JSON}')
        WHEN __corrupt IS NOT NULL THEN IF({is_broken}, '{Reason.JSON}', '{Reason.TYPE}')
    END AS __reason"""
    root = "get(__value, 0)"
    values = (f"{field.select_sql(root)} AS `{field.name}`" for field in field_sqls)
    kinds = (
        f"schema_of_variant({field.select_sql(root)}) AS `__kind_{field.name}`"
        for field in field_sqls
        if field.is_variant
    )
    wrong_parents = (
        f"{condition} AS `__wrong_{field.name}`"
        for field in field_sqls
        if (condition := field.is_wrong_parent_sql(root)) is not None
    )
    parents = (select_path_sql(root, path) for path in _list_outer_parents(field_sqls))
    parent_count = f"{count_present_sql(f'{parent} IS NOT NULL' for parent in parents)} AS __parents"
    return select_expressions(decoded, *LOG_COLUMNS, "__text", reason, parent_count, *values, *kinds, *wrong_parents)


def _is_one_object_sql(value: str) -> str:
    return f"coalesce(size({value}) = 2 AND get({value}, 0) IS NOT NULL AND get({value}, 1).{_NAMES.end} = 1, false)"


def _list_outer_parents(field_sqls: tuple[FieldSql, ...]) -> list[JsonPath]:
    """List the named parents that are structs or arrays; those inside of arrays are not counted."""
    # An element of the array stands for all places in it.
    return list_named_parents([(*field.outer_path, *field.path[len(field.outer_path) :][:1]) for field in field_sqls])


def _cast_fields(raw: "DataFrame", field_sqls: tuple[FieldSql, ...], topic: Topic) -> "DataFrame":
    """Convert each field to its type; `__reason` now also covers wrong types and missing `NOT NULL` fields."""
    wrong_parents = [
        f"`__wrong_{field.name}`" for field in field_sqls if field.is_wrong_parent_sql("get(__value, 0)") is not None
    ]
    values = select_expressions(
        raw,
        *LOG_COLUMNS,
        "__text",
        "__reason",
        _count_unknown_sql(field_sqls, topic),
        *(f"{field.value} AS `{field.name}`" for field in field_sqls),
        *(f"{field.is_present} AS `__present_{field.name}`" for field in field_sqls if field.is_present),
        *(f"{field.is_absent} AS `__absent_{field.name}`" for field in field_sqls if not field.nullable),
        *wrong_parents,
    )
    is_invalid = join_by_or(
        [
            *(f"(`__present_{field.name}` AND `{field.name}` IS NULL)" for field in field_sqls if field.is_present),
            *wrong_parents,
        ]
    )
    is_missing = join_by_or(f"`__absent_{field.name}`" for field in field_sqls if not field.nullable)
    reason = f"""CASE
        WHEN __reason IS NOT NULL THEN __reason
        WHEN {is_invalid} THEN '{Reason.TYPE}'
        WHEN {is_missing} THEN '{Reason.MISSING}'
    END AS __reason"""
    columns = (f"`{field.name}`" for field in field_sqls)
    return select_expressions(values, *LOG_COLUMNS, "__text", reason, "__unknown", *columns)


def _count_unknown_sql(field_sqls: tuple[FieldSql, ...], topic: Topic) -> str:
    """Count the top-level fields that no column is read from.

    Listing the keys needs a second parse, which is skipped for most records: every key is followed by a colon, so a
    text with as many colons as present known fields and objects that contain them has no other key. Colons in
    timestamps are subtracted, unless the text contains an escape, since a colon may be written as one.
    """
    known_names = ", ".join(dict.fromkeys(spark_literal(str(field.path[0])) for field in list_fields(topic)))
    present_count = count_present_sql(
        f"NOT ({field.is_absent})" for field in field_sqls if isinstance(field.path[-1], str)
    )
    times = [field for field in field_sqls if field.has_colons]
    colons = " - ".join(
        [
            count_colons_sql("__text"),
            *(f"coalesce({count_colons_sql(f'CAST(`{f.name}` AS string)')}, 0)" for f in times),
        ]
    )
    has_no_escape = "instr(__text, chr(92)) = 0 AND " if times else ""
    unknown_count = f"size(array_except(json_object_keys(__text), array({known_names})))"
    has_known_only = f"{has_no_escape}{colons} = {present_count} + __parents"
    return f"IF(__reason IS NOT NULL OR ({has_known_only}), 0, {unknown_count}) AS __unknown"


def _derive_columns(typed: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    derived = compile_pipeline(pipeline).derived.items()
    return select_expressions(typed, "*", *(f"{item.spark} AS `{name}`" for name, item in derived))


def _finish_rows(derived: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    compiled = compile_pipeline(pipeline)
    event_time = f"`{pipeline.source.event_time}`"
    columns = [f"`{name}`" for name in compiled.column_types]
    reason = f"""CASE
        WHEN __reason IS NOT NULL THEN __reason
        WHEN {event_time} IS NULL THEN '{Reason.EVENT_TIME}'
        WHEN {compiled.row_failed} THEN '{Reason.EXPRESSION}'
    END AS _reason"""
    passes = f"{compiled.passes} AS __passes"
    checked = select_expressions(derived, *LOG_COLUMNS, reason, passes, "__unknown", *columns)
    return select_expressions(
        checked,
        *LOG_COLUMNS,
        f"IF(_reason IS NULL, {event_time}, NULL) AS _event_time",
        "_reason",
        "(_reason IS NULL AND NOT __passes) AS _filtered",
        "IF(_reason IS NULL, __unknown, 0) AS _unknown",
        *columns,
    )
