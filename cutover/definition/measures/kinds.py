"""The simple measures, those that depend on the order of records or on the distribution of values, and their union.

A measure is a few state columns, each with a Spark aggregate that computes it and a merge that DuckDB supports
(`states`). A measure that cannot be expressed so does not merge, and is not supported. Records are ordered by event
time, then by log position, so that the order is total.

`states` and `finish` take the measure's name and the type of its expression. `tolerance` returns the relative tolerance
of the result between two paths, which may run the same definition (`same_definition`; their states are compared, too).
None means that the type alone decides: exact for the same definition; for a team's SQL, doubles are compared
approximately.

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
from typing import ClassVar, Literal, get_args

from cutover.definition.measures import doubles
from cutover.definition.measures.doubles import Stddev, Variance
from cutover.definition.measures.states import Finish, Merge, StateColumn, compute_sum_type, is_float_type

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


POSITION_FIELDS = "event_time:timestamp,partition:int,offset:bigint"


def positioned_value_sql(expression: str) -> str:
    """Return Spark SQL for a struct of a record's position and its value; null if the value is null."""
    position = "'event_time', _event_time, 'partition', _partition, 'offset', _offset"
    return f"IF(({expression}) IS NULL, NULL, named_struct({position}, 'value', {expression}))"


@dataclass(frozen=True, slots=True)
class First:
    """Value of the earliest record whose value is not null; for equal event times, of the lowest log position."""

    expression: str
    function: ClassVar[Literal["min", "max"]] = "min"

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__at`: event time, partition and offset of the selected record, and its value."""
        create = f"{self.function}({positioned_value_sql(self.expression)})"
        kind = f"struct<{POSITION_FIELDS},value:{value_type}>"
        return (StateColumn(column=f"{name}__at", type=kind, create=create, merge=self.function),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Extract the value of the selected record from the struct."""
        return Finish(sql=f"struct_extract({name}__at, 'value')", type=value_type or "string")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Last(First):
    """Value of the latest record whose value is not null; for equal event times, of the highest log position."""

    function: ClassVar[Literal["min", "max"]] = "max"


@dataclass(frozen=True, slots=True)
class Bag:
    """List of the earliest values without nulls, at most `most` of them, by event time and log position. Exact."""

    expression: str
    most: int = 1000

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__rows`: event time, partition, offset and value of each record, in order."""
        create = f"slice(sort_array(collect_list({positioned_value_sql(self.expression)})), 1, {self.most})"
        kind = f"array<struct<{POSITION_FIELDS},value:{value_type}>>"
        return (StateColumn(column=f"{name}__rows", type=kind, create=create, merge="earliest", max_entries=self.most),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Return the list of values, with repetitions; null if there are none."""
        values = f"list_transform({name}__rows, lambda __x: __x['value'])"
        return Finish(sql=f"CASE WHEN len({name}__rows) > 0 THEN {values} END", type=f"array<{value_type}>")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: bags are compared exactly."""
        return None


@dataclass(frozen=True, slots=True)
class Count:
    """Number of records. Exact."""

    @property
    def expression(self) -> None:
        """Return None: a count reads no column."""

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:  # noqa: ARG002 -- every measure's signature
        """Return one bigint column, named like the measure."""
        return (StateColumn(column=name, type="bigint", create="count(1)", merge="sum"),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of an expression without nulls; null if all values are null. Exact; for doubles the nearest double."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return one column: decimal(38,0) for integers, decimal(38,s) for decimal(p,s), digits for doubles."""
        return (_make_sum_state(name, f"{name}__digits", self.expression, value_type),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:
        """Return None, since the state is the result; for doubles, the total of the digits."""
        return Finish(sql=doubles.total_sql(f"{name}__digits"), type="double") if is_float_type(value_type) else None

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Min:
    """Smallest value of an expression without nulls. Exact."""

    expression: str
    function: ClassVar[Merge] = "min"

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return one column of the expression's own type."""
        create = f"{self.function}({self.expression})"
        return (StateColumn(column=name, type=value_type or "string", create=create, merge=self.function),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Max(Min):
    """Largest value of an expression without nulls. Exact."""

    function: ClassVar[Merge] = "max"


@dataclass(frozen=True, slots=True)
class Avg:
    """Mean of an expression, from sum and count: the state is exact, the result a double."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__sum` (typed as in `Sum`; for doubles `<name>__digits`) and `<name>__count` (bigint)."""
        count = StateColumn(column=f"{name}__count", type="bigint", create=f"count({self.expression})", merge="sum")
        return (_make_sum_state(f"{name}__sum", f"{name}__digits", self.expression, value_type), count)

    def finish(self, name: str, value_type: str | None) -> Finish | None:
        """Return sum divided by count; null if the count is 0."""
        total = doubles.total_sql(f"{name}__digits") if is_float_type(value_type) else f"cast({name}__sum as double)"
        return Finish(sql=f"({total}) / nullif({name}__count, 0)", type="double")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared as a double."""
        return None


def _make_sum_state(exact_column: str, digits_column: str, expression: str, value_type: str | None) -> StateColumn:
    """Make the state of a sum: digits for doubles, a decimal for exact numbers."""
    if is_float_type(value_type):
        return doubles.make_state(digits_column, expression)
    kind = compute_sum_type(value_type)
    return StateColumn(column=exact_column, type=kind, create=f"sum(cast({expression} as {kind}))", merge="sum")


Measure = Count | Sum | Min | Max | Avg | Variance | Stddev | First | Last | TopK | Quantile | ApproxDistinct | Bag

MEASURE_NAMES = ", ".join(kind.__name__ for kind in get_args(Measure))
