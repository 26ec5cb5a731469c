"""Measures that count values: top-k over the values themselves, quantiles over buckets of them.

The state is the list of values and their counts, in order of the values; merging adds up counts. A quantile's buckets
are cut at 2^e (1 + j / 2^b), with b whole: powers of two and fractions of them are exact in every engine, logarithms
are not. An estimator that follows the data (KLL) would change with the split; fixed buckets do not.

Source:
    Masson, Rim, Lee, DDSketch, VLDB 2019, section 2 (relative error by fixed logarithmic buckets).
"""

import math
from dataclasses import dataclass

from cutover.definition.measures.states import Finish, StateColumn

MILLION = 10**6
"""A quantile is asked for in millionths, so that the rank is whole-number arithmetic."""

LOWEST = 1075
"""Added to a power of two, so that that of the smallest double is 1."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The k most frequent values with their counts, nulls left out; of equal counts the smaller value first. Exact."""

    expression: str
    k: int = 10

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """One column `<name>__counts`: every different value, ascending, with how often it came."""
        counted = run_lengths(f"sort_array(collect_list({self.expression}))")
        return (StateColumn(column=f"{name}__counts", type=_counts(value_type), create=counted, merge="counts"),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Return the list of (value, count), highest count first."""
        keyed = f"list_transform({name}__counts, lambda __x: {{'n': -__x['count'], 'value': __x['value']}})"
        pair = "{'value': __x['value'], 'count': -__x['n']}"
        sql = f"list_transform(list_sort({keyed})[1:{self.k}], lambda __x: {pair})"
        return Finish(sql=sql, type=_counts(value_type))

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """None: values and counts are compared exactly."""
        return None


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value of rank ceil(q n), nulls left out, cut towards zero to its bucket's bound: at most `error` too small.

    Whole numbers up to 1 / error are exact. The same records give the same result for any split.
    """

    expression: str
    q: float  # 0 to 1, at most six digits
    error: float = 0.01  # relative, in magnitude

    @property
    def bits(self) -> int:
        """Return b: buckets are 2^-b wide at most, relative to their bound."""
        return math.ceil(math.log2(1 / self.error))

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:  # noqa: ARG002 -- every measure's signature
        """Return `<name>__buckets`: numbers of buckets, as ordered as their values, with their counts."""
        counted = run_lengths(f"sort_array({_buckets(self.expression, self.bits)})")
        return (StateColumn(column=f"{name}__buckets", type=_counts("bigint"), create=counted, merge="counts"),)

    def finish(self, name: str, value_type: str | None) -> Finish:  # noqa: ARG002 -- every measure's signature
        """Return the bound of the bucket that holds the rank, a double."""
        counts = f"{name}__buckets"
        n = f"list_sum(list_transform({counts}, lambda __x: __x['count']))"
        rank = f"greatest(({round(self.q * MILLION)} * {n} + {MILLION - 1}) // {MILLION}, 1)"
        start = f"{{'value': 0::BIGINT, 'count': CAST(-{rank} AS BIGINT)}}"
        more = "{'value': __x['value'], 'count': __a['count'] + __x['count']}"
        reached = (
            f"list_reduce({counts}, lambda __a, __x: CASE WHEN __a['count'] >= 0 THEN __a ELSE {more} END, {start})"
        )
        width = 2**self.bits
        power = f"pow(2.0::DOUBLE, abs(__b) // {width} - {LOWEST})"
        bound = f"sign(__b) * {power} * (1 + (abs(__b) % {width})::DOUBLE / {width})"
        value = f"CASE WHEN __b = 0 THEN 0.0::DOUBLE ELSE {bound} END"
        return Finish(sql=f"list_transform([{reached}['value']], lambda __b: {value})[1]", type="double")

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return 0 between states of one definition, the error against an exact quantile."""
        return 0.0 if same else self.error


def run_lengths(values: str) -> str:
    """Return Spark SQL for a sorted list's distinct values and their counts, in one pass over it."""
    begins = "filter(transform(s, (v, i) -> i), i -> i = 0 OR get(s, i) <> get(s, i - 1))"
    count = "CAST(coalesce(get(b, n + 1), size(s)) - p AS bigint)"
    pairs = f"transform(b, (p, n) -> named_struct('value', get(s, p), 'count', {count}))"
    return f"get(transform(array({values}), s -> get(transform(array({begins}), b -> {pairs}), 0)), 0)"


def _counts(value_type: str | None) -> str:
    return f"array<struct<value:{value_type},count:bigint>>"


def _buckets(expression: str, bits: int) -> str:
    """Return Spark SQL for the list of the values' buckets.

    A logarithm may miss the power of two by one; comparing with exact powers mends it. `least` keeps the infinity of a
    row that failed from raising.
    """
    power = "least(floor(log2(abs(v))), 2000L)"
    guessed = f"transform(collect_list(CAST({expression} AS double)), v -> named_struct('v', v, 'e', {power}))"
    off = "CASE WHEN abs(r.v) < pow(2D, r.e) THEN -1L WHEN abs(r.v) >= pow(2D, r.e + 1) THEN 1L ELSE 0L END"
    mended = f"transform({guessed}, r -> named_struct('v', r.v, 'e', r.e + {off}))"
    inside = f"floor((abs(r.v) / pow(2D, r.e) - 1D) * {2**bits}D)"
    bucket = f"IF(r.v > 0D, 1L, -1L) * ((r.e + {LOWEST}L) * {2**bits}L + {inside})"
    return f"transform({mended}, r -> IF(r.v = 0D, 0L, {bucket}))"
