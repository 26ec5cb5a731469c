"""Values as a team's job reads them: by Spark's `from_json` and `from_csv` with its options, or as one text.

It is the engine's own `from_json(CAST(value AS string), schema)`, so that a field which it cannot read is null, as in
the job. Values that it reads but that no table of ours holds are malformed: `NaN`, infinities, times outside of the
years 1000 to 8999, a time without a date, which would be one of the day on which it is read, and one before 1980 in a
named zone. The schema has a struct or an array for each object or array that leads to a column.

Three types take a detour. Times are read as texts and cast by the function that `from_json` uses. Decimals are read
from VARIANT in the rare records that may have a text with an exponent of many digits, or very long, since one such text
takes seconds to minutes: it is null. If a name occurs several times, in both cases its last value counts even if it
cannot be read. Columns in the strict form are read from VARIANT as well, which preserves the JSON type.

Measured on the records of `parser`, in one run with the strict form: 0.6 to 0.7 of its time.

`from_csv(CAST(value AS string), schema, options)` reads columns by their position. Malformed are the same values, and
lines at which a job ends: with more fields than its parser has columns, or with so many escapes behind quotes that it
overflows the stack. A zero byte would start a comment. Of a value with more than one line, Spark's parser keeps the
rest, and returns it as the next record of its task, whose own line is lost. So a value with a line break is read only
if it is certain that the line break is in quotes, or the last character. Times and decimals are read as texts and cast.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import CsvOptions, Field, JsonPath, Topic, list_fields, parse_decimal_type
from cutover.quoting import spark_literal
from cutover.records.classes import Reason
from cutover.records.columns import select_expressions
from cutover.records.parsing import limits
from cutover.records.parsing.field_sql import (
    LOG_COLUMNS,
    VARIANT,
    FieldSql,
    convert_epoch_sql,
    count_colons_sql,
    count_present_sql,
    format_json_schema,
    join_by_or,
    list_named_parents,
    make_field_sql,
    select_path_sql,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BEYOND = "TIMESTAMP '0001-01-01'"
"""Any time that no table holds."""

_DECIMAL = r"^[+-]?(?:\p{Nd}+\.?\p{Nd}*|\.\p{Nd}+)(?:[eE][+-]?\p{Nd}{1,4})?\z"


def parse_job_values(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Parse records of a topic in this form to their log columns, `__reason`, `__unknown` and the columns."""
    fields = _list_read_fields(topic)
    sized = select_expressions(
        records,
        "partition AS _partition",
        "offset AS _offset",
        "timestamp AS _log_time",
        f"IF(octet_length(value) <= {topic.max_value_bytes}, CAST(value AS string), NULL) AS __text",
        f"{reject_size_sql(topic.max_value_bytes)} AS __reason",
    )
    read = _read_fields(sized, (*LOG_COLUMNS, "__text", "__reason"), "__text", topic)
    reason, values = check_fields(fields, topic)
    return select_expressions(read, *LOG_COLUMNS, reason, _count_unknown_sql(fields, topic), *values)


def add_job_values(typed: "DataFrame", topic: Topic) -> "DataFrame":
    """Add the columns in this form to those of a strict topic, and return all of them in the order of the schema.

    Args:
        typed: Log columns, `__text`, `__reason`, `__unknown` and the strict columns.
        topic: A topic in the strict form, with some columns in this one.
    """
    columns = list_fields(topic)
    fields = _list_read_fields(topic)
    text = f"IF(coalesce(__reason, '{Reason.MISSING}') = '{Reason.MISSING}', __text, NULL)"
    strict = [f"`{field.name}`" for field in columns if field.parse == "strict"]
    read = _read_fields(typed, (*LOG_COLUMNS, "__text", "__reason", "__unknown", *strict), text, topic)
    reason, values = check_fields(fields, topic)
    checked = select_expressions(read, *LOG_COLUMNS, reason, "__unknown", *strict, *values)
    return select_expressions(checked, *LOG_COLUMNS, "__reason", "__unknown", *(f"`{field.name}`" for field in columns))


