"""Statements of a job, followed one by one: names, branches, loops, functions and classes."""

import ast
from collections.abc import Iterable
from dataclasses import replace

from cutover.parity.jobs import calls, expressions
from cutover.parity.jobs.flow import RUNNERS
from cutover.parity.jobs.paths import Activation, Loop
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
    Scope,
    Session,
    Table,
    UnknownValue,
    alternatives,
    choose,
    find_method,
    walk,
)
from cutover.parity.jobs.walk import Walk

DEPTH = 24
STEPS = 40_000


Definition = ast.FunctionDef | ast.AsyncFunctionDef
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Owned = tuple[Definition, ast.ClassDef | None]
"""A function with the class that it is a method of."""


ASIDE = frozenset(
    {"staticmethod", "classmethod", "property", "cached_property", "abstractmethod", "override", "contextmanager"}
    | {"wraps", "lru_cache", "cache", "overload", "final", "udf", "pandas_udf", "udtf", "fixture", "retry", "task"}
    | {"flow", "op", "asset", "table", "view", "append_flow", "materialized_view", "command", "option", "argument"}
    | {"expect", "expect_or_drop", "expect_or_fail", "expect_all", "step", "node", "validate_call", "typechecked"}
)
"""Decorators of libraries that yield what the function yields."""

EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit", "os.abort", "dbutils.notebook.exit", "notebook.exit"})
"""Functions that end the job."""


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
        self.activations: list[Activation] = []
        self.loops: list[Loop] = []
        self.functions: list[JobFunction] = []
        self.yielded: list[list[JobValue]] = []
        self.active: list[ast.AST] = []
        self.called: set[ast.AST] = set()
        self.budget = STEPS
        self.is_root = False  # the function that begins has no caller in the file
        self.has_star = False  # names of pyspark.sql.functions stand for themselves
        self.has_ended = False  # the function that was called last never returns

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
            return _call_decorated(self, function, arguments)
        if node in self.active or len(self.active) > DEPTH:
            if any(isinstance(value, Frame) for value in walk(arguments.values)):
                self.trace.add_gap(arguments.node.lineno, f"{function.name} calls itself")
            return UnknownValue(function.name)
        scope = Scope(outer=function.scope)
        self._bind(function, arguments, scope)
        self.is_root = False
        self.called.add(node)
        self.trace.site.append(arguments.node.lineno)
        self.functions.append(function)
        try:
            return self._run_body(node, scope)
        finally:
            self.trace.site.pop()
            self.functions.pop()

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
        activation = Activation(self.trace.assignment_log.mark(), len(self.trace.branches))
        self.active.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return expressions.evaluate(self, node.body, scope)
            self.activations.append(activation)
            self.yielded.append([])
            goes_on = self.run_block(node.body, scope)
            self.trace.assignment_log.leave(activation.start, activation.ends, goes_on=goes_on)
            self.activations.pop()
            items = self.yielded.pop()
            self.has_ended = not (goes_on or activation.ends or items or _is_abstract(node))
            return Listing(items) if items else choose(activation.returned)
        finally:
            self.active.pop()
            del self.trace.branches[activation.depth :]

    def _bind(self, function: JobFunction, arguments: Arguments, scope: Scope) -> None:
        signature = function.node.args
        names = [*signature.posonlyargs, *signature.args]
        positional = list(arguments.positional)
        if function.owner is not None:
            positional.insert(0, function.owner)
        defaults: list[ast.expr | None] = [None] * (len(names) - len(signature.defaults)) + list(signature.defaults)
        for place, name in enumerate(names):
            value = positional[place] if place < len(positional) else arguments.keywords.get(name.arg)
            scope.names[name.arg] = value or self._default(name, defaults[place], function.scope)
        for name, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
            scope.names[name.arg] = arguments.keywords.get(name.arg) or self._default(name, default, function.scope)
        if signature.vararg is not None:
            scope.names[signature.vararg.arg] = Listing(
                list(positional[len(names) :]), is_complete=arguments.is_complete
            )
        if signature.kwarg is not None:
            known_names = {name.arg for name in (*names, *signature.kwonlyargs)}
            remainder: dict[object, JobValue] = {n: v for n, v in arguments.keywords.items() if n not in known_names}
            scope.names[signature.kwarg.arg] = Table(remainder, is_complete=arguments.is_complete)

    def _default(self, name: ast.arg, default: ast.expr | None, scope: Scope) -> JobValue:
        if default is not None and not self.is_root:
            return expressions.evaluate(self, default, scope)
        message = "" if name.annotation is None else ast.unparse(name.annotation)
        if message.endswith("DataFrame"):
            self.trace.steps -= 1  # what is done to it counts, not that it is there
            return self.trace.keep(Frame(op="unknown", line=name.lineno, what=f"parameter {name.arg}"))
        if message.endswith("SparkSession"):
            return Session()
        value = expressions.guess(name.arg)
        if default is not None and isinstance(value, UnknownValue):
            return replace(value, default=expressions.evaluate(self, default, scope))
        return value

    def _follow_root(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.ClassDef | None) -> None:
        """Follow a function that nothing in the file calls, with parameters of which nothing is known."""
        call = ast.Call(func=ast.Name(id=node.name, lineno=node.lineno), args=[], keywords=[], lineno=node.lineno)
        instance = None
        if owner is not None:
            job_class = self.module.find(owner.name)
            of = job_class if isinstance(job_class, JobClass) else JobClass(owner, self.module)
            instance = self.instantiate(of, Arguments(node=call, positional=(), keywords={}))
        self.trace.root = node.lineno
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
        if type(node) in RUNNERS:
            return RUNNERS[type(node)](self, node, scope)
        runner = getattr(self, f"_run_{type(node).__name__.lower()}", None)
        return True if runner is None else bool(runner(node, scope))

    def _run_expr(self, node: ast.Expr, scope: Scope) -> bool:
        self.has_ended = False
        expressions.evaluate(self, node.value, scope)
        is_exit = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in EXITS
        return not (is_exit or (isinstance(node.value, ast.Call) and self.has_ended))

    def _run_assign(self, node: ast.Assign, scope: Scope) -> bool:
        self.has_ended = False
        value = expressions.evaluate(self, node.value, scope)
        for target in node.targets:
            self.bind_target(target, value, scope)
        return not (isinstance(node.value, ast.Call) and self.has_ended)

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
            self.assign(scope, target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items if isinstance(value, Listing) and len(value.items) == len(target.elts) else None
            for place, element in enumerate(target.elts):
                part = items[place] if items is not None else _take_part(value, place)
                self.bind_target(element, part, scope)
        elif isinstance(target, ast.Attribute):
            for owner in alternatives(expressions.evaluate(self, target.value, scope)):
                if isinstance(owner, Instance):
                    self.trace.assignment_log.assign(owner.attributes, target.attr, value)
        elif isinstance(target, ast.Subscript):
            key = expressions.evaluate(self, target.slice, scope)
            for owner in alternatives(expressions.evaluate(self, target.value, scope)):
                self._set_item(owner, key, value)

    def _set_item(self, owner: JobValue, key: JobValue, value: JobValue) -> None:
        if isinstance(owner, Table) and isinstance(key, Constant):
            self.trace.assignment_log.assign(owner.items, key.value, value)
        elif isinstance(owner, Table):
            owner.is_complete = False

    def assign(self, scope: Scope, name: str, value: JobValue) -> None:
        """Bind a name, where it was declared."""
        self.trace.assignment_log.assign(scope.shared.get(name, scope).names, name, value)

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

    def _run_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> bool:
        for default in (*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)):
            expressions.evaluate(self, default, scope)
        self.assign(scope, node.name, JobFunction(node, scope))
        return True

    _run_asyncfunctiondef = _run_functiondef

    def _run_classdef(self, node: ast.ClassDef, scope: Scope) -> bool:
        inner = Scope(outer=scope)
        self.run_block([one for one in node.body if not isinstance(one, Definition)], inner)
        self.assign(scope, node.name, JobClass(node, inner))
        return True

    def _run_import(self, node: ast.Import, scope: Scope) -> bool:
        for name in node.names:
            root = name.name.partition(".")[0]
            self.assign(scope, name.asname or root, Imported(name.name if name.asname else root))
        return True

    def _run_importfrom(self, node: ast.ImportFrom, scope: Scope) -> bool:
        for name in node.names:
            if name.name == "*":
                self.has_star = self.has_star or (node.module or "").startswith("pyspark")
            else:
                self.assign(scope, name.asname or name.name, Imported(f"{node.module or ''}.{name.name}"))
        return True


