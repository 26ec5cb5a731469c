"""Interpreter of a job's statements: names, branches, loops, functions and classes."""

import ast
from collections.abc import Iterable
from dataclasses import replace

from cutover.parity.jobs import calls, containers, expressions
from cutover.parity.jobs.flow import RUNNERS
from cutover.parity.jobs.paths import Activation, Loop
from cutover.parity.jobs.trace import Arguments, JobAnalysis, Trace
from cutover.parity.jobs.values import (
    MISSING,
    BoundFunction,
    DictValue,
    Frame,
    ImportedName,
    Instance,
    JobClass,
    JobFunction,
    JobValue,
    ListValue,
    Scope,
    Session,
    UnknownValue,
    find_method,
    list_alternatives,
    merge_alternatives,
    walk_values,
)

MAX_CALL_DEPTH = 24
MAX_STEPS = 40_000


Definition = ast.FunctionDef | ast.AsyncFunctionDef
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
OwnedFunction = tuple[Definition, ast.ClassDef | None]
"""Function with the class that it is a method of, if any."""


TRANSPARENT_DECORATORS = frozenset(
    {"staticmethod", "classmethod", "property", "cached_property", "abstractmethod", "override", "contextmanager"}
    | {"wraps", "lru_cache", "cache", "overload", "final", "udf", "pandas_udf", "udtf", "fixture", "retry", "task"}
    | {"flow", "op", "asset", "table", "view", "append_flow", "materialized_view", "command", "option", "argument"}
    | {"expect", "expect_or_drop", "expect_or_fail", "expect_all", "step", "node", "validate_call", "typechecked"}
)
"""Library decorators that do not change what a function returns."""

EXIT_FUNCTIONS = frozenset(
    {"sys.exit", "exit", "quit", "os._exit", "os.abort", "dbutils.notebook.exit", "notebook.exit"}
)
"""Functions that end the job."""


