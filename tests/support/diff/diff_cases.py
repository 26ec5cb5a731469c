"""Pairs of small tables on which tools that compare tables disagree: who is right, and why, and what each one says.

`truth`, `rows` and `reason` were written before any tool ran. `peers` is what the others said when they did.
"""

from dataclasses import dataclass, field
from typing import Literal

from cutover.reconcile.external.request import Tolerance

Answer = Literal["equal", "different", "refused"]
PEERS = ("DataComPy", "EXCEPT ALL", "full join")
EQUAL: tuple[Answer, ...] = ("equal", "equal", "equal")
DIFFERENT: tuple[Answer, ...] = ("different", "different", "different")
REFUSED: Answer = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One pair of tables: queries of DuckDB that are written to Parquet, or the text of CSV where `csv` says so."""

    name: str
    left_source: str
    right_source: str
    truth: Answer
    reason: str
    rows: tuple[int, int, int] = (0, 0, 0)  # missing, extra, changed: what Cutover must say
    peers: tuple[Answer, ...]  # as `PEERS`
    key: tuple[str, ...] = ("k",)
    names: dict[str, str] = field(default_factory=dict)  # as `--map`
    csv: tuple[bool, bool] = (False, False)  # of each side
    normalized: tuple[str, ...] = ()  # as `--normalize`
    tolerances: dict[str, Tolerance] = field(default_factory=dict)


def of(values: str, columns: str = "k, v") -> str:
    """Return a query of rows."""
    return f"SELECT * FROM (VALUES {values}) t({columns})"  # noqa: S608 -- texts of this module


def select_one(value: str) -> str:
    """Return a query of one row: key 1, and a value."""
    return f"SELECT 1 AS k, {value} AS v"


KEYS = (
    Case(
        name="a key that is null on both sides",
        left_source=of("(NULL, 1), (2, 2)"),
        right_source=of("(2, 2), (NULL, 1)"),
        truth="equal",
        reason="Both sides have the same rows; a null key is a key.",
        peers=EQUAL,
    ),
    Case(
        name="a null key whose value differs",
        left_source=of("(NULL, 1), (2, 2)"),
        right_source=of("(NULL, 9), (2, 2)"),
        truth="different",
        rows=(0, 0, 1),
        reason="The row of the null key changed.",
        peers=DIFFERENT,
    ),
    Case(
        name="a null key on one side only",
        left_source=of("(NULL, 1), (2, 2)"),
        right_source=of("(2, 2)"),
        truth="different",
        rows=(1, 0, 0),
        reason="A row is missing.",
        peers=DIFFERENT,
    ),
    Case(
        name="a key of two columns, one of them null",
        left_source=of("(1, NULL, 5), (NULL, 1, 6)", "k, j, v"),
        right_source=of("(NULL, 1, 6), (1, NULL, 5)", "k, j, v"),
        key=("k", "j"),
        truth="equal",
        reason="Each null is in its own column.",
        peers=EQUAL,
    ),
    Case(
        name="a key twice on both sides, rows alike",
        left_source=of("(1, 'a'), (1, 'a'), (2, 'b')"),
        right_source=of("(2, 'b'), (1, 'a'), (1, 'a')"),
        truth="equal",
        reason="Both sides contain the same multiset of rows.",
        peers=EQUAL,
    ),
    Case(
        name="a key twice on both sides, in another order",
        left_source=of("(1, 'a'), (1, 'b')"),
        right_source=of("(1, 'b'), (1, 'a')"),
        truth="equal",
        reason="A table has no order.",
        peers=("different", "equal", "different"),
    ),
    Case(
        name="a row twice against three times",
        left_source=of("(1, 'a'), (1, 'a')"),
        right_source=of("(1, 'a'), (1, 'a'), (1, 'a')"),
        truth="different",
        rows=(0, 1, 0),
        reason="One row is duplicated.",
        peers=("different", "different", "equal"),
    ),
    Case(
        name="one row doubled, another one gone",
        left_source=of("(1, 'a'), (1, 'a'), (2, 'b')"),
        right_source=of("(1, 'a'), (2, 'b'), (2, 'b')"),
        truth="different",
        rows=(1, 1, 0),
        reason="Both sides have three rows and the same distinct rows, but the duplicate belongs to another key.",
        peers=("different", "different", "equal"),
    ),
    Case(
        name="a key twice, one of its rows changed",
        left_source=of("(1, 'a'), (1, 'b')"),
        right_source=of("(1, 'a'), (1, 'c')"),
        truth="different",
        rows=(0, 0, 1),
        reason="One row of the key changed; a join on the key alone makes four pairs.",
        peers=DIFFERENT,
    ),
    Case(
        name="a key of int against bigint",
        left_source=of("(1::INTEGER, 'a')"),
        right_source=of("(1::BIGINT, 'a')"),
        truth="equal",
        reason="The numbers are the same, and each fits the other type.",
        peers=EQUAL,
    ),
    Case(
        name="a key of text against int",
        left_source=of("('1', 'a')"),
        right_source=of("(1, 'a')"),
        truth="different",
        reason="A text is not a number: the schemas differ, whatever the result of a cast.",
        peers=("refused", "equal", "equal"),
    ),
    Case(
        name="a key that differs in case",
        left_source=of("('A', 1)"),
        right_source=of("('a', 1)"),
        truth="different",
        rows=(1, 1, 0),
        reason="Two different keys, unless comparison without case is requested.",
        peers=DIFFERENT,
    ),
    Case(
        name="a key with a trailing blank",
        left_source=of("('a', 1)"),
        right_source=of("('a ', 1)"),
        truth="different",
        rows=(1, 1, 0),
        reason="Two different keys, unless normalization is requested.",
        peers=DIFFERENT,
    ),
    Case(
        name="a key that is NaN",
        left_source=of("('nan'::DOUBLE, 1), (2, 2)"),
        right_source=of("(2, 2), ('nan'::DOUBLE, 1)"),
        truth="equal",
        reason="The same rows: NaN is a key like any number.",
        peers=EQUAL,
    ),
    Case(
        name="a key of -0.0 against 0.0",
        left_source=of("(-0.0::DOUBLE, 1)"),
        right_source=of("(0.0::DOUBLE, 1)"),
        truth="equal",
        reason="IEEE 754: the two are equal.",
        peers=EQUAL,
    ),
    Case(
        name="values of two rows swapped",
        left_source=of("(1, 'a'), (2, 'b')"),
        right_source=of("(1, 'b'), (2, 'a')"),
        truth="different",
        rows=(0, 0, 2),
        reason="Each column holds the same values; the rows do not.",
        peers=DIFFERENT,
    ),
)

NUMBERS = (
    Case(
        name="NaN against NaN",
        left_source=select_one("'nan'::DOUBLE"),
        right_source=select_one("'nan'::DOUBLE"),
        truth="equal",
        reason="Both sides have the same value: not a number.",
        peers=EQUAL,
    ),
    Case(
        name="NaN against null",
        left_source=select_one("'nan'::DOUBLE"),
        right_source=select_one("NULL::DOUBLE"),
        truth="different",
        rows=(0, 0, 1),
        reason="A failed computation is not a missing value.",
        peers=("equal", "different", "different"),
    ),
    Case(
        name="-0.0 against 0.0",
        left_source=select_one("-0.0::DOUBLE"),
        right_source=select_one("0.0::DOUBLE"),
        truth="equal",
        reason="IEEE 754: the two are equal.",
        peers=EQUAL,
    ),
    Case(
        name="infinity against infinity",
        left_source=select_one("'inf'::DOUBLE"),
        right_source=select_one("'inf'::DOUBLE"),
        truth="equal",
        reason="The same value.",
        peers=EQUAL,
    ),
    Case(
        name="infinity against -infinity",
        left_source=select_one("'inf'::DOUBLE"),
        right_source=select_one("'-inf'::DOUBLE"),
        truth="different",
        rows=(0, 0, 1),
        reason="Opposite ends; a relative tolerance of infinity must not accept the difference.",
        peers=DIFFERENT,
    ),
    Case(
        name="infinity against a number, tolerance 1 %",
        left_source=select_one("'inf'::DOUBLE"),
        right_source=select_one("1.0::DOUBLE"),
        truth="different",
        rows=(0, 0, 1),
        reason="1 % of infinity is infinity, which is not a bound.",
        tolerances={"v": Tolerance(relative=0.01)},
        peers=DIFFERENT,
    ),
    Case(
        name="a decimal of another scale, the same number",
        left_source=select_one("1.50::DECIMAL(10,2)"),
        right_source=select_one("1.5000::DECIMAL(12,4)"),
        truth="equal",
        reason="The number is the same.",
        peers=EQUAL,
    ),
    Case(
        name="a decimal of another scale, another number",
        left_source=select_one("1.50::DECIMAL(10,2)"),
        right_source=select_one("1.5001::DECIMAL(12,4)"),
        truth="different",
        rows=(0, 0, 1),
        reason="Rounding to the smaller scale would hide it.",
        peers=DIFFERENT,
    ),
    Case(
        name="decimals of 38 digits, one apart",
        left_source=select_one("12345678901234567890123456789012345678::DECIMAL(38,0)"),
        right_source=select_one("12345678901234567890123456789012345677::DECIMAL(38,0)"),
        truth="different",
        rows=(0, 0, 1),
        reason="As doubles both would be the same number.",
        peers=("equal", "different", "different"),
    ),
    Case(
        name="int against bigint",
        left_source=select_one("7::INTEGER"),
        right_source=select_one("7::BIGINT"),
        truth="equal",
        reason="The numbers are the same, and each fits the other type.",
        peers=EQUAL,
    ),
    Case(
        name="bigints beyond 2^53, one apart",
        left_source=select_one("9007199254740993::BIGINT"),
        right_source=select_one("9007199254740992::BIGINT"),
        truth="different",
        rows=(0, 0, 1),
        reason="As doubles both would be the same number.",
        peers=("equal", "different", "different"),
    ),
    Case(
        name="a bigint beyond 2^53 against a double",
        left_source=select_one("9007199254740993::BIGINT"),
        right_source=select_one("9007199254740992::DOUBLE"),
        truth="different",
        reason="The double is another number; compared as doubles the two only look equal.",
        peers=EQUAL,
        rows=(0, 0, 1),
    ),
    Case(
        name="float against double, a number that both hold",
        left_source=select_one("0.5::FLOAT"),
        right_source=select_one("0.5::DOUBLE"),
        truth="equal",
        reason="The number is the same.",
        peers=EQUAL,
    ),
    Case(
        name="float against double, 0.1",
        left_source=select_one("0.1::FLOAT"),
        right_source=select_one("0.1::DOUBLE"),
        truth="different",
        rows=(0, 0, 1),
        reason="The float is 0.100000001490116, and no tolerance accepts that loss.",
        peers=DIFFERENT,
    ),
    Case(
        name="doubles summed in another order",
        left_source=select_one("0.1::DOUBLE + 0.2::DOUBLE + 0.3::DOUBLE"),
        right_source=select_one("0.3::DOUBLE + 0.2::DOUBLE + 0.1::DOUBLE"),
        truth="equal",
        reason="A sum of doubles depends on the order of rows, which no engine guarantees: 1 part in 10^9 is noise.",
        peers=DIFFERENT,
    ),
    Case(
        name="a value within an asked tolerance",
        left_source=select_one("100::DOUBLE"),
        right_source=select_one("100.4::DOUBLE"),
        truth="equal",
        reason="A tolerance of 1 % was requested.",
        tolerances={"v": Tolerance(relative=0.01)},
        peers=("equal", "different", "different"),
    ),
)
