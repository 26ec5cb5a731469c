"""Constructs of a query plan on which a stream and a batch differ.

A plan is given as plain values, which the readers of plans produce.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.parity import rules
from cutover.parity.rules import Construct

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

_CHECKED_FUNCTIONS = (
    rules.CLOCK | rules.RANDOM | rules.ORDER | rules.ORDER_INSENSITIVE | rules.TIME_ZONE | rules.MOMENTS
)
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


Finding = tuple[int, Construct, str]
"""Line, construct and subject of a finding."""

AGGREGATES = frozenset({"Aggregate", "StateStoreSave", "SessionWindowStateStoreSave"})
DEDUPLICATIONS = frozenset(
    {
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "StreamingDeduplicate",
        "StreamingDeduplicateWithinWatermark",
        "Distinct",
    }
)
JOINS = frozenset({"Join", "StreamingSymmetricHashJoin"})
LIMITS = frozenset({"GlobalLimit", "StreamingGlobalLimit", "CollectLimit", "Tail"})
STATE_FUNCTION = re.compile(r"^(FlatMapGroups.*WithState|TransformWithState.*|FlatMapGroupsInPandasWithState)$")
ORDER_PRESERVING = frozenset({"LocalLimit", "Project", "SubqueryAlias", "Exchange", "Filter", "Offset"})
RANK_FUNCTIONS = frozenset(
    {"row_number", "rownumber", "first", "first_value", "last", "last_value", "lag", "lead", "nthvalue"}
)
EVENT_TIME = frozenset({"precisetimestampconversion", "window", "timewindow", "session_window", "sessionwindow"})
EVENT_DAYS = frozenset({"date_trunc", "to_date"})
NO_CLEANUP = "state cleanup [ left = null, right = null ]"
WATERMARKED_COLUMN = re.compile(r"-T\d+ms")
"""Suffix of a column with a watermark in a printed plan."""

INEQUALITY = re.compile(r"[<>]")


def list_plan_findings(nodes: Sequence[PlanNode], *, has_time_zone: bool) -> Iterator[Finding]:
    """Yield the findings of a plan, in the order of its operators.

    Args:
        nodes: Operators, each before its descendants.
        has_time_zone: True if the job set the session's time zone.
    """
    streaming = find_streaming_indexes(nodes)
    for index, node in enumerate(nodes):
        yield from _list_call_findings(node, has_time_zone=has_time_zone)
        yield from _list_row_findings(nodes, index)
        if index in streaming:
            yield from _list_stream_findings(nodes, index, streaming)


def _list_call_findings(node: PlanNode, *, has_time_zone: bool) -> Iterator[Finding]:
    for call in node.calls:
        if call.name in rules.CLOCK and call.name != "unix_timestamp":
            yield node.line, Construct.CLOCK, call.name
        elif call.name in rules.ORDER or (call.is_aggregate and not call.is_deterministic):
            yield from _list_order_findings(node, call)
        elif call.sums_float:
            yield node.line, Construct.FLOAT_SUM, f"{call.name} of a double"
        elif call.impure_call:
            yield node.line, Construct.UDF, f"{call.name} calls {call.impure_call}"
        elif call.needs_zone and not has_time_zone:
            yield node.line, Construct.TIME_ZONE, call.name
        elif call.name in rules.RANDOM or not call.is_deterministic:
            yield node.line, Construct.RANDOM, call.name


def _list_order_findings(node: PlanNode, call: PlanCall) -> Iterator[Finding]:
    """Yield an aggregate over unordered rows, unless its list is immediately sorted or only counted."""
    outer = node.calls[call.parent].name if call.parent != NO_PARENT else ""
    if node.name != "Window" and outer not in rules.ORDER_INSENSITIVE and "within group" not in node.text.lower():
        yield node.line, Construct.ORDER, call.name


def _list_row_findings(nodes: Sequence[PlanNode], index: int) -> Iterator[Finding]:
    """Check operators that select some of the rows, streaming or not."""
    node = nodes[index]
    if node.name == "Sample":
        yield node.line, Construct.RANDOM, "tablesample"
    elif node.name in LIMITS and not node.name.startswith("Streaming") and not _is_ordered(nodes, index):
        yield node.line, Construct.LIMIT, "limit"
    elif node.name == "Window" and not {column.lower() for column in node.order} & rules.POSITION_COLUMNS:
        for number in sorted({call.name for call in node.calls} & RANK_FUNCTIONS):
            yield node.line, Construct.TIES, "row_number" if number == "rownumber" else number
    elif node.keeps_arbitrary_row:
        yield node.line, Construct.ORDER, "dropDuplicates of some columns"


def _is_ordered(nodes: Sequence[PlanNode], index: int) -> bool:
    """Return whether rows are sorted before they are limited."""
    for descendant in list_descendants(nodes, index):
        if nodes[descendant].name not in ORDER_PRESERVING:
            return nodes[descendant].name == "TakeOrderedAndProject" or _is_sort(nodes[descendant])
    return False


def _is_sort(node: PlanNode) -> bool:
    """Return whether a node sorts all rows, not only those within each partition."""
    return node.name == "Sort" and ", false" not in node.text


def _list_stream_findings(nodes: Sequence[PlanNode], index: int, streaming: frozenset[int]) -> Iterator[Finding]:
    node = nodes[index]
    descendants = [nodes[descendant] for descendant in list_descendants(nodes, index)]
    if node.name == "EventTimeWatermark":
        reason = _explain_idle(nodes, index, streaming)
        if reason is not None:
            yield node.line, Construct.IDLE_WATERMARK if reason else Construct.WATERMARK, "withWatermark" + reason
    elif node.name in DEDUPLICATIONS:
        yield node.line, Construct.DEDUP, "dropDuplicates"
    elif _is_sort(node):
        yield node.line, Construct.OUTPUT_MODE, "sort of a stream, in complete mode only"
    elif node.name in LIMITS and (node.name.startswith("Streaming") or _is_ordered(nodes, index)):
        yield node.line, Construct.LIMIT, "limit of a stream"
    yield from _list_option_findings(node)
    yield from _list_state_findings(nodes, index, streaming, descendants)


def _explain_idle(nodes: Sequence[PlanNode], index: int, streaming: frozenset[int]) -> str | None:
    """Return why a watermark drops nothing; empty if it may drop rows, None without state after it."""
    stateful_indexes = [
        n for n, _ in enumerate(nodes) if index in list_descendants(nodes, n) and _is_stateful(nodes, n, streaming)
    ]
    if not stateful_indexes:
        return None
    if not any("[" in nodes[parent].text for parent in stateful_indexes):
        return ""  # JSON does not show which column has the watermark
    for parent in stateful_indexes:
        between = (nodes[descendant] for descendant in (parent, *list_descendants(nodes, parent)))
        names = {call.name for node in between for call in node.calls}
        if nodes[parent].name not in AGGREGATES or names & EVENT_TIME or WATERMARKED_COLUMN.search(nodes[parent].text):
            return ""
    return ": no event time in the grouping"


def _list_option_findings(node: PlanNode) -> Iterator[Finding]:
    """Check the options of a source and a sink, where Spark prints them."""
    options = node.text.lower()
    if node.name.startswith("StreamingRelation") and "startingoffsets=latest" in options:
        yield node.line, Construct.OFFSETS, "startingOffsets latest"
    if node.name.startswith("StreamingRelation") and "failondataloss=false" in options:
        yield node.line, Construct.DATA_LOSS, "failOnDataLoss false"
    mode = re.search(r", (Complete|Update)\b", node.text) if node.name == "StateStoreSave" else None
    if mode:
        yield node.line, Construct.OUTPUT_MODE, f"outputMode({mode[1].lower()})"


def _list_state_findings(
    nodes: Sequence[PlanNode], index: int, streaming: frozenset[int], descendants: Sequence[PlanNode]
) -> Iterator[Finding]:
    """Check stateful operators: one after another, or one whose state is never removed."""
    node = nodes[index]
    if not _is_stateful(nodes, index, streaming):
        return
    has_watermark = any(descendant.name == "EventTimeWatermark" for descendant in descendants)
    stateful_descendants = [
        descendant for descendant in list_descendants(nodes, index) if _is_stateful(nodes, descendant, streaming)
    ]
    if stateful_descendants:
        yield node.line, Construct.CHAINED, f"{node.name} after {nodes[stateful_descendants[0]].name}"
    names = {call.name for operator in (node, *descendants) for call in operator.calls}
    if node.name in AGGREGATES and not has_watermark and names & (EVENT_TIME | EVENT_DAYS):
        yield node.line, Construct.UNBOUNDED, "windows without withWatermark"
    if node.name in JOINS and not (has_watermark and _is_bounded(node)):
        yield node.line, Construct.UNBOUNDED, "join of streams without a bound in time"


def _is_stateful(nodes: Sequence[PlanNode], index: int, streaming: frozenset[int]) -> bool:
    name = nodes[index].name
    if index not in streaming:
        return False
    if name in JOINS:
        return (
            sum(
                nodes[descendant].parent == index and descendant in streaming
                for descendant in list_descendants(nodes, index)
            )
            > 1
        )
    return name in AGGREGATES | DEDUPLICATIONS or STATE_FUNCTION.match(name) is not None


def _is_bounded(node: PlanNode) -> bool:
    """Return whether the condition of a stream-stream join bounds time, so that buffered rows are removed."""
    if node.name == "StreamingSymmetricHashJoin":
        return NO_CLEANUP not in node.text
    return INEQUALITY.search(node.text) is not None or bool(
        {"bounded", "between", *EVENT_TIME} & {call.name for call in node.calls}
    )