class TooLargeError(Exception):
    """Job with more paths than are analyzed; `line` is where the analysis ended."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Interpreter:
    """Interpreter of one module that records its use of Spark."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.module = Scope()
        self.activations: list[Activation] = []
        self.loops: list[Loop] = []
        self.functions: list[JobFunction] = []
        self.yielded_values: list[list[JobValue]] = []
        self.active_nodes: list[ast.AST] = []
        self.called_nodes: set[ast.AST] = set()
        self.remaining_steps = MAX_STEPS
        self.is_entry_call = False  # the function to be called has no caller in the file
        self.has_star_import = False  # unbound names may be functions of pyspark
        self.call_never_returned = False  # the last call never returns

    def follow_module(self, tree: ast.Module) -> None:
        """Interpret a module's statements, then the functions that none of them calls."""
        self.run_block(tree.body, self.module)
        for function, owner in _list_roots(tree):
            if function not in self.called_nodes:
                self._follow_root(function, owner)
        for function, owner in _list_functions(tree):
            if function not in self.called_nodes:
                self._follow_root(function, owner)

    def count_step(self, node: ast.AST) -> None:
        """Count a step.

        Raises:
            TooLargeError: The limit is exceeded.
        """
        self.remaining_steps -= 1
        if self.remaining_steps < 0:
            raise TooLargeError(getattr(node, "lineno", 1))

    # -- functions

    def call_function(self, function: JobFunction, arguments: Arguments) -> JobValue:
        """Interpret the body of a function with its arguments bound, and return its result."""
        node = function.node
        if not function.is_undecorated and not isinstance(node, ast.Lambda) and node.decorator_list:
            return _call_decorated(self, function, arguments)
        if node in self.active_nodes or len(self.active_nodes) > MAX_CALL_DEPTH:
            if any(isinstance(value, Frame) for value in walk_values(arguments.values)):
                self.trace.add_gap(arguments.node.lineno, f"{function.name} calls itself")
            return UnknownValue(function.name)
        scope = Scope(outer=function.scope)
        self._bind_arguments(function, arguments, scope)
        self.is_entry_call = False
        self.called_nodes.add(node)
        self.trace.call_site += [arguments.node.lineno, getattr(arguments.node, "col_offset", 0)]
        self.functions.append(function)
        try:
            return self._run_body(node, scope)
        finally:
            del self.trace.call_site[-2:]
            self.functions.pop()

    def call_value(self, target: JobValue, arguments: Arguments) -> JobValue | None:
        """Call a function, partial or object of the job; None for any other value."""
        if isinstance(target, BoundFunction):
            positional = (*target.positional, *arguments.positional)
            keywords = {**target.keywords, **arguments.keywords}
            return self.call_value(target.function, replace(arguments, positional=positional, keywords=keywords))
        if isinstance(target, Instance):
            target = find_method(target.job_class, "__call__", target) or target
        return self.call_function(target, arguments) if isinstance(target, JobFunction) else None

    def instantiate(self, job_class: JobClass, arguments: Arguments) -> Instance:
        """Make an object of a class by interpreting its `__init__`."""
        instance = Instance(job_class)
        function = find_method(job_class, "__init__", instance)
        if function is not None:
            self.call_function(function, arguments)
        else:  # a dataclass
            fields = [ast.unparse(item.target) for item in job_class.node.body if isinstance(item, ast.AnnAssign)]
            instance.attributes.update(zip(fields, arguments.positional, strict=False))
            instance.attributes.update(arguments.keywords)
        self.called_nodes.add(job_class.node)
        return instance

    def _run_body(self, node: FunctionNode, scope: Scope) -> JobValue:
        activation = Activation(self.trace.assignment_log.mark(), len(self.trace.branches))
        self.active_nodes.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return expressions.evaluate(self, node.body, scope)
            self.activations.append(activation)
            self.yielded_values.append([])
            continues = self.run_block(node.body, scope)
            self.trace.assignment_log.join_exits(activation.start, activation.ends, continues=continues)
            self.activations.pop()
            items = self.yielded_values.pop()
            self.call_never_returned = not (continues or activation.ends or items or _is_abstract(node))
            return ListValue(items) if items else merge_alternatives(activation.return_values)
        finally:
            self.active_nodes.pop()
            del self.trace.branches[activation.branch_depth :]

    def _bind_arguments(self, function: JobFunction, arguments: Arguments, scope: Scope) -> None:
        signature = function.node.args
        parameters = [*signature.posonlyargs, *signature.args]
        positional = list(arguments.positional)
        if function.owner is not None:
            positional.insert(0, function.owner)
        defaults: list[ast.expr | None] = [None] * (len(parameters) - len(signature.defaults)) + list(
            signature.defaults
        )
        for index, parameter in enumerate(parameters):
            value = positional[index] if index < len(positional) else arguments.keywords.get(parameter.arg)
            scope.names[parameter.arg] = value or self._evaluate_default(parameter, defaults[index], function.scope)
        for name, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
            scope.names[name.arg] = arguments.keywords.get(name.arg) or self._evaluate_default(
                name, default, function.scope
            )
        if signature.vararg is not None:
            scope.names[signature.vararg.arg] = ListValue(
                list(positional[len(parameters) :]), is_complete=arguments.is_complete
            )
        if signature.kwarg is not None:
            known_names = {parameter.arg for parameter in (*parameters, *signature.kwonlyargs)}
            other_keywords: dict[object, JobValue] = {
                n: v for n, v in arguments.keywords.items() if n not in known_names
            }
            scope.names[signature.kwarg.arg] = DictValue(other_keywords, is_complete=arguments.is_complete)

    def _evaluate_default(self, parameter: ast.arg, default: ast.expr | None, scope: Scope) -> JobValue:
        if default is not None and not self.is_entry_call:
            return expressions.evaluate(self, default, scope)
        annotation = "" if parameter.annotation is None else ast.unparse(parameter.annotation)
        if annotation.endswith("DataFrame"):
            self.trace.operation_count -= 1  # a parameter alone is no Spark operation
            return self.trace.add_frame(
                Frame(op="unknown_decorators", line=parameter.lineno, subject=f"parameter {parameter.arg}")
            )
        if annotation.endswith("SparkSession"):
            return Session()
        value = expressions.guess_value_by_name(parameter.arg)
        if default is not None and isinstance(value, UnknownValue):
            return replace(value, default=expressions.evaluate(self, default, scope))
        return value

    def _follow_root(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.ClassDef | None) -> None:
        """Interpret a function that nothing in the file calls, with unknown arguments."""
        call = ast.Call(func=ast.Name(id=node.name, lineno=node.lineno), args=[], keywords=[], lineno=node.lineno)
        instance = None
        if owner is not None:
            job_class = self.module.find(owner.name)
            of = job_class if isinstance(job_class, JobClass) else JobClass(owner, self.module)
            instance = self.instantiate(of, Arguments(node=call, positional=(), keywords={}))
        self.trace.root_line = node.lineno
        if node not in self.called_nodes:
            is_static = any(ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list)
            function = JobFunction(node, self.module, None if is_static else instance, is_undecorated=True)
            self.is_entry_call = True  # a caller in another file may override the defaults
            self.call_function(function, Arguments(node=call, positional=(), keywords={}))

    # -- statements

    def run_block(self, body: Iterable[ast.stmt], scope: Scope) -> bool:
        """Interpret statements; return whether the code after them is reachable."""
        return all(self._run(statement, scope) for statement in body)

    def _run(self, node: ast.stmt, scope: Scope) -> bool:
        self.count_step(node)
        if node in self.trace.display_statements:
            earlier, earlier_sql = set(self.trace.findings), set(self.trace.sql_findings)
            continues = self._run_simple(node, scope)
            self.trace.drop_shown(earlier, earlier_sql)
            return continues
        return self._run_simple(node, scope)

    def _run_simple(self, node: ast.stmt, scope: Scope) -> bool:
        if type(node) in RUNNERS:
            return RUNNERS[type(node)](self, node, scope)
        runner = getattr(self, f"_run_{type(node).__name__.lower()}", None)
        return True if runner is None else bool(runner(node, scope))

    def _run_expr(self, node: ast.Expr, scope: Scope) -> bool:
        self.call_never_returned = False
        expressions.evaluate(self, node.value, scope)
        is_exit = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in EXIT_FUNCTIONS
        return not (is_exit or (isinstance(node.value, ast.Call) and self.call_never_returned))

    def _run_assign(self, node: ast.Assign, scope: Scope) -> bool:
        self.call_never_returned = False
        value = expressions.evaluate(self, node.value, scope)
        for target in node.targets:
            self.bind_target(target, value, scope)
        return not (isinstance(node.value, ast.Call) and self.call_never_returned)

    def _run_annassign(self, node: ast.AnnAssign, scope: Scope) -> bool:
        if node.value is not None:
            self.bind_target(node.target, expressions.evaluate(self, node.value, scope), scope)
        return True

    def _run_augassign(self, node: ast.AugAssign, scope: Scope) -> bool:
        owner, value = expressions.evaluate(self, _to_load(node.target), scope), node.value
        log = self.trace.assignment_log
        is_addition = isinstance(node.op, ast.Add | ast.BitOr)
        if isinstance(owner, ListValue | DictValue) and is_addition:
            call_node = ast.Call(func=node.target, args=[value], keywords=[], lineno=node.lineno)
            arguments = Arguments(node=call_node, positional=[expressions.evaluate(self, value, scope)], keywords={})
            change = containers.call_on_list if isinstance(owner, ListValue) else containers.call_on_dict
            change(log, owner, "update", arguments)  # type: ignore[arg-type]  # the function for its kind
            return True
        if isinstance(owner, ListValue | DictValue):
            containers.forget_items(log, owner)
        operation = ast.BinOp(left=_to_load(node.target), op=node.op, right=node.value, lineno=node.lineno)
        self.bind_target(node.target, expressions.evaluate(self, operation, scope), scope)
        return True

    def _run_delete(self, node: ast.Delete, scope: Scope) -> bool:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                key = expressions.evaluate(self, target.slice, scope)
                for owner in list_alternatives(expressions.evaluate(self, target.value, scope)):
                    containers.delete_item(self.trace.assignment_log, owner, key)
        return True

    def bind_target(self, target: ast.expr, value: JobValue, scope: Scope) -> None:
        """Bind the target of an assignment."""
        if isinstance(target, ast.Name):
            self.assign(scope, target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            items = list(value.store.values()) if isinstance(value, ListValue) else []
            has_all = len(items) == len(target.elts) and MISSING not in items
            for index, element in enumerate(target.elts):
                part = items[index] if has_all else _get_element(value, index)
                self.bind_target(element, part, scope)
        elif isinstance(target, ast.Attribute):
            for owner in list_alternatives(expressions.evaluate(self, target.value, scope)):
                if isinstance(owner, Instance):
                    self.trace.assignment_log.assign(owner.attributes, target.attr, value)
        elif isinstance(target, ast.Subscript):
            key = expressions.evaluate(self, target.slice, scope)
            for owner in list_alternatives(expressions.evaluate(self, target.value, scope)):
                containers.set_item(self.trace.assignment_log, owner, key, value)

    def assign(self, scope: Scope, name: str, value: JobValue) -> None:
        """Bind a name in the scope that declares it."""
        self.trace.assignment_log.assign(scope.declaring_scopes.get(name, scope).names, name, value)

    def _run_global(self, node: ast.Global, scope: Scope) -> bool:
        scope.declaring_scopes.update(dict.fromkeys(node.names, self.module))
        return True

    def _run_nonlocal(self, node: ast.Nonlocal, scope: Scope) -> bool:
        for name in node.names:
            outer = scope.outer
            while outer is not None and name not in outer.names:
                outer = outer.outer
            if outer is not None:
                scope.declaring_scopes[name] = outer
        return True

    def _run_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> bool:
        for default in (*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)):
            expressions.evaluate(self, default, scope)
        self.assign(scope, node.name, JobFunction(node, scope))
        return True

    _run_asyncfunctiondef = _run_functiondef

    def _run_classdef(self, node: ast.ClassDef, scope: Scope) -> bool:
        inner = Scope(outer=scope)
        self.run_block([statement for statement in node.body if not isinstance(statement, Definition)], inner)
        self.assign(scope, node.name, JobClass(node, inner))
        return True

    def _run_import(self, node: ast.Import, scope: Scope) -> bool:
        for name in node.names:
            root = name.name.partition(".")[0]
            self.assign(scope, name.asname or root, ImportedName(name.name if name.asname else root))
        return True

    def _run_importfrom(self, node: ast.ImportFrom, scope: Scope) -> bool:
        for name in node.names:
            if name.name == "*":
                self.has_star_import = self.has_star_import or (node.module or "").startswith("pyspark")
            else:
                self.assign(scope, name.asname or name.name, ImportedName(f"{node.module or ''}.{name.name}"))
        return True


