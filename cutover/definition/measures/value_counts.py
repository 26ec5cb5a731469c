"""Measures over the distribution of values: top-k, quantiles, and the number of distinct values.

The state of `TopK` and `Quantile` is a list of values or buckets with their counts, ordered by value; merging sums the
counts. The bounds of a quantile's buckets are 2^e (1 + j / 2^b), with b whole: powers of two and fractions of them are
exact in every engine, logarithms are not. A sketch that adapts to the data (KLL) would depend on the split; fixed
buckets do not.

`ApproxDistinct` estimates from the smallest hashes. If n distinct values are hashed to [0, 1), the k-th smallest hash
is near k / n. The k smallest hashes of a union are among the k smallest of its parts, so the estimate is the same for
any split; that of a sketch that depends on the order of arrival (HLL in Spark) is not. This is a Theta sketch that is
rebuilt at each step.

Source:
    Masson, Rim, Lee, DDSketch, VLDB 2019, section 2 (relative error by fixed logarithmic buckets).
    Bar-Yossef et al., Counting Distinct Elements in a Data Stream, RANDOM 2002, algorithm 2 (k minimum values);
    Dasgupta, Lang, Rhodes, Thaler, A Framework for Estimating Stream Expression Cardinalities, ICDT 2016 (Theta).
"""

import math
from dataclasses import dataclass

from cutover.definition.measures.states import Finish, StateColumn

MILLION = 10**6
"""Quantiles are expressed in millionths, so that ranks are computed in whole numbers."""

EXPONENT_BIAS = 1075
"""Added to the exponent of a value, so that the exponent of the smallest double becomes 1."""

HASHES = 2**64
HASH_BIAS = 2**63
"""Added to a signed hash, so that hashes start at 0."""

