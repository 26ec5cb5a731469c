"""Texts of a batch job's compacted topic as values: each column gets the type of the definition's column.

A text that does not denote a value of its type exactly makes the table incomparable. Numbers keep all of their digits,
so that a value with more of them than the definition's is a difference.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or internal

from cutover.counts import count_noun
from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.windows.window_fn import EARLIEST, LATEST
from cutover.engine.queries import fetch_number
from cutover.pipeline_lake import PipelineLake
from cutover.positions.batch_table import BoundJobTable
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.column_types import is_time, kind_of
from cutover.reconcile.comparison.job_table import JobLink, map_columns, reject_job_table
from cutover.reconcile.comparison.layout import SharedTable
from cutover.reconcile.comparison.sides import Sides
from cutover.sources.binding import types_of
from cutover.sources.reading import DECIMAL_DIGITS

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DECIMAL, _EXPONENT = "-?(0|[1-9][0-9]*)([.][0-9]+)?", "([eE][+-]?[0-9]+)?"
_ISO = f"{_DAY}([T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}}0*)?(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?"
_MICROS = 1_000_000
_EXPECTED = {
    "BOOLEAN": "`true` or `false`",
    "DATE": "days such as 2026-03-01",
    "float": "numbers",
    "decimal": "numbers without an exponent",
    "whole": "numbers without an exponent",
}


def create_typed_rows(lake: PipelineLake, sides: Sides, link: JobLink, table: BoundJobTable, texts: str) -> None:
    """Create the relation of the job's table from a relation of its texts.

    Raises:
        SealError: A column of the definition is an object or an array there, or has a text that is no value.
    """
    expected_types = types_of(sides.connection, SharedTable.EXPECTED)
    columns = types_of(sides.connection, texts)
    paths = map_columns(lake, link, columns)
    values = {}
    for name, path in paths.items():
        if path in table.nested:
            text = f"column `{path}`: expected values of {expected_types[name]}, got objects or arrays"
            raise reject_job_table(link, f"{text}, whose fields are not read from a topic")
        if path in columns:
            values[path] = _make_value(sides, link, table, texts, path, expected_types[name])
    selected = [f"{values.get(name, identifier(name))} AS {identifier(name)}" for name in columns]
    sides.connection.execute(f"CREATE TEMP VIEW {link.raw} AS SELECT {', '.join(selected)} FROM {texts}")


def _make_value(sides: Sides, link: JobLink, table: BoundJobTable, texts: str, name: str, kind: str) -> str:
    """Return SQL of the values of a column."""
    column, family = identifier(name), kind_of(kind)
    if kind == "VARCHAR":
        return column
    if family in {"whole", "decimal"}:
        _check_texts(sides, link, texts, name, f"regexp_full_match({column}, {literal(_DECIMAL)})", _EXPECTED[family])
        return _make_number(sides, link, texts, name, is_whole=family == "whole")
    if family == "float":
        pattern = f"{_DECIMAL}{_EXPONENT}|NaN|-?Infinity"
        value = f"TRY_CAST({column} AS DOUBLE)"
    elif kind == "BOOLEAN":
        pattern, value = "true|false", f"TRY_CAST({column} AS BOOLEAN)"
    elif kind == "DATE":
        pattern, value = _DAY, f"TRY_CAST({column} AS DATE)"
    elif is_time(kind) and table.time_format == "iso":
        pattern, value = _ISO, f"TRY_CAST({column} AS TIMESTAMPTZ)"
    elif is_time(kind):
        pattern, value = "-?[0-9]{1,19}", _make_epoch_time(column, str(table.time_format))
    else:
        raise reject_job_table(link, f"column `{name}`: expected a type of which values are texts, got {kind}")
    is_valid = f"regexp_full_match({column}, {literal(pattern)}) AND {value} IS NOT NULL"
    expected = _EXPECTED.get(family) or f"times in the form `{table.time_format}` (`time_format` names another one)"
    _check_texts(sides, link, texts, name, is_valid, expected)
    return value


def _make_epoch_time(column: str, time_format: str) -> str:
    """Return SQL of a time since 1970; null where microseconds do not hold it."""
    units = EPOCH_FORMATS[time_format]
    number = f"TRY_CAST({column} AS HUGEINT)"
    factor, divisor = max(1, _MICROS // units), max(1, units // _MICROS)
    micros = f"{number} * {factor} // {divisor}"
    is_held = f"{number} % {divisor} = 0 AND {micros} BETWEEN {EARLIEST} AND {LATEST}"
    return f"CASE WHEN {is_held} THEN make_timestamptz(({micros})::BIGINT) END"


def _make_number(sides: Sides, link: JobLink, texts: str, name: str, *, is_whole: bool) -> str:
    """Return SQL of exact numbers, with as many digits as their texts have."""
    column = identifier(name)
    sizes = {place: f"coalesce(max(length(split_part(ltrim({column}, '-'), '.', {place}))), 0)" for place in (1, 2)}
    before, after = (fetch_number(sides.connection, f"SELECT {size} FROM {texts}") for size in sizes.values())
    if before + after > DECIMAL_DIGITS:
        raise reject_job_table(link, f"column `{name}`: expected numbers of at most {DECIMAL_DIGITS} digits, got more")
    if is_whole and not after:
        return f"CAST({column} AS HUGEINT)"
    return f"CAST({column} AS DECIMAL({DECIMAL_DIGITS},{after}))"


def _check_texts(sides: Sides, link: JobLink, texts: str, name: str, is_valid: str, expected: str) -> None:
    column = identifier(name)
    query = f"SELECT count(*) FROM {texts} WHERE {column} IS NOT NULL AND NOT coalesce({is_valid}, false)"
    invalid = fetch_number(sides.connection, query)
    if invalid:
        raise reject_job_table(link, f"column `{name}`: expected {expected}, got {count_noun(invalid, 'other text')}")
