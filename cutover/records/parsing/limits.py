"""How a field may be written in JSON, beyond RFC 8259: what every engine that parses a record holds to.

A field is strict: no cast between JSON's kinds. `boolean` is `true` or `false`; `int` and `bigint` are numbers without
fraction and exponent, in range; `double` is a finite number; `decimal(p,s)` is a number without exponent, of at most 38
digits (38 after the point), that needs no more than p-s before and s after the point, zeros at the end aside; `string`,
`date` and a `timestamp` of `time_format="iso"` are strings; a `timestamp` of `seconds` or `millis` is a number without
fraction and exponent. Null is null. Of a field that stands twice the last one counts, and each must be of the right
kind. Negative zero is zero. A string with half a surrogate pair is of the wrong type. Names match by case.
"""

from cutover.definition.windows.window_fn import EARLIEST, LATEST

MAX_DEPTH = 1_000
"""Nested arrays and objects, the record itself included; a deeper record is malformed(json)."""

MAX_NUMBER = 1_000
"""Digits of one number, wherever it stands; a record with a longer one is malformed(json)."""

MAX_NAME = 50_000
"""Characters of one field name, wherever it stands; a record with a longer one is malformed(json)."""

ISO_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
"""The whole text of a date."""

MIN_MICROS = EARLIEST
"""1000-01-01T00:00:00Z: the first timestamp (and date) that is taken."""

MAX_MICROS = LATEST - 1
"""8999-12-31T23:59:59.999999Z: the last one; a window around it still ends in a year that every engine can write."""


def decimal_pattern(precision: int, scale: int) -> str:
    """Return the pattern of the whole text of a decimal, as JSON writes it.

    Leading zeros cannot occur in JSON; zeros after the last place that the type keeps are allowed.
    """
    integer_part = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
    fraction = f"[0-9]{{1,{scale}}}0*" if scale else "0+"
    return f"-?{integer_part}([.]{fraction})?"
