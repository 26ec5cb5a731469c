"""Numbers as Java writes them: what `from_json` gives for a number in a field that is a string.

Doubles are written with the fewest digits that identify them. Java before 19 writes some of them, such as 2e23, with a
digit more or another one; they have 16 digits or more, or are beyond 2^53.
"""

import math
from decimal import Decimal
from typing import Any

from cutover.records.reference.values import JsonNumber

_PLAIN_EXPONENTS = range(-3, 7)  # of the first digit, between which Java writes no exponent


def format_java_number(value: Any) -> str:
    """Write null, a boolean or a number; `NaN` and infinities are quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, JsonNumber):
        return str(int(value.text)) if value.is_whole else format_double(float(value.text))
    return format_double(value)


def format_double(number: float) -> str:
    """Write a double as `Double.toString` does; `NaN` and infinities in quotes, as in JSON."""
    if math.isnan(number):
        return '"NaN"'
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    sign = "-" if math.copysign(1, number) < 0 else ""
    if number == 0:
        return f"{sign}0.0"
    digits, first = _find_digits(abs(number))
    if first in _PLAIN_EXPONENTS:
        digits = "0" * -first + digits if first < 0 else digits.ljust(first + 2, "0")
        point = max(first, 0) + 1
        return f"{sign}{digits[:point]}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{first}"


def _find_digits(number: float) -> tuple[str, int]:
    """Return the shortest digits, two if there are no fewer than one, and the exponent of the first."""
    text = repr(number)
    decimal = Decimal(text)
    digits = "".join(map(str, decimal.as_tuple().digits)).rstrip("0")
    if len(digits) == 1 and float(f"{number:.1e}") == number:
        decimal = Decimal(f"{number:.1e}")
        digits = "".join(map(str, decimal.as_tuple().digits)).rstrip("0")
    return digits.lstrip("0"), decimal.adjusted()