def _get_element(value: JobValue, index: int) -> JobValue:
    if isinstance(value, Frame):
        return value  # randomSplit
    if not isinstance(value, UnknownValue):
        return UnknownValue()
    return UnknownValue(f"{{{value.text.strip('{}')}[{index}]}}", value.taint)


def _is_abstract(node: Definition) -> bool:
    """Return whether a function only raises `NotImplementedError`."""
    return any(isinstance(part, ast.Raise) and "NotImplemented" in ast.unparse(part) for part in node.body)


def _to_load(target: ast.expr) -> ast.expr:
    """Return an assignment target as an expression that reads it."""
    copied = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(copied, target)


def _list_functions(tree: ast.Module) -> list[OwnedFunction]:
    """List the functions of a module and the methods of its classes."""
    functions: list[OwnedFunction] = []
    for node in tree.body:
        if isinstance(node, Definition):
            functions.append((node, None))
        elif isinstance(node, ast.ClassDef):
            functions += [(method, node) for method in node.body if isinstance(method, Definition)]
    return functions


def _list_roots(tree: ast.Module) -> list[OwnedFunction]:
    """List the functions that no other function of the file refers to."""
    users_by_name: dict[str, set[ast.AST]] = {}
    functions = _list_functions(tree)
    for function, _ in functions:
        for node in ast.walk(function):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            users_by_name.setdefault(name, set()).add(function)
    return [(item, owner) for item, owner in functions if not users_by_name.get(item.name, set()) - {item}]


