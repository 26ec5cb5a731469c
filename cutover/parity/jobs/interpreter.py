"""Statements of a job, followed one by one: names, branches, loops, functions and classes."""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cutover.parity.jobs import expressions
from cutover.parity.jobs.decorators import call_decorated
from cutover.parity.jobs.interpreter_tools import find_method, list_items
from cutover.parity.jobs.trace import Arguments, Trace
from cutover.parity.jobs.values import (
    BoundFunction,
    Constant,
    Frame,
    Imported,
    Instance,
    JobClass,
    JobFunction,
    JobValue,
    Listing,
    Reader,
    Scope,
    Table,
    UnknownValue,
    Writer,
    alternatives,
    choose,
    list_ancestors,
    walk,
)

DEPTH = 24
STEPS = 40_000


Definition = ast.FunctionDef | ast.AsyncFunctionDef
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Owned = tuple[Definition, ast.ClassDef | None]
"""A function with the class that it is a method of."""


class TooLargeError(Exception):
    """The job has more paths than are followed; `line` is where the walk ended."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Interpreter:
    """Follows a module and notes what it does with Spark."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.module = Scope()
        self.site: list[int] = []
        self.branches: list[tuple[int, int]] = []
        self.returned: list[list[JobValue]] = []
        self.yielded: list[list[JobValue]] = []
        self.active: list[ast.AST] = []
        self.called: set[ast.AST] = set()
        self.budget = STEPS
        self.is_root = False  # the function that begins has no caller in the file
        self.has_star = False  # names of pyspark.sql.functions stand for themselves

    def follow_module(self, tree: ast.Module) -> None:
        """Follow a module's statements, then the functions that none of them calls."""
        self.run_block(tree.body, self.module)
        for function, owner in _list_roots(tree):
            if function not in self.called:
                self._follow_root(function, owner)
        for function, owner in _list_functions(tree):
            if function not in self.called:
                self._follow_root(function, owner)

    def spend(self, node: ast.AST) -> None:
        """Count a step.

        Raises:
            TooLargeError: There were too many.
        """
        self.budget -= 1
        if self.budget < 0:
            raise TooLargeError(getattr(node, "lineno", 1))

    # -- functions

    def call_function(self, function: JobFunction, arguments: Arguments) -> JobValue:
        """Follow the body of a function with its arguments bound, and return what it returns."""
        node = function.node
        if not function.is_bare and not isinstance(node, ast.Lambda) and node.decorator_list:
            return call_decorated(self, function, arguments)
        if node in self.active or len(self.active) > DEPTH:
            if any(isinstance(value, Frame) for value in walk(arguments.values)):
                self.trace.add_gap(arguments.node.lineno, f"{function.name} calls itself")
            return UnknownValue(function.name)
        scope = Scope(outer=function.scope)
        self._bind(function, arguments, scope)
        self.is_root = False
        self.called.add(node)
        self.site.append(arguments.node.lineno)
        try:
            return self._run_body(node, scope)
        finally:
            self.site.pop()

    def call_value(self, target: JobValue, arguments: Arguments) -> JobValue | None:
        """Follow whatever of the job's own can be called; None if it cannot."""
        if isinstance(target, BoundFunction):
            positional = (*target.positional, *arguments.positional)
            keywords = {**target.keywords, **arguments.keywords}
            return self.call_value(target.function, replace(arguments, positional=positional, keywords=keywords))
        if isinstance(target, Instance):
            target = find_method(target.of, "__call__", target) or target
        return self.call_function(target, arguments) if isinstance(target, JobFunction) else None

    def instantiate(self, of: JobClass, arguments: Arguments) -> Instance:
        """Return an object of a class, its `__init__` followed."""
        instance = Instance(of)
        function = find_method(of, "__init__", instance)
        if function is not None:
            self.call_function(function, arguments)
        else:  # a dataclass
            instance.attributes.update(arguments.keywords)
        self.called.add(of.node)
        return instance

    def _run_body(self, node: FunctionNode, scope: Scope) -> JobValue:
        self.active.append(node)
        kept = len(self.branches)
        try:
            if isinstance(node, ast.Lambda):
                return expressions.evaluate(self, node.body, scope)
            self.returned.append([])
            self.yielded.append([])
            self.run_block(node.body, scope)
            values, items = self.returned.pop(), self.yielded.pop()
            return Listing(items) if items else choose(values)
        finally:
            self.active.pop()
            del self.branches[kept:]

    def _bind(self, function: JobFunction, arguments: Arguments, scope: Scope) -> None:
        signature = function.node.args
        names = [*signature.posonlyargs, *signature.args]
        given = list(arguments.positional)
        if function.owner is not None:
            given.insert(0, function.owner)
        defaults: list[ast.expr | None] = [None] * (len(names) - len(signature.defaults)) + list(signature.defaults)
        for place, name in enumerate(names):
            value = given[place] if place < len(given) else arguments.keywords.get(name.arg)
            scope.names[name.arg] = value or self._default(name, defaults[place], function.scope)
        for name, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
            scope.names[name.arg] = arguments.keywords.get(name.arg) or self._default(name, default, function.scope)
        if signature.vararg is not None:
            scope.names[signature.vararg.arg] = Listing(list(given[len(names) :]), is_complete=arguments.is_complete)
        if signature.kwarg is not None:
            known = {name.arg for name in (*names, *signature.kwonlyargs)}
            rest: dict[object, JobValue] = {n: v for n, v in arguments.keywords.items() if n not in known}
            scope.names[signature.kwarg.arg] = Table(rest, is_complete=arguments.is_complete)

    def _default(self, name: ast.arg, default: ast.expr | None, scope: Scope) -> JobValue:
        if default is not None and not self.is_root:
            return expressions.evaluate(self, default, scope)
        said = "" if name.annotation is None else ast.unparse(name.annotation)
        if said.endswith("DataFrame"):
            return self.trace.keep(Frame(op="unknown", line=name.lineno, what=f"parameter {name.arg}"))
        return expressions.guess(name.arg)

    def _follow_root(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.ClassDef | None) -> None:
        """Follow a function that nothing in the file calls, with parameters of which nothing is known."""
        call = ast.Call(func=ast.Name(id=node.name, lineno=node.lineno), args=[], keywords=[], lineno=node.lineno)
        instance = None
        if owner is not None:
            known = self.module.find(owner.name)
            of = known if isinstance(known, JobClass) else JobClass(owner, self.module)
            instance = self.instantiate(of, Arguments(node=call, positional=(), keywords={}))
        if node not in self.called:
            static = any(ast.unparse(mark) == "staticmethod" for mark in node.decorator_list)
            function = JobFunction(node, self.module, None if static else instance, is_bare=True)
            self.is_root = True  # a caller elsewhere may give other values than the defaults
            self.call_function(function, Arguments(node=call, positional=(), keywords={}))

    # -- statements

    def run_block(self, body: Iterable[ast.stmt], scope: Scope) -> bool:
        """Follow statements; return whether what stands behind them can be reached."""
        return all(self._run(statement, scope) for statement in body)

    def _run(self, node: ast.stmt, scope: Scope) -> bool:
        self.spend(node)
        runner = getattr(self, f"_run_{type(node).__name__.lower()}", None)
        return True if runner is None else bool(runner(node, scope))

    def _run_expr(self, node: ast.Expr, scope: Scope) -> bool:
        expressions.evaluate(self, node.value, scope)
        return True

    def _run_assign(self, node: ast.Assign, scope: Scope) -> bool:
        value = expressions.evaluate(self, node.value, scope)
        for target in node.targets:
            self.bind_target(target, value, scope)
        return True

    def _run_annassign(self, node: ast.AnnAssign, scope: Scope) -> bool:
        if node.value is not None:
            self.bind_target(node.target, expressions.evaluate(self, node.value, scope), scope)
        return True

    def _run_augassign(self, node: ast.AugAssign, scope: Scope) -> bool:
        whole = ast.BinOp(left=_to_load(node.target), op=node.op, right=node.value, lineno=node.lineno)
        self.bind_target(node.target, expressions.evaluate(self, whole, scope), scope)
        return True

    def bind_target(self, target: ast.expr, value: JobValue, scope: Scope) -> None:
        """Bind what stands at the left of `=`."""
        if isinstance(target, ast.Name):
            scope.bind(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items if isinstance(value, Listing) and len(value.items) == len(target.elts) else None
            for place, each in enumerate(target.elts):
                part = items[place] if items is not None else _take_part(value, place)
                self.bind_target(each, part, scope)
        elif isinstance(target, ast.Attribute):
            for owner in alternatives(expressions.evaluate(self, target.value, scope)):
                if isinstance(owner, Instance):
                    owner.attributes[target.attr] = value
        elif isinstance(target, ast.Subscript):
            key = expressions.evaluate(self, target.slice, scope)
            for owner in alternatives(expressions.evaluate(self, target.value, scope)):
                if isinstance(owner, Table) and isinstance(key, Constant):
                    owner.items[key.value] = value

    def _run_global(self, node: ast.Global, scope: Scope) -> bool:
        scope.shared.update(dict.fromkeys(node.names, self.module))
        return True

    def _run_nonlocal(self, node: ast.Nonlocal, scope: Scope) -> bool:
        for name in node.names:
            outer = scope.outer
            while outer is not None and name not in outer.names:
                outer = outer.outer
            if outer is not None:
                scope.shared[name] = outer
        return True

    def _run_return(self, node: ast.Return, scope: Scope) -> bool:
        value = expressions.evaluate(self, node.value, scope) if node.value is not None else Constant(None)
        if self.returned:
            self.returned[-1].append(value)
        return False

    def _run_raise(self, node: ast.stmt, scope: Scope) -> bool:  # noqa: ARG002 -- the signature of all runners
        return False

    def _run_if(self, node: ast.If, scope: Scope) -> bool:
        test = expressions.evaluate(self, node.test, scope)
        if ast.unparse(node.test) in {"__name__ == '__main__'", "TYPE_CHECKING"}:
            return self.run_block(node.body, scope)
        if isinstance(test, Constant):
            return self.run_block(node.body if test.value else node.orelse, scope)
        return self._run_arms(node, [node.body, node.orelse], scope)

    def _run_match(self, node: ast.Match, scope: Scope) -> bool:
        expressions.evaluate(self, node.subject, scope)
        return self._run_arms(node, [*(case.body for case in node.cases), []], scope)

    def _run_arms(self, node: ast.AST, arms: Sequence[Sequence[ast.stmt]], scope: Scope) -> bool:
        """Follow each arm from the same names, and join the names of those that go on."""
        before, kept, ends = dict(scope.names), len(self.branches), dict[int, dict[str, JobValue]]()
        for number, arm in enumerate(arms):
            scope.names = dict(before)
            self.branches.append((id(node), number))
            if self.run_block(arm, scope):
                ends[number] = scope.names
            del self.branches[kept:]
        scope.names = _join(list(ends.values())) if ends else before
        if len(ends) == 1:  # what stands behind runs only where the other arms did not end
            self.branches.append((id(node), next(iter(ends))))
        return bool(ends)

    def _run_for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> bool:
        before = dict(scope.names)
        over = expressions.evaluate(self, node.iter, scope)
        for number, item in enumerate(list_items(over, node)):
            self.bind_target(node.target, item, scope)
            self.site.append(-1 - number)
            self.run_block(node.body, scope)
            self.site.pop()
        if not (isinstance(over, Listing | Table) and over.is_complete and over.items):
            self._leave_loop(node, before, scope)
        return self.run_block(node.orelse, scope)

    _run_asyncfor = _run_for

    def _leave_loop(self, node: ast.For | ast.AsyncFor | ast.While, before: dict[str, JobValue], scope: Scope) -> None:
        """Join names with those before a loop that may not run; what only the loop marks cannot be told."""
        marked = [name for name in before if _is_marked(scope.names[name]) and not _is_marked(before[name])]
        opened = [name for name in before if _has_more_options(scope.names[name])]
        for name in marked:
            self.trace.add_gap(node.lineno, f"{name}: whether the loop runs that gives it a watermark")
        after = scope.names
        scope.names = _join([before, after])
        scope.names.update({name: after[name] for name in (*marked, *opened)})

    def _run_while(self, node: ast.While, scope: Scope) -> bool:
        test = expressions.evaluate(self, node.test, scope)
        before = dict(scope.names)
        self.run_block(node.body, scope)
        if not (isinstance(test, Constant) and test.value):
            self._leave_loop(node, before, scope)
        return True

    def _run_with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
        for item in node.items:
            value = expressions.evaluate(self, item.context_expr, scope)
            if item.optional_vars is not None:
                self.bind_target(item.optional_vars, value, scope)
        return self.run_block(node.body, scope)

    _run_asyncwith = _run_with

    def _run_try(self, node: ast.Try, scope: Scope) -> bool:
        goes_on = self._run_arms(node, [[*node.body, *node.orelse], *(one.body for one in node.handlers)], scope)
        return self.run_block(node.finalbody, scope) and goes_on

    def _run_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> bool:
        for default in (*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)):
            expressions.evaluate(self, default, scope)
        scope.bind(node.name, JobFunction(node, scope))
        return True

    _run_asyncfunctiondef = _run_functiondef

    def _run_classdef(self, node: ast.ClassDef, scope: Scope) -> bool:
        inner = Scope(outer=scope)
        self.run_block([one for one in node.body if not isinstance(one, Definition)], inner)
        scope.names[node.name] = JobClass(node, inner)
        return True

    def _run_import(self, node: ast.Import, scope: Scope) -> bool:
        for name in node.names:
            scope.names[name.asname or name.name.partition(".")[0]] = Imported(
                name.name if name.asname else name.name.partition(".")[0]
            )
        return True

    def _run_importfrom(self, node: ast.ImportFrom, scope: Scope) -> bool:
        for name in node.names:
            if name.name == "*":
                self.has_star = self.has_star or (node.module or "").startswith("pyspark")
            else:
                scope.names[name.asname or name.name] = Imported(f"{node.module or ''}.{name.name}")
        return True


