"""Expressions of a job, evaluated to what they stand for."""

import ast
import builtins
import re

from pyspark.sql import types

from cutover.parity.jobs import calls
from cutover.parity.jobs.frames import COLLECTS, LOOKS
from cutover.parity.jobs.operations import operate
from cutover.parity.jobs.paths import decide, join_values, make_arms, select_possible
from cutover.parity.jobs.trace import Arguments
from cutover.parity.jobs.values import (
    Arm,
    Constant,
    Frame,
    Imported,
    Instance,
    JobClass,
    JobColumn,
    JobFunction,
    JobValue,
    Legacy,
    Listing,
    Method,
    Reader,
    Scope,
    Session,
    Table,
    UnknownValue,
    Writer,
    alternatives,
    choose,
    describe,
    get_taint,
    join_texts,
    list_items,
    make_column,
    merge_columns,
)
from cutover.parity.jobs.walk import Walk
from cutover.parity.sql import is_own_function

FUNCTIONS = "pyspark.sql.functions"
MODULES = frozenset({"F", "f", "fn", "sf", "func", "functions"})
"""Names under which Spark's functions are imported by habit."""


WRITES = frozenset(
    {"mode", "format", "option", "options", "partitionBy", "save", "saveAsTable", "insertInto", "parquet"}
)
"""Methods of a writer that no file has."""

HABITUAL = frozenset({"col", "column", "expr", "lit", "window", "session_window", "broadcast", "udf", "pandas_udf"})
"""Functions of Spark's whose names say so where nothing else binds them."""


def evaluate(job: Walk, node: ast.expr, scope: Scope) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    """Return what an expression stands for, and note what it does with Spark."""
    job.spend(node)
    match node:
        case ast.Constant():
            return Constant(node.value)
        case ast.Name():
            value = scope.find(node.id)
            return _find_unbound(job, node.id) if value is None else select_possible(value, job.trace.branches)
        case ast.Attribute():
            owner = evaluate(job, node.value, scope)
            owners = [alternative for alternative in alternatives(owner) if not _is_none(alternative)] or [
                owner
            ]  # None has no attributes
            return select_possible(choose(get_attribute(job, owner, node) for owner in owners), job.trace.branches)
        case ast.Call():
            return _evaluate_call(job, node, scope)
        case ast.JoinedStr():
            return join_texts([evaluate(job, part, scope) for part in node.values])
        case ast.FormattedValue():
            return evaluate(job, node.value, scope)
        case ast.BinOp() | ast.BoolOp() | ast.UnaryOp() | ast.Compare():
            parts = [evaluate(job, value, scope) for value in ast.iter_child_nodes(node) if isinstance(value, ast.expr)]
            return operate(node, parts)
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


def guess(name: str) -> JobValue:
    """Return what a name without a value stands for by habit."""
    lower = name.lower()
    if lower in {"spark", "session", "sparksession", "spark_session", "sqlcontext", "sql_context"}:
        return Session()
    if lower in {"sc", "sparkcontext", "spark_context"}:
        return Legacy("context")
    if lower == "ssc":
        return Legacy("dstream")
    return UnknownValue(f"{{{name}}}")


def _find_unbound(job: Walk, name: str) -> JobValue:
    if name in MODULES:
        return Imported(FUNCTIONS)
    if name in HABITUAL:
        return Imported(f"{FUNCTIONS}.{name}")
    if job.has_star and is_own_function(name):
        return Imported(f"{FUNCTIONS}.{name}")
    if job.has_star and hasattr(types, name):
        return Imported(f"pyspark.sql.types.{name}")
    return Imported(f"builtins.{name}") if hasattr(builtins, name) else guess(name)