SIGMAS = 5.0
"""Standard errors by which an estimate may differ from the true number: exceeded once in two million comparisons."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The k most frequent values with their counts, without nulls; for equal counts the smaller value first. Exact."""

    expression: str
    k: int = 10

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__counts`: every distinct value, ascending, with its count."""
        create = count_values_sql(f"sort_array(collect_list({self.expression}))")
        return (StateColumn(column=f"{name}__counts", type=_counts_type(value_type), create=create, merge="counts"),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Return the list of (value, count), highest count first."""
        keyed = f"list_transform({name}__counts, lambda __x: {{'n': -__x['count'], 'value': __x['value']}})"
        pair = "{'value': __x['value'], 'count': -__x['n']}"
        sql = f"list_transform(list_sort({keyed})[1:{self.k}], lambda __x: {pair})"
        return Finish(sql=sql, type=_counts_type(value_type))

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: values and counts are compared exactly."""
        return None


@dataclass(frozen=True, slots=True)
class Quantile:
    """Value of rank ceil(q n), without nulls, truncated towards zero to the bound of its bucket.

    The result is too small in magnitude by at most `error`; whole numbers up to 1 / error are exact. The same records
    give the same result for any split.
    """

    expression: str
    q: float  # 0 to 1, at most six digits
    error: float = 0.01  # relative, in magnitude

    @property
    def bits(self) -> int:
        """Return b: a bucket is at most 2^-b wide, relative to its bound."""
        return math.ceil(math.log2(1 / self.error))

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:  # noqa: ARG002 -- every measure's signature
        """Return `<name>__buckets`: bucket numbers, in the order of their values, with their counts."""
        create = count_values_sql(f"sort_array({_buckets_sql(self.expression, self.bits)})")
        return (StateColumn(column=f"{name}__buckets", type=_counts_type("bigint"), create=create, merge="counts"),)

    def finish(self, name: str, value_type: str | None) -> Finish:  # noqa: ARG002 -- every measure's signature
        """Return the bound of the bucket that contains the rank, a double."""
        counts = f"{name}__buckets"
        n = f"list_sum(list_transform({counts}, lambda __x: __x['count']))"
        rank = f"greatest(({round(self.q * MILLION)} * {n} + {MILLION - 1}) // {MILLION}, 1)"
        start = f"{{'value': 0::BIGINT, 'count': CAST(-{rank} AS BIGINT)}}"
        more = "{'value': __x['value'], 'count': __a['count'] + __x['count']}"
        bucket = (
            f"list_reduce({counts}, lambda __a, __x: CASE WHEN __a['count'] >= 0 THEN __a ELSE {more} END, {start})"
        )
        width = 2**self.bits
        power = f"pow(2.0::DOUBLE, abs(__b) // {width} - {EXPONENT_BIAS})"
        bound = f"sign(__b) * {power} * (1 + (abs(__b) % {width})::DOUBLE / {width})"
        value = f"CASE WHEN __b = 0 THEN 0.0::DOUBLE ELSE {bound} END"
        return Finish(sql=f"list_transform([{bucket}['value']], lambda __b: {value})[1]", type="double")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return 0 between paths of one definition, and the error against an exact quantile."""
        return 0.0 if same_definition else self.error


@dataclass(frozen=True, slots=True)
class ApproxDistinct:
    """Number of distinct values without nulls: exact below k; above, the standard error is 1 / sqrt(k)."""

    expression: str
    k: int = 4096

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:  # noqa: ARG002 -- every measure's signature
        """Return `<name>__hashes`: the k smallest distinct hashes (xxHash64, seed 42), ascending."""
        hashes = f"collect_set(IF(({self.expression}) IS NULL, NULL, xxhash64({self.expression})))"
        create = f"slice(sort_array({hashes}), 1, {self.k})"
        return (
            StateColumn(
                column=f"{name}__hashes", type="array<bigint>", create=create, merge="smallest", max_entries=self.k
            ),
        )

    def finish(self, name: str, value_type: str | None) -> Finish:  # noqa: ARG002 -- every measure's signature
        """Return the estimate, a bigint: (k - 1) / theta, where theta is the k-th smallest hash as a share of all."""
        count = f"coalesce(len({name}__hashes), 0)"
        theta = f"({name}__hashes[{self.k}]::HUGEINT + {HASH_BIAS})"
        estimate = f"({(self.k - 1) * HASHES}::HUGEINT // {theta})"
        return Finish(
            sql=f"CAST(CASE WHEN {count} < {self.k} THEN {count} ELSE {estimate} END AS BIGINT)", type="bigint"
        )

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None between paths of one definition, and the bound of the estimate against the true number."""
        return None if same_definition else SIGMAS / self.k**0.5


def count_values_sql(values: str) -> str:
    """Return Spark SQL for the distinct values of a sorted list and their counts, in one pass over it."""
    run_starts = "filter(transform(s, (v, i) -> i), i -> i = 0 OR get(s, i) <> get(s, i - 1))"
    count = "CAST(coalesce(get(b, n + 1), size(s)) - p AS bigint)"
    pairs = f"transform(b, (p, n) -> named_struct('value', get(s, p), 'count', {count}))"
    return f"get(transform(array({values}), s -> get(transform(array({run_starts}), b -> {pairs}), 0)), 0)"


def _counts_type(value_type: str | None) -> str:
    return f"array<struct<value:{value_type},count:bigint>>"


def _buckets_sql(expression: str, bits: int) -> str:
    """Return Spark SQL for the list of the values' buckets.

    A logarithm may miss the exponent by one; a comparison with exact powers corrects it. `least` prevents an infinity,
    which the expression of a failed row can yield, from raising.
    """
    power = "least(floor(log2(abs(v))), 2000L)"
    estimated = f"transform(collect_list(CAST({expression} AS double)), v -> named_struct('v', v, 'e', {power}))"
    correction = "CASE WHEN abs(r.v) < pow(2D, r.e) THEN -1L WHEN abs(r.v) >= pow(2D, r.e + 1) THEN 1L ELSE 0L END"
    corrected = f"transform({estimated}, r -> named_struct('v', r.v, 'e', r.e + {correction}))"
    fraction = f"floor((abs(r.v) / pow(2D, r.e) - 1D) * {2**bits}D)"
    bucket = f"IF(r.v > 0D, 1L, -1L) * ((r.e + {EXPONENT_BIAS}L) * {2**bits}L + {fraction})"
    return f"transform({corrected}, r -> IF(r.v = 0D, 0L, {bucket}))"