def _is_marked(value: JobValue) -> bool:
    """Return whether a DataFrame has a watermark."""
    frames = [each for each in alternatives(value) if isinstance(each, Frame)]
    return any(node.op == "watermark" for frame in frames for node in list_ancestors(frame))


def _has_more_options(value: JobValue) -> bool:
    """Return whether a reader or a writer may have options that are not in the file."""
    return any(isinstance(each, Reader | Writer) and not each.is_complete for each in alternatives(value))


def _take_part(value: JobValue, place: int) -> JobValue:
    if isinstance(value, Frame):
        return value  # randomSplit
    if not isinstance(value, UnknownValue):
        return UnknownValue()
    return UnknownValue(f"{{{value.text.strip('{}')}[{place}]}}", value.taint)


def _join(ends: Sequence[dict[str, JobValue]]) -> dict[str, JobValue]:
    """Return names with every value that one of the ends gives them."""
    if len(ends) == 1:
        return ends[0]
    names = {name for end in ends for name in end}
    return {name: choose(end[name] for end in ends if name in end) for name in sorted(names)}


def _to_load(target: ast.expr) -> ast.expr:
    """Return a target as an expression that reads it."""
    copied = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(copied, target)


def _list_functions(tree: ast.Module) -> list[Owned]:
    """Return the functions of a module and the methods of its classes."""
    found: list[Owned] = []
    for node in tree.body:
        if isinstance(node, Definition):
            found.append((node, None))
        elif isinstance(node, ast.ClassDef):
            found += [(one, node) for one in node.body if isinstance(one, Definition)]
    return found


def _list_roots(tree: ast.Module) -> list[Owned]:
    """Return the functions that no other function of the file names."""
    named: dict[str, set[ast.AST]] = {}
    functions = _list_functions(tree)
    for function, _ in functions:
        for node in ast.walk(function):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            named.setdefault(name, set()).add(function)
    return [(one, owner) for one, owner in functions if not named.get(one.name, set()) - {one}]