def get_attribute(job: Walk, owner: JobValue, node: ast.Attribute) -> JobValue:  # noqa: C901, PLR0911, PLR0912 -- one return for each kind
    """Return an attribute of a value; a method is called later."""
    name, line = node.attr, node.end_lineno or node.lineno
    match owner:
        case Imported():
            return Imported(f"{owner.path}.{name}")
        case Instance():
            default = JobFunction(NO_INIT, Scope()) if name == "__init__" else UnknownValue(f"self.{name}")
            member = owner.attributes.get(name) or calls.find_member(owner, name) or default
            return calls.read_property(job, member, node) if isinstance(member, JobFunction) else member
        case JobClass():
            return calls.find_member(Instance(owner), name) or UnknownValue(f"{owner.node.name}.{name}")
        case Session():
            return _get_from_session(owner, name, line)
        case Legacy():
            return Method(owner, name, line)
        case Method(receiver=UnknownValue() as receiver, name="write") if name in WRITES:
            frame = Frame(op="unknown", line=owner.line, what=describe(receiver).strip("{}"))
            return Method(Writer(job.trace.keep(frame), is_stream=False, line=line), name, line)
        case Frame() if name in {"write", "writeStream"}:
            return Writer(owner, is_stream=name == "writeStream", line=line)
        case Frame() if name == "isStreaming" and owner.is_stream is not None:
            return Constant(owner.is_stream)
        case Frame() if name == "_jdf":
            return owner
        case Frame() if name == "rdd":
            return Legacy("rdd")
        case Frame() if name in {"sparkSession", "sql_ctx"}:
            return Session()
        case Frame() if name in {"na", "stat"}:
            return owner
        case UnknownValue():
            return _get_from_unknown(job, owner, node, line)
        case Constant() if name == "value":  # of an enumeration
            return owner
        case Method(receiver=Frame()) if owner.name not in LOOKS and not owner.name.startswith("_"):
            return Method(make_column(owner), name, line)
        case _:
            return Method(owner, name, line)


def _get_from_session(owner: Session, name: str, line: int) -> JobValue:
    if name == "conf":
        return owner
    if name in {"read", "readStream"}:
        return Reader(is_stream=name == "readStream", line=line)
    return Legacy("context") if name in {"sparkContext", "_sc"} else Method(owner, name, line)


def _get_from_unknown(job: Walk, owner: UnknownValue, node: ast.Attribute, line: int) -> JobValue:
    """Return an attribute that only a session or a DataFrame has, whatever its owner is called."""
    if node.attr == "readStream":
        return Reader(is_stream=True, line=line)
    if node.attr == "writeStream":
        frame = Frame(op="unknown", line=node.lineno, what=owner.text.strip("{}"), is_stream=True)
        return Writer(job.trace.keep(frame), is_stream=True, line=line)
    if owner.text.strip("{}").endswith("parse_args()") and node.attr in job.trace.defaults:
        return UnknownValue(f"{owner.text}.{node.attr}", default=job.trace.defaults[node.attr])
    return Method(owner, node.attr, line)


def _evaluate_call(job: Walk, node: ast.Call, scope: Scope) -> JobValue:
    target = evaluate(job, node.func, scope)
    positional: list[JobValue] = []
    is_complete = True
    for argument in node.args:
        value = evaluate(job, argument, scope)
        if not isinstance(argument, ast.Starred):
            positional.append(value)
        elif isinstance(value, Listing) and value.is_complete:
            positional += value.items
        else:
            is_complete = False
    keywords: dict[str, JobValue] = {}
    for keyword in node.keywords:
        value = evaluate(job, keyword.value, scope)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Table):
            keywords.update({str(key): item for key, item in value.items.items()})
            is_complete = is_complete and value.is_complete
        else:
            is_complete = False
    arguments = Arguments(node=node, positional=positional, keywords=keywords, is_complete=is_complete)
    if isinstance(node.func, ast.Name) and isinstance(target, UnknownValue) and scope.find(node.func.id) is None:
        calls.note_undefined(job, node.func.id, arguments)
    return choose([calls.call(job, alternative, arguments) for alternative in alternatives(target)])


def make_test_arms(job: Walk, test: ast.expr, scope: Scope) -> tuple[tuple[Arm, ...], tuple[Arm, ...]]:
    """Return the arms in which a test holds and does not."""
    return make_arms(test, lambda part: evaluate(job, part, scope))


def _evaluate_choice(job: Walk, node: ast.IfExp, scope: Scope) -> JobValue:
    """Return the value of `a if test else b`: one of them, or the one that the test selects."""
    holds = decide(evaluate(job, node.test, scope))
    if holds is not None:
        return evaluate(job, node.body if holds else node.orelse, scope)
    depth, values = len(job.trace.branches), []
    for arms, part in zip(make_test_arms(job, node.test, scope), (node.body, node.orelse), strict=True):
        job.trace.branches += arms
        values.append((evaluate(job, part, scope), arms))
        del job.trace.branches[depth:]
    return join_values(values)


NO_INIT = ast.Lambda(
    args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]), body=ast.Constant(None)
)
"""The `__init__` of a class that has none."""