def _read_fields(rows: "DataFrame", retained: Sequence[str], text: str, topic: Topic) -> "DataFrame":
    """Add the columns to read, `__parents`, texts of times, and the JSON types of columns in the strict form.

    Args:
        rows: `__text`, and further columns.
        retained: The columns of these that are retained.
        text: Spark SQL of the text that is parsed.
        topic: The topic; of a strict one, only columns in this form are read.
    """
    fields = _list_read_fields(topic)
    has_decimals = any(_is_job_decimal(field) for field in fields)
    rare = join_by_or(f"({fast} AND {matches_sql('__text', pattern)})" for fast, pattern in limits.RARE_DECIMALS)
    is_rare = f"coalesce({rare}, false)" if has_decimals else "false"
    checked = select_expressions(rows, "*", f"{is_rare} AS __is_rare")
    values = f"{_read_sql(f'IF(__is_rare, NULL, {text})', fields, is_rare=False)} AS __usual"
    if has_decimals:
        values += f", {_read_sql(f'IF(__is_rare, {text}, NULL)', fields, is_rare=True)} AS __rare"
    # inline(array(..)) is a generator: the optimizer cannot copy the parse into each column that uses it.
    decoded = select_expressions(checked, "*", f"inline(array(struct({values})))")
    raw = select_expressions(
        decoded,
        *retained,
        f"{_count_parents_sql(fields, has_rare=has_decimals)} AS __parents",
        *(_raw_sql(field, has_rare=has_decimals) for field in fields),
    )
    return select_expressions(raw, *retained, "__parents", *_list_typed_sqls(fields, topic))


def _list_read_fields(topic: Topic) -> tuple[Field, ...]:
    return tuple(field for field in list_fields(topic) if "from_json" in {topic.parse, field.parse})


def reject_size_sql(max_bytes: int) -> str:
    """Return the SQL of the reason that a value is malformed by its size; null if it is not."""
    return f"""CASE
        WHEN value IS NULL THEN '{Reason.NULL_VALUE}'
        WHEN octet_length(value) = 0 THEN '{Reason.EMPTY}'
        WHEN octet_length(value) > {max_bytes} THEN '{Reason.TOO_LARGE}'
    END"""


def matches_sql(text: str, pattern: str) -> str:
    """Build the condition that a pattern occurs in a text."""
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'")
    return f"{text} RLIKE '{escaped}'"


def is_text_time(field: Field) -> bool:
    """Return whether a job reads a time from a text."""
    return field.type == "timestamp" and field.time_format not in EPOCH_FORMATS and field.parse in {"from_json", "csv"}


def _is_job_decimal(field: Field) -> bool:
    return field.parse == "from_json" and parse_decimal_type(field.type) is not None


def _read_sql(text: str, fields: Sequence[Field], *, is_rare: bool) -> str:
    schema = format_json_schema([(field.path, _read_as(field, is_rare=is_rare)) for field in fields])
    return f"from_json({text}, {spark_literal(schema)})"


def _read_as(field: Field, *, is_rare: bool) -> str:
    if field.parse == "strict" or (is_rare and _is_job_decimal(field)):
        return VARIANT
    if field.type == "timestamp":
        return "bigint" if field.time_format in EPOCH_FORMATS else "string"
    return field.type


def _count_parents_sql(fields: Sequence[Field], *, has_rare: bool) -> str:
    """Return the SQL of the number of objects and arrays that are present, of those with a name."""
    paths = list_named_parents([field.path for field in fields])
    usual, rare = (
        count_present_sql(f"{select_path_sql(root, path)} IS NOT NULL" for path in paths)
        for root in ("__usual", "__rare")
    )
    return f"IF(__is_rare, {rare}, {usual})" if has_rare and paths else usual


def _select_sql(path: JsonPath, *, has_rare: bool) -> str:
    usual = select_path_sql("__usual", path)
    return f"IF(__is_rare, {select_path_sql('__rare', path)}, {usual})" if has_rare else usual


def _raw_sql(field: Field, *, has_rare: bool) -> str:
    if not _is_job_decimal(field):
        return f"{_select_sql(field.path, has_rare=has_rare)} AS `{field.name}`"
    rare = _rare_decimal_sql(select_path_sql("__rare", field.path), field.type)
    return f"IF(__is_rare, {rare}, {select_path_sql('__usual', field.path)}) AS `{field.name}`"


def _rare_decimal_sql(value: str, kind: str) -> str:
    return f"""CASE schema_of_variant({value})
        WHEN 'STRING' THEN {cast_decimal_sql(f"CAST({value} AS string)", kind)}
        WHEN 'BOOLEAN' THEN NULL
        ELSE try_variant_get({value}, '$', '{kind}')
    END"""


