"""What a plan holds on which a stream and a batch cannot agree."""

import re
from collections.abc import Iterator, Sequence

from cutover.parity import sql
from cutover.parity.plans.model import ROOT, PlanCall, PlanNode, find_streaming, list_under
from cutover.parity.rules import Construct

Found = tuple[int, Construct, str]
"""Line, construct, and what it is."""

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
OWN_STATE = re.compile(r"^(FlatMapGroups.*WithState|TransformWithState.*|FlatMapGroupsInPandasWithState)$")
THROUGH = frozenset({"LocalLimit", "Project", "SubqueryAlias", "Exchange", "Filter", "Offset"})
NUMBERS = frozenset(
    {"row_number", "rownumber", "first", "first_value", "last", "last_value", "lag", "lead", "nthvalue"}
)
EVENT_TIME = frozenset({"precisetimestampconversion", "window", "timewindow", "session_window", "sessionwindow"})
EVENT_DAYS = frozenset({"date_trunc", "to_date"})
NO_CLEANUP = "state cleanup [ left = null, right = null ]"
MARKED = re.compile(r"-T\d+ms")
"""How Spark prints a column that has a watermark."""

BOUND = re.compile(r"[<>]")


def judge(nodes: Sequence[PlanNode], *, has_zone: bool) -> Iterator[Found]:
    """Yield what is found in a plan, in the order of its operators.

    Args:
        nodes: Each before those below it.
        has_zone: Whether the session's time zone was set by the job.
    """
    streaming = find_streaming(nodes)
    for place, node in enumerate(nodes):
        yield from _judge_calls(node, has_zone=has_zone)
        yield from _judge_rows(nodes, place)
        if place in streaming:
            yield from _judge_stream(nodes, place, streaming)


def _judge_calls(node: PlanNode, *, has_zone: bool) -> Iterator[Found]:
    for call in node.calls:
        if call.name in sql.CLOCK and call.name != "unix_timestamp":
            yield node.line, Construct.CLOCK, call.name
        elif call.name in sql.ORDER or (call.is_aggregate and not call.is_deterministic):
            yield from _judge_order(node, call)
        elif call.sums_float:
            yield node.line, Construct.FLOAT_SUM, f"{call.name} of a double"
        elif call.impure:
            yield node.line, Construct.UDF, f"{call.name} calls {call.impure}"
        elif call.needs_zone and not has_zone:
            yield node.line, Construct.TIME_ZONE, call.name
        elif call.name in sql.RANDOM or not call.is_deterministic:
            yield node.line, Construct.RANDOM, call.name


def _judge_order(node: PlanNode, call: PlanCall) -> Iterator[Found]:
    """Yield an aggregate whose rows have no order, unless its list is sorted or only counted where it stands."""
    outer = node.calls[call.above].name if call.above != ROOT else ""
    if node.name != "Window" and outer not in sql.SORTS and "within group" not in node.text.lower():
        yield node.line, Construct.ORDER, call.name


def _judge_rows(nodes: Sequence[PlanNode], place: int) -> Iterator[Found]:
    """Look at operators that choose among rows, of a stream or not."""
    node = nodes[place]
    if node.name == "Sample":
        yield node.line, Construct.RANDOM, "tablesample"
    elif node.name in LIMITS and not node.name.startswith("Streaming") and not _is_ordered(nodes, place):
        yield node.line, Construct.LIMIT, "limit"
    elif node.name == "Window" and not {column.lower() for column in node.order} & sql.POSITION:
        for number in sorted({call.name for call in node.calls} & NUMBERS):
            yield node.line, Construct.TIES, "row_number" if number == "rownumber" else number
    elif node.keeps_any:
        yield node.line, Construct.ORDER, "dropDuplicates of some columns"


def _is_ordered(nodes: Sequence[PlanNode], place: int) -> bool:
    """Return whether rows are sorted before they are limited."""
    for below in list_under(nodes, place):
        if nodes[below].name not in THROUGH:
            return nodes[below].name == "TakeOrderedAndProject" or _is_sort(nodes[below])
    return False


def _is_sort(node: PlanNode) -> bool:
    """Return whether all rows are sorted, and not those of each partition."""
    return node.name == "Sort" and ", false" not in node.text


