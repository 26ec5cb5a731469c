"""Measures in plain Python, computed over all values of a group at once, without partial aggregates.

xxHash64 has the seed (42) and the byte encoding of each type that Spark's `xxhash64` uses. Variances are computed with
exact fractions; those of doubles have a bound on their rounding error.

Source:
    xxHash fast digest algorithm, specification 0.1.1, section XXH64.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Self

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures import doubles
from cutover.definition.measures.doubles import Stddev, Variance
from cutover.definition.measures.kinds import (
    HASH_BIAS,
    HASHES,
    MILLION,
    ApproxDistinct,
    Avg,
    Bag,
    Count,
    First,
    Last,
    Max,
    Measure,
    Min,
    Quantile,
    Sum,
    TopK,
)
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import parse_decimal_type
from cutover.timestamps import EPOCH

ROUNDING = Fraction(1, 2**48)
"""Relative error of the mean square in a variance of doubles, since the squares and both sums are rounded."""

LOWEST_DIGIT = Fraction(2) ** doubles.LOWEST
"""Lowest binary digit of a value or a square that a sum of doubles includes."""


class ApproximateFloat(float):
    """Float with an error bound: numbers that differ by at most the bound are considered equal."""

    max_error: float

    def __new__(cls, value: float, max_error: float) -> Self:
        """Create a float with the maximum distance from the exact value."""
        number = super().__new__(cls, value)
        number.max_error = max_error
        return number


def variance(values: Sequence[int | float | Decimal]) -> float | None:
    """Return the sample variance (n - 1), with an error bound for doubles; None for fewer than two values."""
    fraction = _variance(values)
    if fraction is None or not isinstance(values[0], float):
        return None if fraction is None else float(fraction)
    return ApproximateFloat(_double(fraction), _double(_bound_error(values)))


def stddev(values: Sequence[int | float | Decimal]) -> float | None:
    """Return the sample standard deviation (n - 1), with an error bound for doubles; None for fewer than two values."""
    fraction = _variance(values)
    if fraction is None or not isinstance(values[0], float):
        return None if fraction is None else math.sqrt(fraction)
    max_error = _bound_error(values)
    root, lowest, highest = (
        math.sqrt(_double(square))
        for square in (fraction, max(fraction - max_error, Fraction(0)), fraction + max_error)
    )
    return ApproximateFloat(root, math.inf if math.isinf(highest) else max(root - lowest, highest - root))


def _double(exact: Fraction) -> float:
    """Return the nearest double; infinity on overflow, where sums of squares are infinite too."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf


def _variance(values: Sequence[int | float | Decimal]) -> Fraction | None:
    if len(values) < 2:  # noqa: PLR2004 -- one value has no spread
        return None
    exact = [Fraction(value) for value in values]
    mean = sum(exact, start=Fraction(0)) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), start=Fraction(0)) / (len(exact) - 1)


def _bound_error(values: Sequence[int | float | Decimal]) -> Fraction:
    """Bound the error of a path: squares and sums are rounded, and each value is truncated at the lowest digit."""
    exact = [Fraction(value) for value in values]
    squares, total = sum((value**2 for value in exact), start=Fraction(0)), abs(sum(exact, start=Fraction(0)))
    return (ROUNDING * squares + LOWEST_DIGIT * (len(exact) + total)) / (len(exact) - 1)


SEED = 42
LONG_DIGITS = 18  # maximum precision of a decimal that is hashed as a bigint
ALL = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)

EventPosition = tuple[int, int, int]
"""Event time (microseconds), partition and offset of a record."""

EXACT = Context(prec=76)
"""Twice the digits of the widest decimal column: Python's default of 28 would round."""


def spark_hash(value: Any, kind: str) -> int:
    """Return Spark's hash of a value of this type, a signed 64-bit integer."""
    unsigned = xxhash64(_bytes(value, kind), SEED)
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned


def xxhash64(data: bytes, seed: int) -> int:
    """Return the XXH64 hash of the bytes, an unsigned 64-bit integer."""
    stripes = len(data) // 32 * 32
    digest = _hash_stripes(data[:stripes], seed) if stripes else (seed + P5) & ALL
    digest = (digest + len(data)) & ALL
    tail = data[stripes:]
    while len(tail) >= 8:  # noqa: PLR2004 -- bytes of a long
        digest = (_rotate_left(digest ^ _round(0, _number(tail[:8])), 27) * P1 + P4) & ALL
        tail = tail[8:]
    if len(tail) >= 4:  # noqa: PLR2004 -- bytes of an int
        digest = (_rotate_left(digest ^ (_number(tail[:4]) * P1 & ALL), 23) * P2 + P3) & ALL
        tail = tail[4:]
    for byte in tail:
        digest = _rotate_left(digest ^ (byte * P5 & ALL), 11) * P1 & ALL
    return _mix_bits(digest)


