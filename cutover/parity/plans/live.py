"""Reader of a DataFrame's analyzed plan inside Spark: with types, and with Spark's knowledge of determinism.

`check_frame(df)` checks a plan inside a job before it runs. Impure calls of Python functions are found in bytecode.
"""

import dis
import pickle
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from cutover.errors import DefinitionError
from cutover.parity import rules
from cutover.parity.plans.findings import (
    FLOAT,
    NO_PARENT,
    Finding,
    PlanCall,
    PlanNode,
    list_plan_findings,
    name_function,
)
from cutover.parity.plans.printed import parse_plan_json, read_printed
from cutover.parity.rules import ParityFinding, is_clock, is_external_service, is_random

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame


def check_frame(frame: "DataFrame", name: str = "plan") -> tuple[ParityFinding, ...]:
    """Return the constructs of a DataFrame's plan on which stream and batch differ; nothing is executed.

    The analyzed plan is read, with types, with Spark's own knowledge of non-deterministic expressions, and with the
    code of Python functions. It does not contain the writer: output mode, checkpoint and sink.

    Args:
        frame: DataFrame of a Spark session in this process, streaming or not.
        name: Name of the plan in findings; their line is the operator's number in the plan, from the top.

    Raises:
        DefinitionError: The value is not such a DataFrame.
    """
    return _collect(list_plan_findings(read_live(frame), has_time_zone=has_time_zone(frame)), name)