def _judge_stream(nodes: Sequence[PlanNode], place: int, streaming: frozenset[int]) -> Iterator[Found]:
    node = nodes[place]
    below = [nodes[under] for under in list_under(nodes, place)]
    if node.name == "EventTimeWatermark":
        reason = _explain_idle(nodes, place, streaming)
        if reason is not None:
            yield node.line, Construct.IDLE_WATERMARK if reason else Construct.WATERMARK, "withWatermark" + reason
    elif node.name in DEDUPLICATIONS:
        yield node.line, Construct.DEDUP, "dropDuplicates"
    elif _is_sort(node):
        yield node.line, Construct.OUTPUT_MODE, "sort of a stream, in complete mode only"
    elif node.name in LIMITS and (node.name.startswith("Streaming") or _is_ordered(nodes, place)):
        yield node.line, Construct.LIMIT, "limit of a stream"
    yield from _judge_options(node)
    yield from _judge_state(nodes, place, streaming, below)


def _explain_idle(nodes: Sequence[PlanNode], place: int, streaming: frozenset[int]) -> str | None:
    """Return why a watermark drops nothing; empty if it may drop rows, None if there is no state behind it."""
    behind = [n for n, _ in enumerate(nodes) if place in list_under(nodes, n) and _is_stateful(nodes, n, streaming)]
    if not behind:
        return None
    if not any("[" in nodes[parent].text for parent in behind):
        return ""  # JSON does not tell which column has the watermark
    for parent in behind:
        between = (nodes[under] for under in (parent, *list_under(nodes, parent)))
        names = {call.name for node in between for call in node.calls}
        if nodes[parent].name not in AGGREGATES or names & EVENT_TIME or MARKED.search(nodes[parent].text):
            return ""
    return ": no event time in the grouping"


def _judge_options(node: PlanNode) -> Iterator[Found]:
    """Look at what a source and a sink were given, where Spark prints it."""
    options = node.text.lower()
    if node.name.startswith("StreamingRelation") and "startingoffsets=latest" in options:
        yield node.line, Construct.OFFSETS, "startingOffsets latest"
    if node.name.startswith("StreamingRelation") and "failondataloss=false" in options:
        yield node.line, Construct.DATA_LOSS, "failOnDataLoss false"
    mode = re.search(r", (Complete|Update)\b", node.text) if node.name == "StateStoreSave" else None
    if mode:
        yield node.line, Construct.OUTPUT_MODE, f"outputMode({mode[1].lower()})"


def _judge_state(
    nodes: Sequence[PlanNode], place: int, streaming: frozenset[int], below: Sequence[PlanNode]
) -> Iterator[Found]:
    """Look at operators that keep state: one behind another, or one that never lets go."""
    node = nodes[place]
    has_watermark = any(node.name == "EventTimeWatermark" for node in below)
    if not _is_stateful(nodes, place, streaming):
        return
    lower = [under for under in list_under(nodes, place) if _is_stateful(nodes, under, streaming)]
    if lower:
        yield node.line, Construct.CHAINED, f"{node.name} after {nodes[lower[0]].name}"
    names = {call.name for one in (node, *below) for call in one.calls}
    if node.name in AGGREGATES and not has_watermark and names & (EVENT_TIME | EVENT_DAYS):
        yield node.line, Construct.UNBOUNDED, "windows without withWatermark"
    if node.name in JOINS and not (has_watermark and _is_bounded(node)):
        yield node.line, Construct.UNBOUNDED, "join of streams without a bound in time"


def _is_stateful(nodes: Sequence[PlanNode], place: int, streaming: frozenset[int]) -> bool:
    name = nodes[place].name
    if place not in streaming:
        return False
    if name in JOINS:
        return sum(nodes[under].above == place and under in streaming for under in list_under(nodes, place)) > 1
    return name in AGGREGATES | DEDUPLICATIONS or OWN_STATE.match(name) is not None


def _is_bounded(node: PlanNode) -> bool:
    """Return whether a join of streams lets rows go: a comparison, or windows or times that must be equal."""
    if node.name == "StreamingSymmetricHashJoin":
        return NO_CLEANUP not in node.text
    return BOUND.search(node.text) is not None or bool(
        {"bounded", "between", *EVENT_TIME} & {call.name for call in node.calls}
    )
