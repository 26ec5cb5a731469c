"""Values as a team's job reads them: `from_json(CAST(value AS string), schema)` with Spark's default options.

It is the engine's own `from_json`, so that a field which it cannot read is null, as in the job. Values that it reads
but that no table of ours holds are malformed: `NaN`, infinities, times outside of the years 1000 to 8999, and a time
without a date, which would be one of the day on which it is read.

Two types take a detour. Times are read as texts and cast by the function that `from_json` uses. Decimals are read from
VARIANT in the rare records that may have a text with an exponent of many digits, or very long, since one such text
takes seconds to minutes: it is null. If a name occurs several times, in both cases its last value counts even if it
cannot be read.

Measured on the records of `parser`, in one run with the strict form: 0.6 to 0.7 of its time.
"""

from typing import TYPE_CHECKING

from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import Field, Topic, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.columns import select_expressions
from cutover.records.parsing import limits
from cutover.records.parsing.field_sql import LOG_COLUMNS, convert_epoch_sql, count_colons_sql, join_by_or

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RARE = (
    (r"contains(__text, '\\')", r"\\u00[0-7]"),
    (r"char_length(__text) < octet_length(__text)", r"""["'][+-]?[0-9.,eE+-]*(?![0-9])\p{Nd}"""),
    (r"__text RLIKE '[eE][+-]?[0-9]{5}'", r"""["':\s,\[][+-]?[0-9.,]+[eE][+-]?[0-9]{5}"""),
    ("octet_length(__text) > 1000", r"""["'][+-]?[0-9.,]{1001}"""),
)
"""Fast conditions and patterns of records that may have a decimal which takes long: escaped, with digits of another
script, with a long exponent, or long itself."""

_BEYOND = "TIMESTAMP '0001-01-01'"
"""Any time that no table holds."""

_DECIMAL = r"^[+-]?(?:\p{Nd}+\.?\p{Nd}*|\.\p{Nd}+)(?:[eE][+-]?\p{Nd}{1,4})?\z"


def parse_job_values(records: "DataFrame", topic: Topic) -> "DataFrame":
    """Parse records to their log columns, `__reason`, `__unknown` and the columns of the schema."""
    fields = list_fields(topic)
    has_decimals = any(parse_decimal_type(field.type) for field in fields)
    sized = select_expressions(
        records,
        "partition AS _partition",
        "offset AS _offset",
        "timestamp AS _log_time",
        f"IF(octet_length(value) <= {topic.max_value_bytes}, CAST(value AS string), NULL) AS __text",
        f"{_reject_size_sql(topic.max_value_bytes)} AS __reason",
    )
    rare = join_by_or(f"({fast} AND {_matches_sql('__text', pattern)})" for fast, pattern in _RARE)
    checked = select_expressions(sized, "*", f"{f'coalesce({rare}, false)' if has_decimals else 'false'} AS __is_rare")
    values = f"{_read_sql('IF(__is_rare, NULL, __text)', topic, is_rare=False)} AS __usual"
    if has_decimals:
        values += f", {_read_sql('IF(__is_rare, __text, NULL)', topic, is_rare=True)} AS __rare"
    # inline(array(..)) is a generator: the optimizer cannot copy the parse into each column that uses it.
    decoded = select_expressions(
        checked, *LOG_COLUMNS, "__text", "__reason", "__is_rare", f"inline(array(struct({values})))"
    )
    raw = select_expressions(
        decoded, *LOG_COLUMNS, "__text", "__reason", *(_raw_sql(f, has_rare=has_decimals) for f in fields)
    )
    read = select_expressions(raw, *LOG_COLUMNS, "__text", "__reason", *_list_typed_sqls(fields, topic))
    return _check_fields(read, topic, fields)


def _reject_size_sql(max_bytes: int) -> str:
    return f"""CASE
        WHEN value IS NULL THEN '{Reason.NULL_VALUE}'
        WHEN octet_length(value) = 0 THEN '{Reason.EMPTY}'
        WHEN octet_length(value) > {max_bytes} THEN '{Reason.TOO_LARGE}'
    END"""


def _matches_sql(text: str, pattern: str) -> str:
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'")
    return f"{text} RLIKE '{escaped}'"


def _is_text_time(field: Field, topic: Topic) -> bool:
    return field.type == "timestamp" and topic.time_format not in EPOCH_FORMATS


def _read_sql(text: str, topic: Topic, *, is_rare: bool) -> str:
    columns = ", ".join(f"`{field.name}` {_read_as(field, topic, is_rare=is_rare)}" for field in list_fields(topic))
    return f"from_json({text}, '{columns}')"


def _read_as(field: Field, topic: Topic, *, is_rare: bool) -> str:
    if field.type == "timestamp":
        return "bigint" if topic.time_format in EPOCH_FORMATS else "string"
    return "variant" if is_rare and parse_decimal_type(field.type) else field.type


def _raw_sql(field: Field, *, has_rare: bool) -> str:
    usual, rare = f"__usual.`{field.name}`", f"__rare.`{field.name}`"
    if not has_rare:
        return f"{usual} AS `{field.name}`"
    value = _rare_decimal_sql(rare, field.type) if parse_decimal_type(field.type) else rare
    return f"IF(__is_rare, {value}, {usual}) AS `{field.name}`"


