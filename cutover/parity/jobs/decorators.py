"""Decorators: what they make of a function of the job."""

import ast
from dataclasses import replace

from cutover.parity.jobs import calls, expressions
from cutover.parity.jobs.trace import Arguments
from cutover.parity.jobs.values import Frame, JobFunction, JobValue, alternatives, walk
from cutover.parity.jobs.walk import Walk

ASIDE = frozenset(
    {"staticmethod", "classmethod", "property", "cached_property", "abstractmethod", "override", "contextmanager"}
    | {"wraps", "lru_cache", "cache", "overload", "final", "udf", "pandas_udf", "udtf", "fixture", "retry", "task"}
    | {"flow", "op", "asset", "table", "view", "append_flow", "materialized_view", "command", "option", "argument"}
    | {"expect", "expect_or_drop", "expect_or_fail", "expect_all", "step", "node", "validate_call", "typechecked"}
)
"""Decorators of libraries that yield what the function yields."""


def call_decorated(job: Walk, function: JobFunction, arguments: Arguments) -> JobValue:
    """Return what a function yields behind its decorators: those of the file are followed, others are named."""
    owner = () if function.owner is None else (function.owner,)
    target: JobValue = replace(function, owner=None, is_bare=True)
    unknown: list[str] = []
    marks = function.node.decorator_list if not isinstance(function.node, ast.Lambda) else []
    for mark in reversed(marks):
        if _get_name(mark) in ASIDE:
            continue
        decorator = expressions.evaluate(job, mark, function.scope)
        if isinstance(decorator, JobFunction):
            node = ast.Call(func=mark, args=[], keywords=[], lineno=mark.lineno)
            target = job.call_function(decorator, Arguments(node=node, positional=(target,), keywords={}))
        else:
            unknown.append(_get_name(mark))
    values = (*owner, *arguments.positional)
    result = calls.call(job, target, replace(arguments, positional=values))
    if unknown and any(isinstance(value, Frame) for value in walk([result])):
        said = f"decorator {', '.join(unknown)}"
        job.trace.add_gap(function.node.lineno, f"{said}: what it does to a DataFrame")
        return calls.call_opaque(job, said, replace(arguments, positional=alternatives(result), keywords={}))
    return result


def _get_name(mark: ast.expr) -> str:
    """Return the last name of a decorator, without its arguments."""
    inner = mark.func if isinstance(mark, ast.Call) else mark
    return inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else "?"
