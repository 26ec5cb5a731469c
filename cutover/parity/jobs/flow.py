"""Control flow of a job: conditions, loops, `try`, `with`, and the statements that leave them."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cutover.parity.jobs import expressions
from cutover.parity.jobs.paths import Assignments, Loop, PathEnd, add_branches, decide_test
from cutover.parity.jobs.trace import Arguments, JobAnalysis
from cutover.parity.jobs.values import (
    Branch,
    Constant,
    DictValue,
    Frame,
    Instance,
    JobValue,
    ListValue,
    Reader,
    Scope,
    UnknownValue,
    Writer,
    find_method,
    list_alternatives,
    list_ancestors,
    list_items,
    merge_alternatives,
)

Body = tuple[Sequence[ast.stmt], tuple[Branch, ...]]
"""Statements with the branches that lead to them."""


def _run_return(job: JobAnalysis, node: ast.Return, scope: Scope) -> bool:
    """Record the value that a function returns, with the assignments up to the `return`."""
    value = expressions.evaluate(job, node.value, scope) if node.value is not None else Constant(None)
    if job.activations:
        activation = job.activations[-1]
        activation.ends.append(_record_end(job, activation.start, activation.branch_depth))
        activation.return_values += add_branches(value, job.trace.branches[activation.branch_depth :])
    return False


def _run_raise(job: JobAnalysis, node: ast.stmt, scope: Scope) -> bool:  # noqa: ARG001 -- the signature of all runners
    return False


def _run_continue(job: JobAnalysis, node: ast.stmt, scope: Scope) -> bool:  # noqa: ARG001 -- the signature of all runners
    loop = job.loops[-1]
    loop.continue_ends.append(_record_end(job, loop.round_start, loop.branch_depth))
    return False


def _run_break(job: JobAnalysis, node: ast.stmt, scope: Scope) -> bool:  # noqa: ARG001 -- the signature of all runners
    loop = job.loops[-1]
    loop.break_ends.append(_record_end(job, loop.start, loop.branch_depth))
    return False


def _record_end(job: JobAnalysis, start: int, depth: int) -> PathEnd:
    return job.trace.assignment_log.list_changes(start), tuple(job.trace.branches[depth:])


def _run_if(job: JobAnalysis, node: ast.If, scope: Scope) -> bool:
    test = expressions.evaluate(job, node.test, scope)
    if ast.unparse(node.test) in {"__name__ == '__main__'", "TYPE_CHECKING"}:
        return job.run_block(node.body, scope)
    holds = decide_test(test)
    if holds is not None:
        return job.run_block(node.body if holds else node.orelse, scope)
    positive, negative = expressions.make_test_branches(job, node.test, scope)
    return _run_branches(job, [(node.body, positive), (node.orelse, negative)], scope)


def _run_match(job: JobAnalysis, node: ast.Match, scope: Scope) -> bool:
    expressions.evaluate(job, node.subject, scope)
    bodies: list[Body] = []
    for number, case in enumerate(node.cases):
        literal = case.pattern.value if isinstance(case.pattern, ast.MatchValue) else None
        branch_path: tuple[Branch, ...] = (Branch(id(node), number=number, line=case.pattern.lineno),)
        if literal is not None and case.guard is None:
            test = ast.Compare(left=node.subject, ops=[ast.Eq()], comparators=[literal], lineno=literal.lineno)
            branch_path += expressions.make_test_branches(job, test, scope)[0]
        bodies.append((case.body, branch_path))
    last_case = node.cases[-1]
    is_wildcard = isinstance(last_case.pattern, ast.MatchAs) and last_case.pattern.pattern is None
    if last_case.guard is not None or not is_wildcard:
        bodies.append(([], (Branch(id(node), number=len(bodies), line=node.lineno),)))
    return _run_branches(job, bodies, scope)


def _run_branches(job: JobAnalysis, bodies: Sequence[Body], scope: Scope) -> bool:
    """Interpret each branch from the same state, and join the states of the branches that continue."""
    branches, assignment_log = job.trace.branches, job.trace.assignment_log
    depth, ends = len(branches), list[PathEnd]()
    for body, branch_path in bodies:
        start = assignment_log.mark()
        branches += branch_path
        continues = job.run_block(body, scope)
        del branches[depth:]
        changes = assignment_log.undo(start)
        if continues:
            ends.append((changes, branch_path))
    return _join_branches(job, ends)


def _join_branches(job: JobAnalysis, ends: Sequence[PathEnd]) -> bool:
    """Join branches; if only one continues, the following statements belong to it."""
    job.trace.assignment_log.join(ends)
    if len(ends) == 1:
        job.trace.branches += ends[0][1]
    return bool(ends)


def _run_for(job: JobAnalysis, node: ast.For | ast.AsyncFor, scope: Scope) -> bool:
    iterable = expressions.evaluate(job, node.iter, scope)
    runs_at_least_once = (
        isinstance(iterable, ListValue | DictValue) and iterable.is_complete and iterable.has_items() is True
    )
    return _run_iterations(job, node, list_items(iterable, node), scope, runs_at_least_once=runs_at_least_once)


def _run_while(job: JobAnalysis, node: ast.While, scope: Scope) -> bool:
    test = expressions.evaluate(job, node.test, scope)
    return _run_iterations(job, node, [UnknownValue()], scope, runs_at_least_once=decide_test(test) is True)


def _run_iterations(
    job: JobAnalysis,
    node: ast.For | ast.AsyncFor | ast.While,
    items: Sequence[JobValue],
    scope: Scope,
    *,
    runs_at_least_once: bool,
) -> bool:
    """Interpret each iteration of a loop, and join all its exits."""
    assignment_log, branches, site = job.trace.assignment_log, job.trace.branches, job.trace.call_site
    loop = Loop(assignment_log.mark(), len(branches))
    job.loops.append(loop)
    continues = True
    for number, item in enumerate(items):
        if not isinstance(node, ast.While):
            job.bind_target(node.target, item, scope)
        loop.round_start, loop.continue_ends = assignment_log.mark(), []
        site.append(-1 - number)
        continues = job.run_block(node.body, scope)
        site.pop()
        assignment_log.join_exits(loop.round_start, loop.continue_ends, continues=continues)
        continues = continues or bool(loop.continue_ends)
        del branches[loop.branch_depth :]
        if not continues:
            break
    job.loops.pop()
    assignment_log.join_exits(loop.start, loop.break_ends, continues=continues)
    if not runs_at_least_once:
        _join_without_iterations(job, node, assignment_log.undo(loop.start))
    return job.run_block(node.orelse, scope) and (continues or bool(loop.break_ends) or not runs_at_least_once)


def _join_without_iterations(job: JobAnalysis, node: ast.stmt, changes: Assignments) -> None:
    """Join the state after a loop with the state before it, as the loop may run no iteration."""
    for change in changes.values():
        last_value = change.values[-1]
        if change.previous is not None and _has_watermark(last_value) and not _has_watermark(change.previous):
            job.trace.add_gap(node.lineno, f"{change.key}: whether the loop runs that gives it a watermark")
        elif change.previous is not None and not _has_more_options(last_value):
            last_value = merge_alternatives([change.previous, last_value])
        job.trace.assignment_log.assign(change.store, change.key, last_value)


def _has_watermark(value: JobValue) -> bool:
    """Return whether a DataFrame has a watermark."""
    frames = [alternative for alternative in list_alternatives(value) if isinstance(alternative, Frame)]
    return any(node.op == "watermark" for frame in frames for node in list_ancestors(frame))


def _has_more_options(value: JobValue) -> bool:
    """Return whether a reader or writer may have options from outside the file."""
    return any(
        isinstance(alternative, Reader | Writer) and not alternative.is_complete
        for alternative in list_alternatives(value)
    )


def _run_with(job: JobAnalysis, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
    is_suppressing = False
    for item in node.items:
        manager = expressions.evaluate(job, item.context_expr, scope)
        value = _enter_context(job, manager)
        if item.optional_vars is not None:
            job.bind_target(item.optional_vars, value, scope)
        called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
        is_suppressing = is_suppressing or ast.unparse(called).endswith("suppress") or _suppresses(manager)
    return _run_attempt(job, node, node.body, [[]], scope) if is_suppressing else job.run_block(node.body, scope)


def _suppresses(manager: JobValue) -> bool:
    """Return whether the `__exit__` of a job's object may return a true value, which suppresses exceptions."""
    method = find_method(manager.job_class, "__exit__", manager) if isinstance(manager, Instance) else None
    returns = [] if method is None else [node for node in ast.walk(method.node) if isinstance(node, ast.Return)]
    return any(node.value is not None and ast.unparse(node.value) not in {"None", "False"} for node in returns)