def cast_decimal_sql(text: str, kind: str) -> str:
    """Return the SQL of a text as a decimal; null if a job reads none, or it takes long."""
    digits = f"replace({text}, ',', '')"
    is_short = f"length({text}) <= {limits.MAX_DECIMAL_TEXT} AND {matches_sql(digits, _DECIMAL)}"
    return f"IF({is_short}, try_cast({digits} AS {kind}), NULL)"


def _list_typed_sqls(fields: Sequence[Field], topic: Topic) -> list[str]:
    """List the columns of the schema, with times cast, the texts of these times, and what strict columns need."""
    strict = [_make_strict_sql(field, topic) for field in fields if field.parse == "strict"]
    kinds = [f"schema_of_variant(`{field.name}`) AS `__kind_{field.name}`" for field in strict]
    times = [field for field in fields if is_text_time(field)]
    return [
        *(f"{_time_sql(field) if field in times else f'`{field.name}`'} AS `{field.name}`" for field in fields),
        *(f"`{field.name}` AS `__text_{field.name}`" for field in times),
        *kinds,
    ]


def _make_strict_sql(field: Field, topic: Topic) -> FieldSql:
    return make_field_sql(field, topic, from_variant=True)


def _time_sql(field: Field) -> str:
    text = f"`{field.name}`"
    is_whole = matches_sql(text, limits.JOB_NUMBER_TIME)
    cast = f"try_cast({text} AS timestamp)" if field.time_format == "iso" else cast_time_sql(text, field)
    return f"IF({is_whole}, {_whole_time_sql(field.path, cast)}, {cast_time_sql(text, field)})"


def cast_time_sql(text: str, field: Field) -> str:
    """Return the SQL of a text as a time in the format of a column, as a job casts it; null if it is none."""
    if field.time_format != "iso":
        return f'try_to_timestamp({text}, r"{field.time_format}")'
    # A job removes `GMT` from a time that it cannot cast.
    without_gmt = _dated_time_sql(f"regexp_replace({text}, '^(?s)(.*?)GMT', '$1')")
    return f"coalesce({_dated_time_sql(text)}, IF(contains({text}, 'GMT'), {without_gmt}, NULL))"


def _dated_time_sql(text: str) -> str:
    """Return the SQL of a text as a time; one without a date is beyond every table."""
    cast = f"try_cast({text} AS timestamp)"
    has_date = f"({matches_sql(text, limits.JOB_DATED_TIME)} OR {matches_sql(text, limits.JOB_NUMBER_TIME)})"
    is_old = f"({cast} < TIMESTAMP '{limits.JOB_NAMED_ZONES_SINCE}' OR contains({text}, '{limits.JOB_OLD_ZONE}'))"
    is_unclear = f"{is_old} AND {matches_sql(text, limits.JOB_NAMED_ZONE)}"
    return f"CASE WHEN {cast} IS NULL THEN NULL WHEN NOT {has_date} OR ({is_unclear}) THEN {_BEYOND} ELSE {cast} END"


def _whole_time_sql(path: JsonPath, cast: str) -> str:
    """Return the SQL of a time that is a number of seconds, or else a text such as `2026`.

    The job multiplies seconds by 1,000,000 in 64 bits, so that a number beyond them becomes another time.
    """
    schema = spark_literal(format_json_schema([(path, VARIANT)]))
    value = select_path_sql(f"from_json(__text, {schema})", path)
    seconds = f"CAST({value} AS bigint)"
    in_range = f"{seconds} BETWEEN {limits.MIN_MICROS // 1_000_000}L AND {limits.MAX_MICROS // 1_000_000}L"
    product = f"CAST({seconds} AS decimal(20,0)) * 1000000"
    wrapped = f"timestamp_micros(CAST(pmod({product} + {2**63}, {2**64}) - {2**63} AS bigint))"
    return f"IF(schema_of_variant({value}) = 'BIGINT', IF({in_range}, timestamp_seconds({seconds}), {wrapped}), {cast})"


