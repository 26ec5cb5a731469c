"""Control flow of a job: conditions, loops, `try`, `with`, and the statements that leave them."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cutover.parity.jobs import expressions
from cutover.parity.jobs.paths import Assignments, End, Loop, decide, take_arms
from cutover.parity.jobs.trace import Arguments
from cutover.parity.jobs.values import (
    Arm,
    Constant,
    Frame,
    Instance,
    JobValue,
    Listing,
    Reader,
    Scope,
    Table,
    UnknownValue,
    Writer,
    alternatives,
    choose,
    find_method,
    list_ancestors,
    list_items,
)
from cutover.parity.jobs.walk import Walk

Body = tuple[Sequence[ast.stmt], tuple[Arm, ...]]
"""Statements with the arms by which they are reached."""


def _run_return(job: Walk, node: ast.Return, scope: Scope) -> bool:
    """Record the value that a function returns, with the assignments made until then."""
    value = expressions.evaluate(job, node.value, scope) if node.value is not None else Constant(None)
    if job.activations:
        activation = job.activations[-1]
        activation.ends.append(_note_end(job, activation.start, activation.depth))
        activation.returned += take_arms(value, job.trace.branches[activation.depth :])
    return False


def _run_raise(job: Walk, node: ast.stmt, scope: Scope) -> bool:  # noqa: ARG001 -- the signature of all runners
    return False


def _run_continue(job: Walk, node: ast.stmt, scope: Scope) -> bool:  # noqa: ARG001 -- the signature of all runners
    loop = job.loops[-1]
    loop.continued.append(_note_end(job, loop.round, loop.depth))
    return False


def _run_break(job: Walk, node: ast.stmt, scope: Scope) -> bool:  # noqa: ARG001 -- the signature of all runners
    loop = job.loops[-1]
    loop.broken.append(_note_end(job, loop.start, loop.depth))
    return False


def _note_end(job: Walk, start: int, depth: int) -> End:
    return job.trace.assignment_log.list_changes(start), tuple(job.trace.branches[depth:])


def _run_if(job: Walk, node: ast.If, scope: Scope) -> bool:
    test = expressions.evaluate(job, node.test, scope)
    if ast.unparse(node.test) in {"__name__ == '__main__'", "TYPE_CHECKING"}:
        return job.run_block(node.body, scope)
    holds = decide(test)
    if holds is not None:
        return job.run_block(node.body if holds else node.orelse, scope)
    positive, negative = expressions.make_test_arms(job, node.test, scope)
    return _run_arms(job, [(node.body, positive), (node.orelse, negative)], scope)


def _run_match(job: Walk, node: ast.Match, scope: Scope) -> bool:
    expressions.evaluate(job, node.subject, scope)
    bodies: list[Body] = []
    for number, case in enumerate(node.cases):
        literal = case.pattern.value if isinstance(case.pattern, ast.MatchValue) else None
        taken: tuple[Arm, ...] = (Arm(id(node), number=number, line=case.pattern.lineno),)
        if literal is not None and case.guard is None:
            test = ast.Compare(left=node.subject, ops=[ast.Eq()], comparators=[literal], lineno=literal.lineno)
            taken += expressions.make_test_arms(job, test, scope)[0]
        bodies.append((case.body, taken))
    end = node.cases[-1]
    if end.guard is not None or not isinstance(end.pattern, ast.MatchAs) or end.pattern.pattern is not None:
        bodies.append(([], (Arm(id(node), number=len(bodies), line=node.lineno),)))
    return _run_arms(job, bodies, scope)


def _run_arms(job: Walk, bodies: Sequence[Body], scope: Scope) -> bool:
    """Follow each arm from the same state, and join the states of the arms that do not end."""
    branches, journal = job.trace.branches, job.trace.assignment_log
    depth, ends = len(branches), list[End]()
    for body, taken in bodies:
        start = journal.mark()
        branches += taken
        goes_on = job.run_block(body, scope)
        del branches[depth:]
        changes = journal.undo(start)
        if goes_on:
            ends.append((changes, taken))
    return _go_on(job, ends)


def _go_on(job: Walk, ends: Sequence[End]) -> bool:
    """Join arms; if only one arm continues, the statements that follow belong to it."""
    job.trace.assignment_log.join(ends)
    if len(ends) == 1:
        job.trace.branches += ends[0][1]
    return bool(ends)


def _run_for(job: Walk, node: ast.For | ast.AsyncFor, scope: Scope) -> bool:
    over = expressions.evaluate(job, node.iter, scope)
    is_certain = isinstance(over, Listing | Table) and over.is_complete and bool(over.items)
    return _run_rounds(job, node, list_items(over, node), scope, is_certain=is_certain)


def _run_while(job: Walk, node: ast.While, scope: Scope) -> bool:
    test = expressions.evaluate(job, node.test, scope)
    return _run_rounds(job, node, [UnknownValue()], scope, is_certain=decide(test) is True)


def _run_rounds(
    job: Walk, node: ast.For | ast.AsyncFor | ast.While, items: Sequence[JobValue], scope: Scope, *, is_certain: bool
) -> bool:
    """Follow each round of a loop, and join every way out of it."""
    journal, branches, site = job.trace.assignment_log, job.trace.branches, job.trace.site
    loop = Loop(journal.mark(), len(branches))
    job.loops.append(loop)
    goes_on = True
    for number, item in enumerate(items):
        if not isinstance(node, ast.While):
            job.bind_target(node.target, item, scope)
        loop.round, loop.continued = journal.mark(), []
        site.append(-1 - number)
        goes_on = job.run_block(node.body, scope)
        site.pop()
        journal.leave(loop.round, loop.continued, goes_on=goes_on)
        goes_on = goes_on or bool(loop.continued)
        del branches[loop.depth :]
        if not goes_on:
            break
    job.loops.pop()
    journal.leave(loop.start, loop.broken, goes_on=goes_on)
    if not is_certain:
        _join_without_rounds(job, node, journal.undo(loop.start))
    return job.run_block(node.orelse, scope) and (goes_on or bool(loop.broken) or not is_certain)


def _join_without_rounds(job: Walk, node: ast.stmt, changes: Assignments) -> None:
    """Join the state after a loop with the state before it, since the loop may not run at all."""
    for change in changes.values():
        after = change.values[-1]
        if change.before is not None and _is_marked(after) and not _is_marked(change.before):
            job.trace.add_gap(node.lineno, f"{change.key}: whether the loop runs that gives it a watermark")
        elif change.before is not None and not _has_more_options(after):
            after = choose([change.before, after])
        job.trace.assignment_log.assign(change.store, change.key, after)


def _is_marked(value: JobValue) -> bool:
    """Return whether a DataFrame has a watermark."""
    frames = [alternative for alternative in alternatives(value) if isinstance(alternative, Frame)]
    return any(node.op == "watermark" for frame in frames for node in list_ancestors(frame))


def _has_more_options(value: JobValue) -> bool:
    """Return whether a reader or a writer may have options that are not in the file."""
    return any(
        isinstance(alternative, Reader | Writer) and not alternative.is_complete for alternative in alternatives(value)
    )


def _run_with(job: Walk, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
    is_suppressing = False
    for item in node.items:
        manager = expressions.evaluate(job, item.context_expr, scope)
        value = _enter(job, manager)
        if item.optional_vars is not None:
            job.bind_target(item.optional_vars, value, scope)
        called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
        is_suppressing = is_suppressing or ast.unparse(called).endswith("suppress") or _suppresses(manager)
    return _run_attempt(job, node, node.body, [[]], scope) if is_suppressing else job.run_block(node.body, scope)


def _suppresses(manager: JobValue) -> bool:
    """Return whether the `__exit__` of an object of the job may return something true, which ends an exception."""
    method = find_method(manager.of, "__exit__", manager) if isinstance(manager, Instance) else None
    returns = [] if method is None else [node for node in ast.walk(method.node) if isinstance(node, ast.Return)]
    return any(node.value is not None and ast.unparse(node.value) not in {"None", "False"} for node in returns)


def _enter(job: Walk, value: JobValue) -> JobValue:
    """Return the value that `with` binds: the result of `__enter__`, or the value a generator yields."""
    if isinstance(value, Listing):
        return choose(value.items) if value.items else UnknownValue("with")
    method = find_method(value.of, "__enter__", value) if isinstance(value, Instance) else None
    if method is None:
        return value
    node = ast.Call(func=ast.Name(id="__enter__"), args=[], keywords=[], lineno=method.node.lineno)
    return job.call_function(method, Arguments(node=node, positional=(), keywords={}))


def _run_try(job: Walk, node: ast.Try | ast.TryStar, scope: Scope) -> bool:
    for handler in node.handlers:
        if handler.name is not None:
            job.assign(scope, handler.name, UnknownValue(handler.name))
    handlers = [handler.body for handler in node.handlers]
    goes_on = _run_attempt(job, node, [*node.body, *node.orelse], handlers, scope)
    return job.run_block(node.finalbody, scope) and goes_on


def _run_attempt(
    job: Walk, node: ast.stmt, body: Sequence[ast.stmt], handlers: Sequence[Sequence[ast.stmt]], scope: Scope
) -> bool:
    """Follow a body that may fail at any statement, and its handlers."""
    journal, branches = job.trace.assignment_log, job.trace.branches
    start, depth, ends = journal.mark(), len(branches), list[End]()
    attempt = journal.begin_attempt()
    taken: tuple[Arm, ...] = (Arm(id(node), number=0, line=node.lineno, is_attempt=True),)
    branches += taken
    effects = _count_effects(job)
    goes_on = job.run_block(body, scope)
    writes = _count_effects(job) > effects
    journal.attempts.pop()
    del branches[depth:]
    changes = journal.undo(start)
    if goes_on:
        ends.append((changes, taken))
    for number, handler in enumerate(handlers, 1):
        taken = (Arm(id(node), number=number, line=node.lineno, is_handler=True),)
        branches += taken
        journal.assume_cut(attempt)
        effects, returns = _count_effects(job), _count_returns(job)
        goes_on = job.run_block(handler, scope)
        if writes and _count_effects(job) == effects and (goes_on or _count_returns(job) > returns):
            _note_swallowed(job, node.lineno)
        del branches[depth:]
        changes = journal.undo(start)
        if goes_on:
            ends.append((changes, taken))
    return _go_on(job, ends)


def _count_effects(job: Walk) -> int:
    return job.trace.sinks[-1].effects if job.trace.sinks else 0


def _count_returns(job: Walk) -> int:
    return len(job.activations[-1].ends) if job.activations else 0


def _note_swallowed(job: Walk, line: int) -> None:
    """Record that a micro-batch succeeds although its write failed; inside a loop, the write may be retried."""
    sink = job.trace.sinks[-1]
    if len(job.loops) == sink.loops:
        sink.swallowed.add(line)


RUNNERS: Mapping[type[ast.stmt], Callable[[Walk, Any, Scope], bool]] = {
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
"""What follows each kind of statement; it returns whether the statement behind it can be reached."""
