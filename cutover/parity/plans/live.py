"""The plan of a DataFrame at hand, read in Spark itself: with types, and with what Spark knows to be deterministic."""

from typing import Any

from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.plans import functions
from cutover.parity.plans.model import FLOAT, ROOT, PlanCall, PlanNode, name_function

ALL_FIELDS = 10_000
"""Of a list that Spark prints; it would leave out all behind 25."""

ZONED = frozenset({"date_trunc", "hour", "minute", "date_format", "to_date"})
"""Functions that go by the session's time zone if they are given a time."""

WRAPPERS = frozenset({"AggregateExpression", "Alias", "AttributeReference", "Literal", "WindowExpression"})
SUBQUERIES = frozenset({"ScalarSubquery", "ListQuery", "Exists", "LateralSubquery"})
COMPARISONS = frozenset({"LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"})
TIMES = ("timestamp", "date", "struct<start:")
TYPED = ZONED | {"cast", "equalto", "sum", "avg"}
"""Functions that are judged by the types of their arguments."""


def read_live(frame: Any) -> tuple[PlanNode, ...]:
    """Return the operators of a DataFrame's analysed plan, each before those below it.

    Raises:
        DefinitionError: It is no DataFrame of a Spark in this process, such as one of Spark Connect.
    """
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        msg = (
            f"expected a DataFrame of a Spark in this process, got {type(frame).__module__}.{type(frame).__name__}; "
            'of Spark Connect give the text of explain("extended") to `cutover parity --plan FILE`.'
        )
        raise DefinitionError(msg)
    waiting = [(plan.queryExecution().analyzed(), ROOT)]
    nodes: list[PlanNode] = []
    while waiting:
        tree, parent = waiting.pop()
        calls, plans = _read_calls(tree)
        nodes.append(_make_node(tree, parent, len(nodes) + 1, calls))
        below = [*_list(tree.children()), *plans]
        waiting.extend((node, len(nodes) - 1) for node in reversed(below))
    return tuple(nodes)


def has_zone(frame: Any) -> bool:
    """Return whether a job set the time zone of a DataFrame's session."""
    return bool(frame._jdf.sparkSession().sessionState().conf().contains("spark.sql.session.timeZone"))  # noqa: SLF001 -- PySpark has no other way


def _list(values: Any) -> list[Any]:
    """Return what a Scala sequence holds."""
    return [values.apply(place) for place in range(values.size())]


def _make_node(tree: Any, parent: int, number: int, calls: tuple[PlanCall, ...]) -> PlanNode:
    name = str(tree.nodeName())
    order = (
        [str(node.name()) for part in _list(tree.orderSpec()) for node in _list(part.references().toSeq())]
        if (name == "Window")
        else []
    )
    is_streaming = bool(tree.isStreaming())
    return PlanNode(
        line=number,
        name=name,
        text=str(tree.simpleString(ALL_FIELDS)),
        above=parent,
        calls=calls,
        order=frozenset(order),
        is_streaming=is_streaming,
        keeps_any=name == "Deduplicate" and not is_streaming and tree.keys().size() < tree.child().output().size(),
    )


def _read_calls(tree: Any) -> tuple[tuple[PlanCall, ...], list[Any]]:
    """Return the functions of an operator, and the plans of its subqueries."""
    calls: list[PlanCall] = []
    plans: list[Any] = []
    is_join = str(tree.nodeName()) == "Join"
    waiting = [(node, ROOT, "") for node in reversed(_list(tree.expressions()))]
    while waiting:
        expression, parent, wrapper = waiting.pop()
        name = str(expression.nodeName())
        below = _list(expression.children())
        if name in SUBQUERIES:  # judged by their plans
            plans.append(expression.plan())
            continue
        place = parent
        if name not in WRAPPERS:
            calls.append(_make_call(expression, name, parent, wrapper, is_join=is_join))
            place = len(calls) - 1
        waiting.extend((node, place, name) for node in reversed(below))
    return tuple(calls), plans


def _make_call(expression: Any, name: str, parent: int, wrapper: str, *, is_join: bool) -> PlanCall:
    below = _list(expression.children())
    called = name_function(name)
    types = [str(node.dataType().simpleString()) for node in below] if called in TYPED else []
    is_bound = is_join and (
        name in COMPARISONS or (name == "EqualTo" and any(type_.startswith(TIMES) for type_ in types))
    )
    is_udf = "UDF" in name
    impure = functions.find_impure(expression) if is_udf else ""
    own = not expression.deterministic() and all(node.deterministic() for node in below)
    return PlanCall(
        name="bounded" if is_bound else str(expression.name()) if name == "PythonUDF" else called,
        above=parent,
        is_deterministic=not own,
        is_aggregate=wrapper == "AggregateExpression",
        sums_float=called in sql.MOMENTS or (called in {"sum", "avg"} and bool(types) and types[0] in FLOAT),
        needs_zone=_needs_zone(called, expression, types),
        impure=impure or ("what is said not to be deterministic" if is_udf and own else ""),
    )


def _needs_zone(name: str, expression: Any, types: list[str]) -> bool:
    if name == "cast":
        return types[:1] == ["timestamp"] and str(expression.dataType().simpleString()) in {"date", "string"}
    return name == "from_unixtime" or (name in ZONED and "timestamp" in types)
