"""Values in plain text: lines of CSV as Spark's `from_csv` reads them, and whole values as one text.

CSV is read by the engine's own `from_csv(CAST(value AS string), schema, options)`: columns by their position, a field
that it cannot read as null. What it reads but no table of ours holds is malformed, as in `job_values`; so are lines at
which a job ends: with more fields than its parser has columns, or with so many escapes behind quotes that it overflows
the stack. A zero byte would start a comment. Of a value with more than one line, Spark's parser keeps the rest, and
returns it as the next record of its task, whose own line is lost. So a value with a line break is read only if it is
certain that the line break is in quotes, or the last character. Times and decimals are read as texts and cast, as in
`job_values`.
"""

import re
from typing import TYPE_CHECKING

from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import CsvOptions, Field, Topic, list_fields, parse_decimal_type
from cutover.quoting import spark_literal
from cutover.records.classes import Reason
from cutover.records.columns import select_expressions
from cutover.records.parsing import limits
from cutover.records.parsing.field_sql import LOG_COLUMNS
from cutover.records.parsing.job_values import (
    cast_decimal_sql,
    cast_time_sql,
    check_fields,
    is_text_time,
    matches_sql,
    reject_size_sql,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FURTHER = "__further"
"""Column behind those of the schema, which tells that a line has more fields."""


def parse_csv_values(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Parse records of a topic in CSV to their log columns, `__reason`, `__unknown` and the columns."""
    options = topic.csv or CsvOptions()
    sized = _read_text(records, topic)
    checked = select_expressions(
        sized, *LOG_COLUMNS, "__text", f"coalesce(__reason, {_reject_text_sql(options)}) AS __reason"
    )
    fields = list_fields(topic)
    # inline(array(..)) is a generator: the optimizer cannot copy the parse into each column that uses it.
    decoded = f"inline(array({_read_sql(fields, options)}))"
    read = select_expressions(checked, *LOG_COLUMNS, "__reason", decoded)
    typed = select_expressions(
        read, *LOG_COLUMNS, "__reason", f"int({_FURTHER} IS NOT NULL) AS __unknown", *map(_type_sql, fields)
    )
    reason, values = check_fields(fields, topic)
    return select_expressions(typed, *LOG_COLUMNS, reason, "__unknown", *values)


def parse_texts(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Parse records of a topic of texts: the value is the string column, its log timestamp the event time."""
    sources = {"string": "IF(is_valid_utf8(__text), __text, NULL)", "timestamp": "_log_time"}
    fields = list_fields(topic)
    columns = (f"{sources[field.type]} AS `{field.name}`" for field in fields)
    is_broken = f"IF(is_valid_utf8(__text), NULL, '{Reason.UTF8}')"
    reason = f"coalesce(__reason, {is_broken}) AS __reason"
    typed = select_expressions(_read_text(records, topic), *LOG_COLUMNS, reason, *columns)
    reason, values = check_fields(fields, topic)
    return select_expressions(typed, *LOG_COLUMNS, reason, "0 AS __unknown", *values)


def _read_text(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Select log columns, `__text`, null if it is too large, and `__reason` by its size."""
    return select_expressions(
        records,
        "partition AS _partition",
        "offset AS _offset",
        "timestamp AS _log_time",
        f"IF(octet_length(value) <= {topic.max_value_bytes}, CAST(value AS string), NULL) AS __text",
        f"{reject_size_sql(topic.max_value_bytes)} AS __reason",
    )


def _reject_text_sql(options: CsvOptions) -> str:
    """Return the SQL of the reason that a text is not given to the engine; null if it is."""
    too_many = [(options.delimiter, limits.MAX_CSV_FIELDS - 1)]
    if options.quote:
        too_many.append((options.quote + options.escape, limits.MAX_CSV_ESCAPES))
    conditions = " OR ".join(
        f"(char_length(__text) > {most} AND char_length(__text)"
        f" - char_length(replace(__text, {spark_literal(text)}, '')) > {most * len(text)})"
        for text, most in too_many
    )
    is_one_line = (
        f"char_length(__text) <= {limits.MAX_BROKEN_LINE} AND {matches_sql('__text', pattern_of_line(options))}"
    )
    has_lines = f"instr(__text, chr(10)) > 0 AND NOT ({is_one_line})"
    return f"IF(instr(__text, chr(0)) > 0 OR ({has_lines}) OR {conditions}, '{Reason.TYPE}', NULL)"


def pattern_of_line(options: CsvOptions) -> str:
    """Return the pattern of a text that is one line, whose line breaks are all in quotes, except for the last one."""
    delimiter, quote, escape = (re.escape(mark) for mark in (options.delimiter, options.quote, options.escape))
    if not quote:
        return r"^[^\n]*\n?\z"
    inner = rf"[^{quote}{escape}]++|{escape}[\s\S]" if quote != escape else rf"[^{quote}]++|{quote}{quote}"
    cell = rf"(?:{quote}(?:{inner})*+{quote}|(?!{quote})[^{delimiter}\n]*+)"
    return rf"^{cell}(?:{delimiter}{cell})*+\n?\z"


def _read_sql(fields: tuple[Field, ...], options: CsvOptions) -> str:
    schema = ", ".join([*(f"`{field.name}` {_read_as(field)}" for field in fields), f"{_FURTHER} string"])
    pairs = {
        "sep": options.delimiter,
        "quote": options.quote,
        "escape": options.escape,
        "nullValue": options.null_value,
        "maxColumns": str(limits.MAX_CSV_FIELDS),
    }
    listed = ", ".join(f"'{name}', {spark_literal(text)}" for name, text in pairs.items())
    return f"from_csv(IF(__reason IS NULL, __text, NULL), {spark_literal(schema)}, map({listed}))"


def _read_as(field: Field) -> str:
    if field.type == "timestamp" and field.time_format in EPOCH_FORMATS:
        return "bigint"
    return "string" if field.type == "timestamp" or parse_decimal_type(field.type) else field.type


def _type_sql(field: Field) -> str:
    name = f"`{field.name}`"
    if is_text_time(field):
        return f"{cast_time_sql(name, field)} AS {name}"
    return f"{cast_decimal_sql(name, field.type)} AS {name}" if parse_decimal_type(field.type) else name
