"""Evaluation of a job's expressions to abstract values."""

import ast
import builtins
import re

from pyspark.sql import types

from cutover.parity.jobs import calls
from cutover.parity.jobs.containers import apply_operator, make_dict, make_optional
from cutover.parity.jobs.frames import COLLECT_METHODS, READ_METHODS
from cutover.parity.jobs.paths import decide_test, join_values, make_branches, select_reachable
from cutover.parity.jobs.trace import Arguments, JobAnalysis, join_texts, make_column, merge_columns
from cutover.parity.jobs.values import (
    Branch,
    Constant,
    DictValue,
    Frame,
    ImportedName,
    Instance,
    JobClass,
    JobColumn,
    JobFunction,
    JobValue,
    LegacyValue,
    ListValue,
    Method,
    Reader,
    Scope,
    Session,
    UnknownValue,
    Writer,
    describe_value,
    get_taint,
    get_text,
    list_alternatives,
    list_items,
    merge_alternatives,
    override,
)
from cutover.parity.rules import is_spark_function

FUNCTIONS = "pyspark.sql.functions"
FUNCTION_MODULE_ALIASES = frozenset({"F", "f", "fn", "sf", "func", "functions"})
"""Conventional aliases of the module of Spark's functions."""


WRITES = frozenset(
    {"mode", "format", "option", "options", "partitionBy", "save", "saveAsTable", "insertInto", "parquet"}
)
"""Methods that a writer has and a file object lacks."""

COMMON_FUNCTION_NAMES = frozenset(
    {"col", "column", "expr", "lit", "window", "session_window", "broadcast", "udf", "pandas_udf"}
)
"""Spark functions that are recognized by name if nothing else binds it."""


def evaluate(job: JobAnalysis, node: ast.expr, scope: Scope) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    """Evaluate an expression, and record its use of Spark."""
    job.count_step(node)
    match node:
        case ast.Constant():
            return Constant(node.value)
        case ast.Name():
            value = scope.find(node.id)
            return _find_unbound(job, node.id) if value is None else select_reachable(value, job.trace.branches)
        case ast.Attribute():
            owner = evaluate(job, node.value, scope)
            owners = [alternative for alternative in list_alternatives(owner) if not _is_none(alternative)] or [
                owner
            ]  # None has no attributes
            return select_reachable(
                merge_alternatives(get_attribute(job, owner, node) for owner in owners), job.trace.branches
            )
        case ast.Call():
            return _evaluate_call(job, node, scope)
        case ast.JoinedStr():
            return join_texts([evaluate(job, part, scope) for part in node.values])
        case ast.FormattedValue():
            return evaluate(job, node.value, scope)
        case ast.BinOp() | ast.BoolOp() | ast.UnaryOp() | ast.Compare():
            parts = [evaluate(job, value, scope) for value in ast.iter_child_nodes(node) if isinstance(value, ast.expr)]
            return apply_operator(node, parts)
        case ast.Lambda():
            return JobFunction(node, scope)
        case ast.IfExp():
            return _evaluate_choice(job, node, scope)
        case ast.NamedExpr():
            value = evaluate(job, node.value, scope)
            job.bind_target(node.target, value, scope)
            return value
        case ast.Starred() | ast.Await():
            return evaluate(job, node.value, scope)
        case _:
            return _evaluate_container(job, node, scope)


def _is_none(value: JobValue) -> bool:
    return isinstance(value, Constant) and value.value is None


def guess_value_by_name(name: str) -> JobValue:
    """Guess the value of an unbound name by convention."""
    lower = name.lower()
    if lower in {"spark", "session", "sparksession", "spark_session", "sqlcontext", "sql_context"}:
        return Session()
    if lower in {"sc", "sparkcontext", "spark_context"}:
        return LegacyValue("context")
    if lower == "ssc":
        return LegacyValue("dstream")
    return UnknownValue(f"{{{name}}}")