def check_fields(fields: Sequence[Field], topic: Topic) -> tuple[str, list[str]]:
    """Return `__reason`, which now also covers values that no table holds and missing ones, and the values."""
    values = {field.name: _held_sql(field, topic) for field in fields}
    invalid = []
    for field in fields:
        name, value = f"`{field.name}`", values[field.name]
        if field.parse == "strict":
            is_present = _make_strict_sql(field, topic).is_present
            invalid += [f"({is_present} AND ({value}) IS NULL)"] if is_present else []
        elif value != name and field.name != topic.event_time:
            invalid.append(f"({name} IS NOT NULL AND ({value}) IS NULL)")
    missing = [f"{_is_null_sql(field, topic)}" for field in fields if not field.nullable]
    reason = f"""CASE
        WHEN __reason <> '{Reason.MISSING}' THEN __reason
        WHEN {join_by_or(invalid)} THEN '{Reason.TYPE}'
        WHEN __reason IS NOT NULL OR {join_by_or(missing)} THEN '{Reason.MISSING}'
    END AS __reason"""
    return reason, [f"{value} AS `{name}`" for name, value in values.items()]


def _is_null_sql(field: Field, topic: Topic) -> str:
    return _make_strict_sql(field, topic).is_absent if field.parse == "strict" else f"`{field.name}` IS NULL"


def _held_sql(field: Field, topic: Topic) -> str:
    name = f"`{field.name}`"
    if field.parse == "strict":
        return _make_strict_sql(field, topic).value
    if field.type == "double":  # minus zero is zero
        return f"IF(abs({name}) < double('Infinity'), {name} + 0D, NULL)"
    if field.type == "timestamp" and field.time_format in EPOCH_FORMATS:
        return convert_epoch_sql(name, field.time_format)
    if field.type in {"date", "timestamp"}:
        literal = field.type.upper()
        return f"IF({name} >= {literal} '1000-01-01' AND {name} < {literal} '9000-01-01', {name}, NULL)"
    return name


def _count_unknown_sql(fields: Sequence[Field], topic: Topic) -> str:
    """Count the top-level fields that no column is read from, as `parser` does.

    Of a text that is no strict JSON, their names are listed by `from_json` too, which takes longer.
    """
    known_names = ", ".join(dict.fromkeys(spark_literal(str(field.path[0])) for field in fields))
    times = [f"`__text_{field.name}`" for field in fields if is_text_time(field)]
    present = [
        f"`__text_{field.name}` IS NOT NULL" if is_text_time(field) else f"NOT ({_is_null_sql(field, topic)})"
        for field in fields
        if isinstance(field.path[-1], str)
    ]
    strict_times = [f.name for f in fields if f.parse == "strict" and _make_strict_sql(f, topic).has_colons]
    times += [f"CAST(`{name}` AS string)" for name in strict_times]
    colons = " - ".join([count_colons_sql("__text"), *(f"coalesce({count_colons_sql(text)}, 0)" for text in times)])
    has_no_escape = r"NOT contains(__text, '\\') AND " if times else ""
    names = "coalesce(json_object_keys(__text), map_keys(from_json(__text, 'map<string, string>')))"
    unknown = f"greatest(coalesce(size(array_except({names}, array({known_names}))), 0), 0)"
    return f"IF({has_no_escape}{colons} = {count_present_sql(present)} + __parents, 0, {unknown}) AS __unknown"


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
    decoded = f"inline(array({_read_csv_sql(fields, options)}))"
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


def _read_csv_sql(fields: tuple[Field, ...], options: CsvOptions) -> str:
    schema = ", ".join([*(f"`{field.name}` {_read_csv_as(field)}" for field in fields), f"{_FURTHER} string"])
    pairs = {
        "sep": options.delimiter,
        "quote": options.quote,
        "escape": options.escape,
        "nullValue": options.null_value,
        "maxColumns": str(limits.MAX_CSV_FIELDS),
    }
    listed = ", ".join(f"'{name}', {spark_literal(text)}" for name, text in pairs.items())
    return f"from_csv(IF(__reason IS NULL, __text, NULL), {spark_literal(schema)}, map({listed}))"


def _read_csv_as(field: Field) -> str:
    if field.type == "timestamp" and field.time_format in EPOCH_FORMATS:
        return "bigint"
    return "string" if field.type == "timestamp" or parse_decimal_type(field.type) else field.type


def _type_sql(field: Field) -> str:
    name = f"`{field.name}`"
    if is_text_time(field):
        return f"{cast_time_sql(name, field)} AS {name}"
    return f"{cast_decimal_sql(name, field.type)} AS {name}" if parse_decimal_type(field.type) else name