def _evaluate_container(job: Walk, node: ast.expr, scope: Scope) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return _evaluate_list(job, node, scope)
        case ast.Dict():
            return _evaluate_dict(job, node, scope)
        case ast.Subscript():
            key = evaluate(job, node.slice, scope)
            owner = evaluate(job, node.value, scope)
            return select_possible(
                choose(_get_item(alternative, key, node) for alternative in alternatives(owner)), job.trace.branches
            )
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            rounds: list[JobValue] = []
            _evaluate_rounds(job, node, 0, Scope(outer=scope), rounds)
            return Listing(rounds)
        case ast.DictComp():
            pairs: list[JobValue] = []
            _evaluate_rounds(job, node, 0, Scope(outer=scope), pairs)
            return _make_table(pairs)
        case ast.Yield() if node.value is not None:
            value = evaluate(job, node.value, scope)
            for items in job.yielded[-1:]:
                items.append(value)
            return UnknownValue("yield")
        case _:
            return UnknownValue(ast.unparse(node))


def _evaluate_rounds(
    job: Walk,
    node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp,
    place: int,
    scope: Scope,
    into: list[JobValue],
) -> None:
    """Evaluate the element of a comprehension once for each item."""
    if place == len(node.generators):
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        values = [evaluate(job, part, scope) for part in parts]
        into.append(Listing(values) if isinstance(node, ast.DictComp) else values[0])
        return
    generator = node.generators[place]
    for number, item in enumerate(list_items(evaluate(job, generator.iter, scope), node)):
        job.bind_target(generator.target, item, scope)
        for condition in generator.ifs:
            evaluate(job, condition, scope)
        job.trace.site.append(-1 - number)
        _evaluate_rounds(job, node, place + 1, scope, into)
        job.trace.site.pop()


def _make_table(pairs: list[JobValue]) -> Table:
    """Return the dict of keys with values; keys that are not known make it incomplete."""
    table = Table({})
    for pair in pairs:
        key, value = pair.items if isinstance(pair, Listing) else (UnknownValue(), UnknownValue())
        if isinstance(key, Constant):
            table.items[key.value] = value
        else:
            table.items[describe(key)] = value
            table.is_complete = False
    return table


def _evaluate_list(job: Walk, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Listing:
    items: list[JobValue] = []
    is_complete = True
    for element in node.elts:
        value = evaluate(job, element, scope)
        if not isinstance(element, ast.Starred):
            items.append(value)
        elif isinstance(value, Listing):
            items += value.items
        else:
            is_complete = False
    return Listing(items, is_complete=is_complete)


def _evaluate_dict(job: Walk, node: ast.Dict, scope: Scope) -> Table:
    table = Table({})
    for key, each in zip(node.keys, node.values, strict=True):
        value = evaluate(job, each, scope)
        if key is None:
            table.items.update(value.items if isinstance(value, Table) else {})
            table.is_complete = table.is_complete and isinstance(value, Table) and value.is_complete
            continue
        name = evaluate(job, key, scope)
        if isinstance(name, Constant):
            table.items[name.value] = value
        else:
            table.is_complete = False
    return table


def _slice(items: list[JobValue], part: ast.Slice) -> list[JobValue]:
    """Return a part of a list; all of it where its bounds are not written as numbers."""
    bounds = [None if value is None else ast.unparse(value) for value in (part.lower, part.upper, part.step)]
    if any(bound is not None and not re.fullmatch(r"-?[1-9]\d*|0", bound) for bound in bounds):
        return items
    start, stop, step = (None if bound is None else int(bound) for bound in bounds)
    return items[start:stop:step]


def _get_item(owner: JobValue, key: JobValue, node: ast.Subscript) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    constant = key.value if isinstance(key, Constant) else None
    if isinstance(owner, Frame):
        return make_column(key) if constant is not None else owner
    if isinstance(owner, JobColumn):
        return merge_columns([owner])
    if isinstance(owner, Table) and constant in owner.items:
        return owner.items[constant]
    if isinstance(owner, Listing) and owner.is_complete and isinstance(node.slice, ast.Slice):
        return Listing(_slice(owner.items, node.slice))
    if isinstance(owner, Listing) and owner.is_complete and isinstance(constant, int):
        return owner.items[constant] if -len(owner.items) <= constant < len(owner.items) else UnknownValue()
    if isinstance(owner, Listing | Table) and owner.is_complete:
        values = owner.items if isinstance(owner, Listing) else list(owner.items.values())
        return choose(values) if values else UnknownValue()
    description = describe(owner)
    text = ast.unparse(node) if "?" in description else f"{{{description.strip('{}')}[{ast.unparse(node.slice)}]}}"
    is_one = isinstance(constant, int) and description in COLLECTS  # one row of those that were collected
    return UnknownValue(text, get_taint(owner) - ({"rows"} if is_one else set()))