def _find_unbound(job: JobAnalysis, name: str) -> JobValue:
    if name in FUNCTION_MODULE_ALIASES:
        return ImportedName(FUNCTIONS)
    if name in COMMON_FUNCTION_NAMES:
        return ImportedName(f"{FUNCTIONS}.{name}")
    if job.has_star_import and is_spark_function(name):
        return ImportedName(f"{FUNCTIONS}.{name}")
    if job.has_star_import and hasattr(types, name):
        return ImportedName(f"pyspark.sql.types.{name}")
    return ImportedName(f"builtins.{name}") if hasattr(builtins, name) else guess_value_by_name(name)


def get_attribute(job: JobAnalysis, owner: JobValue, node: ast.Attribute) -> JobValue:  # noqa: C901, PLR0911, PLR0912 -- one return for each kind
    """Return an attribute of a value; calling it is a separate step."""
    name, line = node.attr, node.end_lineno or node.lineno
    match owner:
        case ImportedName():
            return ImportedName(f"{owner.path}.{name}")
        case Instance():
            default = JobFunction(NO_INIT, Scope()) if name == "__init__" else UnknownValue(f"self.{name}")
            member = owner.attributes.get(name) or calls.find_member(owner, name) or default
            return calls.read_property(job, member, node) if isinstance(member, JobFunction) else member
        case JobClass():
            return calls.find_member(Instance(owner), name) or UnknownValue(f"{owner.node.name}.{name}")
        case Session():
            return _get_from_session(owner, name, line)
        case LegacyValue():
            return Method(owner, name, line)
        case Method(receiver=UnknownValue() as receiver, name="write") if name in WRITES:
            frame = Frame(op="unknown", line=owner.line, subject=describe_value(receiver).strip("{}"))
            return Method(Writer(job.trace.add_frame(frame), is_stream=False, line=line), name, line)
        case Frame() if name in {"write", "writeStream"}:
            return Writer(owner, is_stream=name == "writeStream", line=line)
        case Frame() if name == "isStreaming" and owner.is_stream is not None:
            return Constant(owner.is_stream)
        case Frame() if name == "_jdf":
            return owner
        case Frame() if name == "rdd":
            return LegacyValue("rdd")
        case Frame() if name in {"sparkSession", "sql_ctx"}:
            return Session()
        case Frame() if name in {"na", "stat"}:
            return owner
        case UnknownValue():
            return _get_from_unknown(job, owner, node, line)
        case Constant() if name == "value":  # of an enumeration member
            return owner
        case Method(receiver=Frame()) if owner.name not in READ_METHODS and not owner.name.startswith("_"):
            return Method(make_column(owner), name, line)
        case _:
            return Method(owner, name, line)


def _get_from_session(owner: Session, name: str, line: int) -> JobValue:
    if name == "conf":
        return owner
    if name in {"read", "readStream"}:
        return Reader(is_stream=name == "readStream", line=line)
    return LegacyValue("context") if name in {"sparkContext", "_sc"} else Method(owner, name, line)


def _get_from_unknown(job: JobAnalysis, owner: UnknownValue, node: ast.Attribute, line: int) -> JobValue:
    """Return an attribute of an unknown value; some belong only to a session or a DataFrame."""
    if node.attr == "readStream":
        return Reader(is_stream=True, line=line)
    if node.attr == "writeStream":
        frame = Frame(op="unknown", line=node.lineno, subject=owner.text.strip("{}"), is_stream=True)
        return Writer(job.trace.add_frame(frame), is_stream=True, line=line)
    if owner.text.strip("{}").endswith("parse_args()") and node.attr in job.trace.argument_defaults:
        return UnknownValue(f"{owner.text}.{node.attr}", default=job.trace.argument_defaults[node.attr])
    return Method(owner, node.attr, line)