def check_text(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a printed plan on which stream and batch differ.

    Args:
        text: Output of `df.explain("extended")` or `df.explain("formatted")`, or `queryExecution.logical.toJSON`.
        file: Name of the file in findings.

    Raises:
        DefinitionError: The text is not a plan, lacks the needed sections, or was truncated by Spark.
    """
    nodes = parse_plan_json(text, file) if text.lstrip().startswith(("[", "{")) else read_printed(text, file)
    return _collect(list_plan_findings(nodes, has_time_zone=False), file)


def _collect(findings: "Iterable[Finding]", file: str) -> tuple[ParityFinding, ...]:
    """Return each finding once; of an operator that a physical plan splits in two, the first half counts."""
    findings_by_subject: dict[tuple[object, str], ParityFinding] = {}
    for line, construct, subject in findings:
        findings_by_subject.setdefault(
            (construct, subject), ParityFinding(file=file, line=line, construct=construct, subject=subject)
        )
    return tuple(sorted(findings_by_subject.values()))


ALL_FIELDS = 10_000
"""Maximum number of fields in a printed list; Spark's default truncates after 25."""

ZONED = frozenset({"date_trunc", "hour", "minute", "date_format", "to_date"})
"""Functions of a timestamp that depend on the session's time zone."""

WRAPPERS = frozenset({"AggregateExpression", "Alias", "AttributeReference", "Literal", "WindowExpression"})
SUBQUERIES = frozenset({"ScalarSubquery", "ListQuery", "Exists", "LateralSubquery"})
COMPARISONS = frozenset({"LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"})
TIMES = ("timestamp", "date", "struct<start:")
TYPED = ZONED | {"cast", "equalto", "sum", "avg"}
"""Functions whose check needs the types of their arguments."""


def find_impure_call(expression: Any) -> str:
    """Find a call in a plan's function that reads the clock, chance or another system; empty if there is none.

    Args:
        expression: Spark expression of a function pickled by this process; its code is inspected, not run.
    """
    try:
        command = bytes(expression.func().command().toArray(_find_byte_tag()))
        unpickled = pickle.loads(command)  # noqa: S301 -- pickled by this same process
    except Exception:  # noqa: BLE001 -- another language, too large, or no longer available: nothing is known then
        return ""
    function = unpickled[0] if isinstance(unpickled, tuple) else unpickled
    return next(_list_impure_calls(function), "") if isinstance(function, FunctionType) else ""


def _find_byte_tag() -> Any:
    """Return the class tag with which Scala makes an array of bytes."""
    from pyspark import SparkContext  # noqa: PLC0415 -- texts of plans are read without Spark

    return SparkContext._jvm.scala.reflect.ClassTag.Byte()  # type: ignore[union-attr]  # noqa: SLF001 -- there is no other way


def _list_impure_calls(function: FunctionType) -> Iterator[str]:
    for path in _list_paths(function.__code__, function.__globals__):
        if is_clock(path) or is_random(path) or is_external_service(path):
            yield path.rpartition(".")[2]


def _list_paths(code: CodeType, names: Mapping[str, object]) -> Iterator[str]:
    """Yield the dotted path of each global name with its attributes that code uses, inner functions included."""
    path = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield path
            path = _get_dotted_path(names.get(str(instruction.argval)), str(instruction.argval))
        elif instruction.opname in {"LOAD_ATTR", "LOAD_METHOD"} and path:
            path = f"{path}.{instruction.argval}"
        elif path:
            yield path
            path = ""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _list_paths(inner, names)


def _get_dotted_path(value: object, name: str) -> str:
    """Return the dotted path of a module, a class, a function, or a method of a module-level object."""
    if isinstance(value, ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
    return f"{module}.{getattr(value, '__qualname__', name)}"


def read_live(frame: Any) -> tuple[PlanNode, ...]:
    """Return the operators of a DataFrame's analyzed plan, each before its descendants.

    Raises:
        DefinitionError: The value is not a DataFrame of a Spark session in this process; Spark Connect's is not.
    """
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        msg = (
            f"expected a DataFrame of a Spark session in this process, got {kind}; "
            'with Spark Connect, pass the text of explain("extended") to `cutover parity --plan FILE`.'
        )
        raise DefinitionError(msg)
    pending = [(plan.queryExecution().analyzed(), NO_PARENT)]
    nodes: list[PlanNode] = []
    while pending:
        tree, parent = pending.pop()
        calls, plans = _read_calls(tree)
        nodes.append(_make_node(tree, parent, len(nodes) + 1, calls))
        children = [*_convert_sequence(tree.children()), *plans]
        pending.extend((node, len(nodes) - 1) for node in reversed(children))
    return tuple(nodes)


def has_time_zone(frame: Any) -> bool:
    """Return whether a job set the time zone of a DataFrame's session."""
    return bool(frame._jdf.sparkSession().sessionState().conf().contains("spark.sql.session.timeZone"))  # noqa: SLF001 -- PySpark has no other way


def _convert_sequence(values: Any) -> list[Any]:
    """Return the items of a Scala sequence as a list."""
    return [values.apply(index) for index in range(values.size())]


def _make_node(tree: Any, parent: int, number: int, calls: tuple[PlanCall, ...]) -> PlanNode:
    name = str(tree.nodeName())
    order = (
        [
            str(node.name())
            for part in _convert_sequence(tree.orderSpec())
            for node in _convert_sequence(part.references().toSeq())
        ]
        if (name == "Window")
        else []
    )
    is_streaming = bool(tree.isStreaming())
    return PlanNode(
        line=number,
        name=name,
        text=str(tree.simpleString(ALL_FIELDS)),
        parent=parent,
        calls=calls,
        order=frozenset(order),
        is_streaming=is_streaming,
        keeps_arbitrary_row=name == "Deduplicate"
        and not is_streaming
        and tree.keys().size() < tree.child().output().size(),
    )


def _read_calls(tree: Any) -> tuple[tuple[PlanCall, ...], list[Any]]:
    """Return the functions of an operator, and the plans of its subqueries."""
    calls: list[PlanCall] = []
    plans: list[Any] = []
    is_join = str(tree.nodeName()) == "Join"
    pending = [(node, NO_PARENT, "") for node in reversed(_convert_sequence(tree.expressions()))]
    while pending:
        expression, parent, wrapper = pending.pop()
        name = str(expression.nodeName())
        children = _convert_sequence(expression.children())
        if name in SUBQUERIES:  # their plans are checked instead
            plans.append(expression.plan())
            continue
        index = parent
        if name not in WRAPPERS:
            calls.append(_make_call(expression, name, parent, wrapper, is_join=is_join))
            index = len(calls) - 1
        pending.extend((node, index, name) for node in reversed(children))
    return tuple(calls), plans


def _make_call(expression: Any, name: str, parent: int, wrapper: str, *, is_join: bool) -> PlanCall:
    children = _convert_sequence(expression.children())
    function_name = name_function(name)
    types = [str(node.dataType().simpleString()) for node in children] if function_name in TYPED else []
    is_bound = is_join and (
        name in COMPARISONS or (name == "EqualTo" and any(type_.startswith(TIMES) for type_ in types))
    )
    is_udf = "UDF" in name
    impure_call = find_impure_call(expression) if is_udf else ""
    is_nondeterministic = not expression.deterministic() and all(node.deterministic() for node in children)
    return PlanCall(
        name="bounded" if is_bound else str(expression.name()) if name == "PythonUDF" else function_name,
        parent=parent,
        is_deterministic=not is_nondeterministic,
        is_aggregate=wrapper == "AggregateExpression",
        sums_float=function_name in rules.MOMENTS
        or (function_name in {"sum", "avg"} and bool(types) and types[0] in FLOAT),
        needs_zone=_needs_zone(function_name, expression, types),
        impure_call=impure_call or ("a function declared non-deterministic" if is_udf and is_nondeterministic else ""),
    )


def _needs_zone(name: str, expression: Any, types: list[str]) -> bool:
    if name == "cast":
        return types[:1] == ["timestamp"] and str(expression.dataType().simpleString()) in {"date", "string"}
    return name == "from_unixtime" or (name in ZONED and "timestamp" in types)