def _enter_context(job: JobAnalysis, value: JobValue) -> JobValue:
    """Return the value that `with` binds: the result of `__enter__`, or the value that a generator yields."""
    if isinstance(value, ListValue):
        return merge_alternatives(value.items) if value.items else UnknownValue("with")
    method = find_method(value.job_class, "__enter__", value) if isinstance(value, Instance) else None
    if method is None:
        return value
    node = ast.Call(func=ast.Name(id="__enter__"), args=[], keywords=[], lineno=method.node.lineno)
    return job.call_function(method, Arguments(node=node, positional=(), keywords={}))


def _run_try(job: JobAnalysis, node: ast.Try | ast.TryStar, scope: Scope) -> bool:
    for handler in node.handlers:
        if handler.name is not None:
            job.assign(scope, handler.name, UnknownValue(handler.name))
    handlers = [handler.body for handler in node.handlers]
    continues = _run_attempt(job, node, [*node.body, *node.orelse], handlers, scope)
    return job.run_block(node.finalbody, scope) and continues


def _run_attempt(
    job: JobAnalysis, node: ast.stmt, body: Sequence[ast.stmt], handlers: Sequence[Sequence[ast.stmt]], scope: Scope
) -> bool:
    """Interpret a body that may fail at any statement, and its handlers."""
    assignment_log, branches = job.trace.assignment_log, job.trace.branches
    start, depth, ends = assignment_log.mark(), len(branches), list[PathEnd]()
    attempt = assignment_log.begin_attempt()
    branch_path: tuple[Branch, ...] = (Branch(id(node), number=0, line=node.lineno, is_attempt=True),)
    branches += branch_path
    effects = _count_effects(job)
    continues = job.run_block(body, scope)
    writes = _count_effects(job) > effects
    assignment_log.attempts.pop()
    del branches[depth:]
    changes = assignment_log.undo(start)
    if continues:
        ends.append((changes, branch_path))
    for number, handler in enumerate(handlers, 1):
        branch_path = (Branch(id(node), number=number, line=node.lineno, is_handler=True),)
        branches += branch_path
        assignment_log.assume_interrupted(attempt)
        effects, returns = _count_effects(job), _count_returns(job)
        continues = job.run_block(handler, scope)
        if writes and _count_effects(job) == effects and (continues or _count_returns(job) > returns):
            _record_swallowed(job, node.lineno)
        del branches[depth:]
        changes = assignment_log.undo(start)
        if continues:
            ends.append((changes, branch_path))
    return _join_branches(job, ends)


def _count_effects(job: JobAnalysis) -> int:
    return job.trace.active_sinks[-1].effect_count if job.trace.active_sinks else 0


def _count_returns(job: JobAnalysis) -> int:
    return len(job.activations[-1].ends) if job.activations else 0


def _record_swallowed(job: JobAnalysis, line: int) -> None:
    """Record that a micro-batch succeeds after a failed write; inside a loop the write may be a retry."""
    sink = job.trace.active_sinks[-1]
    if len(job.loops) == sink.loop_depth:
        sink.swallowing_lines.add(line)


RUNNERS: Mapping[type[ast.stmt], Callable[[JobAnalysis, Any, Scope], bool]] = {
    ast.Return: _run_return,
    ast.Raise: _run_raise,
    ast.Continue: _run_continue,
    ast.Break: _run_break,
    ast.If: _run_if,
    ast.Match: _run_match,
    ast.For: _run_for,
    ast.AsyncFor: _run_for,
    ast.While: _run_while,
    ast.With: _run_with,
    ast.AsyncWith: _run_with,
    ast.Try: _run_try,
    ast.TryStar: _run_try,
}
"""Interpreter of each kind of control statement; it returns whether the next statement is reachable."""