def _call_decorated(job: JobAnalysis, function: JobFunction, arguments: Arguments) -> JobValue:
    """Call a function through its decorators: those of the file are interpreted, others are recorded."""
    owner = () if function.owner is None else (function.owner,)
    target: JobValue = replace(function, owner=None, is_undecorated=True)
    unknown_decorators: list[str] = []
    decorators = function.node.decorator_list if not isinstance(function.node, ast.Lambda) else []
    for node in reversed(decorators):
        if _get_decorator_name(node) in TRANSPARENT_DECORATORS:
            continue
        decorator = expressions.evaluate(job, node, function.scope)
        if isinstance(decorator, JobFunction):
            call_node = ast.Call(func=node, args=[], keywords=[], lineno=node.lineno)
            target = job.call_function(decorator, Arguments(node=call_node, positional=(target,), keywords={}))
        else:
            unknown_decorators.append(_get_decorator_name(node))
    values = (*owner, *arguments.positional)
    result = calls.call(job, target, replace(arguments, positional=values))
    if unknown_decorators and any(isinstance(value, Frame) for value in walk_values([result])):
        subject = f"decorator {', '.join(unknown_decorators)}"
        job.trace.add_gap(function.node.lineno, f"{subject}: its effect on a DataFrame")
        return calls.call_opaque(job, subject, replace(arguments, positional=list_alternatives(result), keywords={}))
    return result


def _get_decorator_name(decorator: ast.expr) -> str:
    """Return the last name of a decorator, without arguments."""
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    return inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else "?"
