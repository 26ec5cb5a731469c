"""Spark query plan as plain values, produced by the readers and checked by the rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.parity import sql

NO_PARENT = -1
"""Parent index of a plan's first operator, and of an outermost function."""

FLOAT = frozenset({"double", "float"})
"""Types whose sums depend on the order of rows, by Spark's names."""

DATES = frozenset({"month", "day", "dayofmonth", "trunc"})
"""Functions of a date; the time zone matters if their argument is a timestamp."""

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
"""SQL names of expression classes that Spark names differently."""

_CHECKED_FUNCTIONS = sql.CLOCK | sql.RANDOM | sql.ORDER | sql.ORDER_INSENSITIVE | sql.TIME_ZONE | sql.MOMENTS
NAMES: Mapping[str, str] = {name.replace("_", ""): name for name in sorted(_CHECKED_FUNCTIONS)} | RENAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCall:
    """Call of a function in an operator."""

    name: str  # name in SQL
    parent: int = NO_PARENT  # index, among the operator's calls, of the call whose argument this is
    is_deterministic: bool = True
    is_aggregate: bool = False
    sums_float: bool = False
    needs_zone: bool = False
    impure_call: str = ""  # call of a Python function that reads the clock, chance or another system


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """Operator of a plan; in a plan's sequence it precedes its descendants."""

    line: int  # line in the plan's text; else the operator's number, from 1
    name: str  # Spark's name, without the streaming mark
    text: str  # line that Spark prints
    parent: int = NO_PARENT  # index of the operator that reads from this one
    calls: tuple[PlanCall, ...] = ()  # an outer function before its arguments
    order: frozenset[str] = frozenset()  # columns in the ORDER BY of a window
    is_streaming: bool = False  # itself a streaming source; operators above it stream too
    keeps_arbitrary_row: bool = False  # deduplication that keeps columns outside its key


def name_function(name: str) -> str:
    """Return the SQL name of a function or expression class: `collect_list` for `CollectList`."""
    short_name = name.rstrip("$").lower()
    for prefix in ("partial_", "merge_"):
        short_name = short_name.removeprefix(prefix)
    return NAMES.get(short_name.replace("_", ""), short_name)


def list_descendants(nodes: Sequence[PlanNode], index: int) -> Iterator[int]:
    """Yield the indexes of all operators below one."""
    for descendant in range(index + 1, len(nodes)):
        if nodes[descendant].parent < index:
            return
        yield descendant


def find_streaming_indexes(nodes: Sequence[PlanNode]) -> frozenset[int]:
    """Return the indexes of streaming sources and of all operators above them."""
    streaming: set[int] = set()
    for index in reversed(range(len(nodes))):
        if nodes[index].is_streaming:
            streaming.add(index)
        if index in streaming and nodes[index].parent != NO_PARENT:
            streaming.add(nodes[index].parent)
    return frozenset(streaming)