def _evaluate_call(job: JobAnalysis, node: ast.Call, scope: Scope) -> JobValue:
    target = evaluate(job, node.func, scope)
    positional: list[JobValue] = []
    is_complete = True
    for argument in node.args:
        value = evaluate(job, argument, scope)
        if not isinstance(argument, ast.Starred):
            positional.append(value)
        elif isinstance(value, ListValue) and value.is_complete:
            positional += value.items
        else:
            is_complete = False
    keywords: dict[str, JobValue] = {}
    for keyword in node.keywords:
        value = evaluate(job, keyword.value, scope)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, DictValue):
            keywords.update({str(key): item for key, item in value.items.items()})
            is_complete = is_complete and value.is_complete
        else:
            is_complete = False
    arguments = Arguments(node=node, positional=positional, keywords=keywords, is_complete=is_complete)
    if isinstance(target, ImportedName) and target.path == "builtins.getattr":
        attribute = _get_named_attribute(job, arguments)
        if attribute is not None:
            return attribute
    if isinstance(node.func, ast.Name) and isinstance(target, UnknownValue) and scope.find(node.func.id) is None:
        calls.record_undefined(job, node.func.id, arguments)
    return merge_alternatives([calls.call(job, alternative, arguments) for alternative in list_alternatives(target)])


def _get_named_attribute(job: JobAnalysis, arguments: Arguments) -> JobValue | None:
    """Evaluate `getattr` of a module, an object of the job or one of Spark's; None for other values and names."""
    node, owners = arguments.node, list_alternatives(arguments.get(0) or UnknownValue())
    names = [get_text(name) for name in list_alternatives(arguments.get(1) or UnknownValue())]
    if any(isinstance(owner, Constant | UnknownValue | ListValue | DictValue | Method) for owner in owners):
        return None
    if None in names:
        modules = [owner.path for owner in owners if isinstance(owner, ImportedName)]
        if any(path.startswith("pyspark") for path in modules):
            job.trace.add_gap(node.lineno, "getattr: which function of Spark is called")
        return None
    attributes = [
        ast.Attribute(value=node.args[0], attr=name or "", lineno=node.lineno, end_lineno=node.end_lineno)
        for name in names
    ]
    return merge_alternatives(get_attribute(job, owner, attribute) for owner in owners for attribute in attributes)


def make_test_branches(job: JobAnalysis, test: ast.expr, scope: Scope) -> tuple[tuple[Branch, ...], tuple[Branch, ...]]:
    """Make the branches in which a test holds and does not hold."""
    return make_branches(test, lambda part: evaluate(job, part, scope))


def _evaluate_choice(job: JobAnalysis, node: ast.IfExp, scope: Scope) -> JobValue:
    """Evaluate `a if test else b`: the selected operand, or both if the test is unknown."""
    holds = decide_test(evaluate(job, node.test, scope))
    if holds is not None:
        return evaluate(job, node.body if holds else node.orelse, scope)
    depth, values = len(job.trace.branches), []
    for branches, part in zip(make_test_branches(job, node.test, scope), (node.body, node.orelse), strict=True):
        job.trace.branches += branches
        values.append((evaluate(job, part, scope), branches))
        del job.trace.branches[depth:]
    return join_values(values)


NO_INIT = ast.Lambda(
    args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]), body=ast.Constant(None)
)
"""Body of `__init__` for a class without one."""


def _evaluate_container(job: JobAnalysis, node: ast.expr, scope: Scope) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return _evaluate_list(job, node, scope)
        case ast.Dict():
            return _evaluate_dict(job, node, scope)
        case ast.Subscript():
            key = evaluate(job, node.slice, scope)
            owner = evaluate(job, node.value, scope)
            return select_reachable(
                merge_alternatives(_get_item(alternative, key, node) for alternative in list_alternatives(owner)),
                job.trace.branches,
            )
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            elements: list[JobValue] = []
            _evaluate_iterations(job, node, 0, Scope(outer=scope), elements)
            return ListValue(elements)
        case ast.DictComp():
            pairs: list[JobValue] = []
            _evaluate_iterations(job, node, 0, Scope(outer=scope), pairs)
            return make_dict(pairs)
        case ast.Yield() if node.value is not None:
            value = evaluate(job, node.value, scope)
            for items in job.yielded_values[-1:]:
                items.append(value)
            return UnknownValue("yield")
        case _:
            return UnknownValue(ast.unparse(node))


