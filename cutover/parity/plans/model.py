"""A plan of Spark's in plain values: what its readers make, and the rules look at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.parity import sql

ROOT = -1
"""What is above a plan's first operator, and above an outermost function."""

FLOAT = frozenset({"double", "float"})
"""Types whose sums depend on the order of rows, by Spark's names."""

DATES = frozenset({"month", "day", "dayofmonth", "trunc"})
"""Functions of a date: the time zone matters where a time is made one."""

RENAMED = {
    "approximatepercentile": "percentile_approx",
    "average": "avg",
    "dateformatclass": "date_format",
    "dayofmonth": "day",
    "parsetodate": "to_date",
    "trunctimestamp": "date_trunc",
    "currentbatchtimestamp": "current_timestamp",
    "stddevsamp": "stddev",
    "variancesamp": "variance",
}
"""Classes of Spark's that are called otherwise in SQL."""

_KNOWN = sql.CLOCK | sql.RANDOM | sql.ORDER | sql.SORTS | sql.TIME_ZONE | sql.MOMENTS
NAMES: Mapping[str, str] = {name.replace("_", ""): name for name in sorted(_KNOWN)} | RENAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCall:
    """A function in an operator."""

    name: str  # as SQL calls it
    above: int = ROOT  # place among the operator's functions of the one it is an argument of
    is_deterministic: bool = True
    is_aggregate: bool = False
    sums_float: bool = False
    needs_zone: bool = False
    impure: str = ""  # what a function of Python's asks, if that can be told


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """An operator; in a plan it stands before all that is below it."""

    line: int  # of the plan's text; else its number, from 1
    name: str  # as Spark calls it, without the mark of a stream
    text: str  # as Spark prints it
    above: int = ROOT  # place of the operator that reads from it
    calls: tuple[PlanCall, ...] = ()  # an outer function before those inside it
    order: frozenset[str] = frozenset()  # of a window: columns it is ordered by
    is_streaming: bool = False  # by itself; what reads from a stream is one too
    keeps_any: bool = False  # of a deduplication: columns that are no part of its key remain


def name_function(name: str) -> str:
    """Return what SQL calls a function or a class of Spark's: `collect_list` of `CollectList`."""
    bare = name.rstrip("$").lower()
    for prefix in ("partial_", "merge_"):
        bare = bare.removeprefix(prefix)
    return NAMES.get(bare.replace("_", ""), bare)


def list_under(nodes: Sequence[PlanNode], place: int) -> Iterator[int]:
    """Yield the places of all operators below one."""
    for below in range(place + 1, len(nodes)):
        if nodes[below].above < place:
            return
        yield below


def find_streaming(nodes: Sequence[PlanNode]) -> frozenset[int]:
    """Return the places of the operators that read from a stream."""
    streaming: set[int] = set()
    for place in reversed(range(len(nodes))):
        if nodes[place].is_streaming:
            streaming.add(place)
        if place in streaming and nodes[place].above != ROOT:
            streaming.add(nodes[place].above)
    return frozenset(streaming)