def _rare_decimal_sql(value: str, kind: str) -> str:
    text = f"CAST({value} AS string)"
    digits = f"replace({text}, ',', '')"
    is_short = f"length({text}) <= {limits.MAX_DECIMAL_TEXT} AND {_matches_sql(digits, _DECIMAL)}"
    return f"""CASE schema_of_variant({value})
        WHEN 'STRING' THEN IF({is_short}, try_cast({digits} AS {kind}), NULL)
        WHEN 'BOOLEAN' THEN NULL
        ELSE try_variant_get({value}, '$', '{kind}')
    END"""


def _list_typed_sqls(fields: tuple[Field, ...], topic: Topic) -> list[str]:
    """List the columns of the schema, with times cast, and the texts of these times."""
    times = [field.name for field in fields if _is_text_time(field, topic)]
    return [
        *(f"{_time_sql(f.name, topic) if f.name in times else f'`{f.name}`'} AS `{f.name}`" for f in fields),
        *(f"`{name}` AS `__text_{name}`" for name in times),
    ]


def _time_sql(name: str, topic: Topic) -> str:
    text = f"`{name}`"
    is_whole = _matches_sql(text, limits.JOB_NUMBER_TIME)
    if topic.time_format != "iso":
        cast = f'try_to_timestamp({text}, r"{topic.time_format}")'
        return f"IF({is_whole}, {_whole_time_sql(name, cast)}, {cast})"
    cast = f"try_cast({text} AS timestamp)"
    without_gmt = f"try_cast(regexp_replace({text}, '^(?s)(.*?)GMT', '$1') AS timestamp)"
    return f"""CASE
        WHEN {_matches_sql(text, limits.JOB_DATED_TIME)} THEN coalesce({cast}, {without_gmt})
        WHEN {is_whole} THEN {_whole_time_sql(name, cast)}
        WHEN {cast} IS NOT NULL THEN {_BEYOND}
    END"""


def _whole_time_sql(name: str, cast: str) -> str:
    """Return the SQL of a time that is a number of seconds, or else a text such as `2026`."""
    value = f"from_json(__text, '`{name}` variant').`{name}`"
    seconds = f"CAST({value} AS bigint)"
    in_range = f"{seconds} BETWEEN {limits.MIN_MICROS // 1_000_000}L AND {limits.MAX_MICROS // 1_000_000}L"
    time = f"IF({in_range}, timestamp_seconds({seconds}), {_BEYOND})"
    return f"IF(schema_of_variant({value}) = 'BIGINT', {time}, {cast})"


def _check_fields(read: "DataFrame", topic: Topic, fields: tuple[Field, ...]) -> "DataFrame":
    """Replace values that no table holds by null; `__reason` now also covers them and missing `NOT NULL` fields."""
    held = {field.name: _held_sql(field, topic) for field in fields}
    is_beyond = join_by_or(
        f"(`{name}` IS NOT NULL AND ({value}) IS NULL)"
        for name, value in held.items()
        if value != f"`{name}`" and name != topic.event_time
    )
    is_missing = join_by_or(f"`{field.name}` IS NULL" for field in fields if not field.nullable)
    reason = f"""CASE
        WHEN __reason IS NOT NULL THEN __reason
        WHEN {is_beyond} THEN '{Reason.TYPE}'
        WHEN {is_missing} THEN '{Reason.MISSING}'
    END AS __reason"""
    values = (f"{value} AS `{name}`" for name, value in held.items())
    return select_expressions(read, *LOG_COLUMNS, reason, _count_unknown_sql(fields, topic), *values)


def _held_sql(field: Field, topic: Topic) -> str:
    name = f"`{field.name}`"
    if field.type == "double":  # minus zero is zero
        return f"IF(abs({name}) < double('Infinity'), {name} + 0D, NULL)"
    if field.type == "timestamp" and topic.time_format in EPOCH_FORMATS:
        return convert_epoch_sql(field.name, topic.time_format)
    if field.type in {"date", "timestamp"}:
        literal = field.type.upper()
        return f"IF({name} >= {literal} '1000-01-01' AND {name} < {literal} '9000-01-01', {name}, NULL)"
    return name


def _count_unknown_sql(fields: tuple[Field, ...], topic: Topic) -> str:
    """Count the top-level fields that are not in the schema, as `parser` does.

    Their names are listed by `from_json` too, which takes more than `json_object_keys`.
    """
    known_names = ", ".join(f"'{field.name}'" for field in fields)
    times = [f"`__text_{field.name}`" for field in fields if _is_text_time(field, topic)]
    present = [f"`__text_{f.name}`" if _is_text_time(f, topic) else f"`{f.name}`" for f in fields]
    present_count = " + ".join(f"IF({name} IS NULL, 0, 1)" for name in present)
    colons = " - ".join([count_colons_sql("__text"), *(f"coalesce({count_colons_sql(text)}, 0)" for text in times)])
    has_no_escape = r"NOT contains(__text, '\\') AND " if times else ""
    names = "map_keys(from_json(__text, 'map<string, string>'))"
    unknown = f"greatest(coalesce(size(array_except({names}, array({known_names}))), 0), 0)"
    return f"IF({has_no_escape}{colons} = {present_count}, 0, {unknown}) AS __unknown"
