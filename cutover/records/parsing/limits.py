"""Rules and limits of JSON values, in addition to RFC 8259, that every parser of records follows.

Values are never cast between JSON types. `boolean` is `true` or `false`; `int` and `bigint` are numbers without
fraction and exponent, in range; `double` is a finite number; `decimal(p,s)` is a number without exponent, of at most 38
digits (38 after the point), with at most p-s digits before and s after the point, ignoring trailing zeros; `string`,
`date` and a `timestamp` of `time_format="iso"` or a pattern are strings; a `timestamp` of `seconds`, `millis`, `micros`
or `nanos` is a number without fraction and exponent. Null is null. If a field occurs several times, the last one is
used, but each must have the right JSON type. Negative zero becomes zero. A string with an unpaired surrogate has the
wrong type. Names are case-sensitive.
"""

from cutover.definition.windows.window_fn import EARLIEST, LATEST

MAX_DEPTH = 1_000
"""Maximum nesting of arrays and objects, including the record itself; a deeper record is malformed(json)."""

MAX_NUMBER = 1_000
"""Maximum digits of a number, at any depth; a record with a longer one is malformed(json)."""

MAX_NAME = 50_000
"""Maximum characters of a field name, at any depth; a record with a longer one is malformed(json)."""

MAX_DECIMAL_TEXT = 1_010
"""Maximum characters of a text that is a decimal in the `from_json` form; of 1,000,000 digits Java needs 25 s."""

RARE_DECIMALS = (
    (r"contains(__text, '\\')", r"\\u00[0-7]"),
    (r"char_length(__text) < octet_length(__text)", r"""["'][+-]?[0-9.,eE+-]*(?![0-9])\p{Nd}"""),
    (r"__text RLIKE '[eE][+-]?[0-9]{5}'", r"""["':\s,\[][+-]?[0-9.,]+[eE][+-]?[0-9]{5}"""),
    ("octet_length(__text) > 1000", r"""["'][+-]?[0-9.,]{1001}"""),
)
"""Fast conditions of Spark and patterns of records in the `from_json` form that may have a decimal which takes long:
escaped, with digits of another script, with a long exponent, or long itself. Each pattern implies its condition."""

JOB_DATED_TIME = r"^[\x00-\x20\x7f]*[+-]?[0-9]{4,6}-"
"""Beginning of a time with a date in the `from_json` form, which no number has."""

JOB_NUMBER_TIME = r"^[\x00-\x20\x7f]*[+-]?[0-9]{1,19}[\x00-\x20\x7f]*\z"
"""Text of a time in the `from_json` form that is a whole number or a year."""

JOB_NAMED_ZONE = r"[0-9.][\x00-\x20]*(?!UTC|GMT|UT(?![A-Za-z]))[A-Za-z][A-Za-z/-]"
"""Part of a time with a zone that has a name, such as `Europe/Paris` or `PST`, in the `from_json` form."""

JOB_OLD_ZONE = "SystemV/"
"""Beginning of zones that only Java has."""

JOB_NAMED_ZONES_SINCE = "1980-01-01"
"""Start, in UTC, of the times with a named zone that are accepted in the `from_json` form: what zones were before
differs between editions of the time zone database, and so between machines."""

MAX_CSV_FIELDS = 20_480
"""Maximum fields of a line of CSV, at which Spark's parser ends a job; a line with more is malformed(type)."""

MAX_CSV_ESCAPES = 200
"""Maximum number of quotes with an escape behind them in a line of CSV, for each of which Spark's parser may call
itself; a line with more is malformed(type)."""

MAX_BROKEN_LINE = 2_000
"""Maximum characters of a line of CSV with a line break in quotes."""

ISO_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
"""Pattern of the whole text of a date."""

MIN_MICROS = EARLIEST
"""1000-01-01T00:00:00Z, the earliest valid timestamp (and date)."""

MAX_MICROS = LATEST - 1
"""8999-12-31T23:59:59.999999Z, the latest valid timestamp; its window still ends in a year that all engines support."""


def decimal_pattern(precision: int, scale: int) -> str:
    """Return the pattern of the whole text of a decimal in JSON.

    Leading zeros are invalid in JSON; trailing zeros beyond the scale are allowed.
    """
    integer_part = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
    fraction = f"[0-9]{{1,{scale}}}0*" if scale else "0+"
    return f"-?{integer_part}([.]{fraction})?"