def _evaluate_iterations(
    job: JobAnalysis,
    node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp,
    generator_index: int,
    scope: Scope,
    results: list[JobValue],
) -> None:
    """Evaluate the element of a comprehension once per item, and append the results to `results`."""
    if generator_index == len(node.generators):
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        values = [evaluate(job, part, scope) for part in parts]
        results.append(ListValue(values) if isinstance(node, ast.DictComp) else values[0])
        return
    generator = node.generators[generator_index]
    for number, item in enumerate(list_items(evaluate(job, generator.iter, scope), node)):
        job.bind_target(generator.target, item, scope)
        tests = [decide_test(evaluate(job, condition, scope)) for condition in generator.ifs]
        if False in tests:
            continue
        first = len(results)
        job.trace.call_site.append(-1 - number)
        _evaluate_iterations(job, node, generator_index + 1, scope, results)
        job.trace.call_site.pop()
        if None in tests:
            results[first:] = [_make_optional_element(result, node) for result in results[first:]]


def _make_optional_element(result: JobValue, node: ast.expr) -> JobValue:
    """Return an element of a comprehension that its condition may leave out; of a dict, with an optional value."""
    if isinstance(node, ast.DictComp) and isinstance(result, ListValue):
        return ListValue([result.store[0], make_optional(result.store[1])])
    return make_optional(result)


def _evaluate_list(job: JobAnalysis, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> ListValue:
    items: list[JobValue] = []
    is_complete = True
    for element in node.elts:
        value = evaluate(job, element, scope)
        if not isinstance(element, ast.Starred):
            items.append(value)
        elif isinstance(value, ListValue):
            items += value.items
            is_complete = is_complete and value.is_exact
        else:
            is_complete = False
    return ListValue(items, is_complete=is_complete)


def _evaluate_dict(job: JobAnalysis, node: ast.Dict, scope: Scope) -> DictValue:
    dictionary = DictValue({})
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(job, value_node, scope)
        if key_node is None:
            items = value.items if isinstance(value, DictValue) else {}
            dictionary.store |= {key: override(dictionary.store.get(key), item) for key, item in items.items()}
            dictionary.is_complete = dictionary.is_complete and isinstance(value, DictValue) and value.is_complete
            continue
        key = evaluate(job, key_node, scope)
        if isinstance(key, Constant):
            dictionary.store[key.value] = value
        else:
            dictionary.is_complete = False
    return dictionary


def _slice(items: list[JobValue], part: ast.Slice) -> list[JobValue]:
    """Return a slice of a list; all of it if the bounds are not literal numbers."""
    texts = [None if value is None else ast.unparse(value) for value in (part.lower, part.upper, part.step)]
    if any(text is not None and not re.fullmatch(r"-?[1-9]\d*|0", text) for text in texts):
        return items
    start, stop, step = (None if text is None else int(text) for text in texts)
    return items[start:stop:step]


def _get_item(owner: JobValue, key: JobValue, node: ast.Subscript) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    constant = key.value if isinstance(key, Constant) else None
    if isinstance(owner, Frame):
        return make_column(key) if constant is not None else owner
    if isinstance(owner, JobColumn):
        return merge_columns([owner])
    if isinstance(owner, DictValue) and constant in owner.items:
        return merge_alternatives(list_alternatives(owner.items[constant]))
    if isinstance(owner, ListValue) and owner.is_exact and isinstance(node.slice, ast.Slice):
        return ListValue(_slice(owner.items, node.slice))
    if isinstance(owner, ListValue) and owner.is_exact and isinstance(constant, int):
        return owner.items[constant] if -len(owner.items) <= constant < len(owner.items) else UnknownValue()
    if isinstance(owner, ListValue | DictValue) and owner.is_complete:
        values = owner.items if isinstance(owner, ListValue) else list(owner.items.values())
        return merge_alternatives(values) if values else UnknownValue()
    description = describe_value(owner)
    text = ast.unparse(node) if "?" in description else f"{{{description.strip('{}')}[{ast.unparse(node.slice)}]}}"
    is_single_row = isinstance(constant, int) and description in COLLECT_METHODS  # a single collected row
    is_fixed = isinstance(owner, UnknownValue) and owner.is_fixed
    return UnknownValue(text, get_taint(owner) - ({"rows"} if is_single_row else set()), is_fixed=is_fixed)