def _bytes(value: Any, kind: str) -> bytes:
    digits = parse_decimal_type(kind)
    if digits is not None:
        unscaled = int(Decimal(value).scaleb(digits[1]))
        return _to_little_endian(unscaled, 8) if digits[0] <= LONG_DIGITS else _to_big_endian(unscaled)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, datetime):
        return _to_little_endian((value.replace(tzinfo=EPOCH.tzinfo) - EPOCH) // datetime.resolution, 8)
    if isinstance(value, date):
        return _to_little_endian((value - EPOCH.date()).days, 4)
    return _to_little_endian(int(value), 8 if kind == "bigint" else 4)


def _to_little_endian(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little", signed=True)


def _to_big_endian(number: int) -> bytes:
    """Encode as the shortest two's complement, most significant byte first, like Java's `BigInteger.toByteArray`."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _hash_stripes(data: bytes, seed: int) -> int:
    lanes = [(seed + P1 + P2) & ALL, (seed + P2) & ALL, seed, (seed - P1) & ALL]
    for position in range(0, len(data), 8):
        lane = position // 8 % 4
        lanes[lane] = _round(lanes[lane], _number(data[position : position + 8]))
    digest = sum(_rotate_left(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & ALL
    for lane in lanes:
        digest = ((digest ^ _round(0, lane)) * P1 + P4) & ALL
    return digest


def _round(lane: int, number: int) -> int:
    return _rotate_left((lane + number * P2) & ALL, 31) * P1 & ALL


def _rotate_left(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & ALL


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _mix_bits(digest: int) -> int:
    digest = (digest ^ digest >> 33) * P2 & ALL
    digest = (digest ^ digest >> 29) * P3 & ALL
    return digest ^ digest >> 32


def merge_values(
    pipeline: Pipeline, values: Sequence[Mapping[str, Any]], positions: Sequence[EventPosition]
) -> dict[str, Any]:
    """Compute the state of each measure from a group's values, ignoring nulls.

    A sum, minimum or maximum of no values is None. A sum of integers or decimals is a Decimal; a sum of doubles is the
    float nearest to the exact sum.
    """
    return {
        name: merge_measure(measure, [row[name] for row in values], positions)
        for name, measure in pipeline.measures.items()
    }


def finish_values(pipeline: Pipeline, states: Mapping[str, Any]) -> dict[str, Any]:
    """Finish each measure: a mean is a float, or None without values."""
    compiled = compile_pipeline(pipeline)
    return {
        name: finish_measure(measure, states[name], compiled.measured_type(name))
        for name, measure in pipeline.measures.items()
    }


def merge_measure(measure: Measure, values: Sequence[Any], positions: Sequence[EventPosition]) -> Any:
    """Compute the state of one measure; for `First`, `Quantile` and the like, the values in log order."""
    if isinstance(measure, Count):
        return len(values)
    present = [value for value in values if value is not None]
    if isinstance(measure, Avg):
        return (_sum(present), len(present))
    if not isinstance(measure, Sum | Min):
        return _sort_present(values, positions)
    if not present:
        return None
    if isinstance(measure, Sum):
        return _sum(present)
    return max(present) if isinstance(measure, Max) else min(present)


def finish_measure(measure: Measure, state: Any, kind: str | None = None) -> Any:
    """Compute the result of one measure; `kind` is the type of its expression, which `ApproxDistinct` needs."""
    if isinstance(measure, Avg):
        total, count = state
        return float(total) / count if count else None
    if isinstance(measure, ApproxDistinct):
        return _count_distinct({spark_hash(value, str(kind)) for value in state}, measure.k)
    return state if isinstance(measure, Count | Sum | Min) else _FINISH[type(measure)](measure, state)


def _sum(values: Sequence[Any]) -> Any:
    if values and isinstance(values[0], float):
        return doubles.from_units(sum(map(doubles.to_units, values)))
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, Decimal(value))
    return total


def _sort_present(values: Sequence[Any], positions: Sequence[EventPosition]) -> list[Any]:
    """Return the values that are not null, ordered by event time, then log position."""
    present = [(position, value) for position, value in zip(positions, values, strict=True) if value is not None]
    return [value for _, value in sorted(present, key=lambda item: item[0])]


_FINISH: Mapping[type, Callable[[Any, Sequence[Any]], Any]] = {
    Variance: lambda _, values: variance(values),
    Stddev: lambda _, values: stddev(values),
    First: lambda _, values: values[0] if values else None,
    Last: lambda _, values: values[-1] if values else None,
    TopK: lambda measure, values: _find_top(values, measure.k),
    Quantile: lambda measure, values: _compute_quantile(values, measure),
    Bag: lambda measure, values: list(values[: measure.most]) or None,
}


def _find_top(values: Sequence[Any], k: int) -> list[dict[str, Any]] | None:
    ranked = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count} for value, count in ranked[:k]] or None


def _compute_quantile(values: Sequence[Any], measure: Quantile) -> float | None:
    rank = max(math.ceil(Fraction(round(measure.q * MILLION), MILLION) * len(values)), 1)
    return _truncate_bits(sorted(map(float, values))[rank - 1], measure.bits) if values else None


def _count_distinct(hashes: Collection[int], k: int) -> int:
    if len(hashes) < k:
        return len(hashes)
    return (k - 1) * HASHES // (sorted(hashes)[k - 1] + HASH_BIAS)


def _truncate_bits(value: float, bits: int) -> float:
    """Truncate a number towards zero to its leading binary digit and `bits` further ones."""
    mantissa, power = math.frexp(value)
    return math.ldexp(math.trunc(mantissa * 2 ** (bits + 1)), power - bits - 1)