def _take_part(value: JobValue, place: int) -> JobValue:
    if isinstance(value, Frame):
        return value  # randomSplit
    if not isinstance(value, UnknownValue):
        return UnknownValue()
    return UnknownValue(f"{{{value.text.strip('{}')}[{place}]}}", value.taint)


def _is_abstract(node: Definition) -> bool:
    """Return whether a function only says that a subclass has to define it."""
    return any(isinstance(part, ast.Raise) and "NotImplemented" in ast.unparse(part) for part in node.body)


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
    return [(item, owner) for item, owner in functions if not named.get(item.name, set()) - {item}]


def _call_decorated(job: Walk, function: JobFunction, arguments: Arguments) -> JobValue:
    """Return what a function yields behind its decorators: those of the file are followed, others are named."""
    owner = () if function.owner is None else (function.owner,)
    target: JobValue = replace(function, owner=None, is_bare=True)
    unknown: list[str] = []
    marks = function.node.decorator_list if not isinstance(function.node, ast.Lambda) else []
    for mark in reversed(marks):
        if _get_decorator_name(mark) in ASIDE:
            continue
        decorator = expressions.evaluate(job, mark, function.scope)
        if isinstance(decorator, JobFunction):
            node = ast.Call(func=mark, args=[], keywords=[], lineno=mark.lineno)
            target = job.call_function(decorator, Arguments(node=node, positional=(target,), keywords={}))
        else:
            unknown.append(_get_decorator_name(mark))
    values = (*owner, *arguments.positional)
    result = calls.call(job, target, replace(arguments, positional=values))
    if unknown and any(isinstance(value, Frame) for value in walk([result])):
        message = f"decorator {', '.join(unknown)}"
        job.trace.add_gap(function.node.lineno, f"{message}: what it does to a DataFrame")
        return calls.call_opaque(job, message, replace(arguments, positional=alternatives(result), keywords={}))
    return result


def _get_decorator_name(mark: ast.expr) -> str:
    """Return the last name of a decorator, without its arguments."""
    inner = mark.func if isinstance(mark, ast.Call) else mark
    return inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else "?"
