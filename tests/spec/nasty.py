"""Values that engines are known to disagree on, as one table for Spark and DuckDB."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa

INTS = (None, 0, 1, -1, 7, -7, 3, 2**31 - 1, -(2**31))
BIGINTS = (None, 0, 1, -1, 1000, 2**53 + 1, 2**63 - 1, -(2**63))
DOUBLES = (None, 0.0, -0.0, 0.1, -2.5, 1e308, -1e308, 5e-324, 2147483647.5, 9.3e18, float(2**63))
DECIMALS = (None, "0.00", "0.01", "-0.01", "99999999.99", "-99999999.99", "1.50")
STRINGS = (
    None, "", " ", "UA", "ua", "  x\t", "12", " 12", "+5", "-0", "1.5", "1e3", "1e400", ".5", "0x1F", "1_000",
    "NaN", "inf",
    "9223372036854775808", "-2147483648", "2013-02-30", "2013-02-28", "2013-2-8", "2013-01-01 00:00:00",
    "2013-01-01T23:59:59.5Z", "1969-12-31 23:59:59.999999", "12\n", "ß", "ÆØ", "e\u0301", "👩‍👩‍👧",
    "a%b", "a_b", "\\", "'", "true",
)  # fmt: skip
TIMES = (
    None,
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1899, 12, 31, 12, 30, tzinfo=UTC),
    datetime(2000, 2, 29, 23, 59, 59, 1, tzinfo=UTC),
    datetime(2013, 12, 30, 1, 2, 3, 456789, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1001, 1, 1, tzinfo=UTC),
)
DATES = (None, date(1970, 1, 1), date(1969, 12, 31), date(2000, 2, 29), date(9998, 12, 31), date(1001, 1, 1))
BOOLEANS = (None, True, False)

TYPES = {
    "i": "int", "j": "int", "n": "bigint", "m": "bigint", "x": "double", "y": "double", "d": "decimal(10,2)",
    "e": "decimal(10,2)", "s": "string", "t": "string", "p": "timestamp", "q": "timestamp", "v": "date", "w": "date",
    "b": "boolean", "c": "boolean",
}  # fmt: skip


def _pairs(
    first_name: str, second: str, values: Sequence[Any], rows: int, kind: pa.DataType
) -> "dict[str, pa.Array[Any]]":
    pairs = list(product(values, values))
    # A stride that shares no divisor with the number of pairs visits all of them, in a mixed order.
    picked = [pairs[(row * 7919) % len(pairs)] for row in range(rows)]
    return {
        first_name: pa.array([first_value for first_value, _ in picked], kind),
        second: pa.array([second_value for _, second_value in picked], kind),
    }


def nasty_table() -> pa.Table:
    """Return every pair of values of every type, `row bigint` first."""
    rows = len(STRINGS) ** 2
    decimals = [None if text is None else Decimal(text) for text in DECIMALS]
    columns: dict[str, pa.Array[Any]] = {"row": pa.array(range(rows), pa.int64())}
    columns |= _pairs("i", "j", INTS, rows, pa.int32()) | _pairs("n", "m", BIGINTS, rows, pa.int64())
    columns |= _pairs("x", "y", DOUBLES, rows, pa.float64()) | _pairs("d", "e", decimals, rows, pa.decimal128(10, 2))
    columns |= _pairs("s", "t", STRINGS, rows, pa.string()) | _pairs("p", "q", TIMES, rows, pa.timestamp("us", "UTC"))
    columns |= _pairs("v", "w", DATES, rows, pa.date32()) | _pairs("b", "c", BOOLEANS, rows, pa.bool_())
    return pa.table(columns)
