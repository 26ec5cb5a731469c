"""Functions of Spark's that a job calls, and functions of users, each looked at where it stands."""

import ast
import builtins
from collections.abc import Iterator

from cutover.parity import sql
from cutover.parity.jobs.expressions import MODULES
from cutover.parity.jobs.trace import Found
from cutover.parity.purity import is_chance, is_clock, is_pure, is_service
from cutover.parity.rules import Construct

DEPTH = 6  # names between a function and what it stands for
GENERATORS = frozenset({"Random", "RandomState", "default_rng", "Faker"})
"""Generators of random values; with a seed they give the same ones again."""

USER_MARKS = frozenset({"udf", "pandas_udf"})
ROW_TAKERS = (
    frozenset({"mapInPandas", "mapInArrow", "applyInPandas", "applyInArrow", "foreach", "register"})
    | {"applyInPandasWithState", "transformWithState", "transformWithStateInPandas", "registerFunction"}
    | USER_MARKS
)
DOUBLES = frozenset({"double", "float", "DoubleType", "FloatType"})


class FunctionCalls:
    """Calls of a job and the names under which it knows Spark's functions."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        self.assigned, self.paths = dict[str, ast.expr](), dict[str, str]()
        self.modules, self.names, self.others = set(MODULES), dict[str, str](), set(self.functions)
        for node in ast.walk(tree):
            self._read_import(node)
            if isinstance(node, ast.Assign):
                self.assigned.update({ast.unparse(target): node.value for target in node.targets})
        others = {name for name, path in self.paths.items() if not path.startswith("pyspark.sql")}
        self.modules -= (_list_bound(tree) - set(self.paths)) | others  # `f` may be a file, `func` of SQLAlchemy
        self.statements = _list_statements(tree)

    def find(self, *, has_zone: bool) -> Iterator[Found]:
        """Yield what is found, in no order."""
        for call in self.calls:
            yield from self._judge(call, has_zone=has_zone)
        yield from self._judge_user_functions()

    def count(self) -> int:
        """Return how many calls are of Spark's functions."""
        names = (self.name(call) for call in self.calls if isinstance(call.func, ast.Attribute))
        return sum(bool(name) and sql.is_own_function(name) for name in names)

    def name(self, call: ast.Call) -> str:
        """Return how Spark calls the function that is called; empty if it is none of Spark's."""
        if isinstance(call.func, ast.Name):
            name = call.func.id
            return "" if name in self.others else self.names.get(name, name)
        if isinstance(call.func, ast.Attribute):
            return call.func.attr if ast.unparse(call.func.value) in self.modules else ""
        return ""

    def _read_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for name in node.names:
                root = name.name.partition(".")[0]
                self.paths[name.asname or root] = name.name if name.asname else root
                if name.name == "pyspark.sql.functions":
                    self.modules.add(name.asname or name.name)
                else:
                    self.others.add((name.asname or name.name).partition(".")[0])
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                self.paths[name.asname or name.name] = f"{node.module or '.'}.{name.name}"
                if node.module == "pyspark.sql.functions":
                    self.names[name.asname or name.name] = name.name
                elif node.module == "pyspark.sql" and name.name == "functions":
                    self.modules.add(name.asname or name.name)
                elif name.name != "*":
                    self.others.add(name.asname or name.name)

    def _judge(self, call: ast.Call, *, has_zone: bool) -> Iterator[Found]:
        """Look at a function of Spark's: `F.rand()`, `rand()`."""
        name = self.name(call)
        if name in sql.CLOCK and not (name == "unix_timestamp" and call.args):
            yield call.lineno, Construct.CLOCK, name
        elif name in sql.RANDOM:
            yield call.lineno, Construct.RANDOM, name
        elif name in sql.ORDER and not self._is_sorted(call) and not self._is_over(call):
            yield call.lineno, Construct.ORDER, name
        elif name in sql.MOMENTS or (name in {"sum", "avg", "mean"} and _list_words(call) & DOUBLES):
            yield call.lineno, Construct.FLOAT_SUM, f"{name} of a double"
        elif name in sql.TIME_ZONE and not has_zone:
            yield call.lineno, Construct.TIME_ZONE, name
        elif name in {"row_number", "lag", "lead"} and not self._list_order(call) & sql.POSITION:
            yield call.lineno, Construct.TIES, name

    def _is_sorted(self, call: ast.Call) -> bool:
        return any(
            self.name(parent) in sql.SORTS and parent is not call and call in ast.walk(parent) for parent in self.calls
        )

    def _is_over(self, call: ast.Call) -> bool:
        """Return whether an aggregate is taken over a window of rows whose order tells any two of them apart."""
        over = any(_get_method(parent) == "over" and call in ast.walk(parent.func) for parent in self.calls)
        return over and bool(self._list_order(call) & sql.POSITION)

    def _list_order(self, call: ast.Call) -> set[str]:
        """Return the texts in the statement of a call, and in those that define the names in it."""
        is_inside = [statement for statement in self.statements if call in ast.walk(statement)]
        statement = min(is_inside, key=lambda node: len(list(ast.walk(node))), default=self.tree)
        words, names = _list_words(statement), {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        for other in self.statements:
            if isinstance(other, ast.Assign) and names & {t.id for t in other.targets if isinstance(t, ast.Name)}:
                words |= _list_words(other)
        return words

    def _judge_user_functions(self) -> Iterator[Found]:
        """Yield functions of users that ask the clock, chance or another system, or that call what is not known."""
        for name, function in self._list_user_functions():
            for line, path in self._list_calls(function, set()):
                if path.startswith("tempfile."):
                    continue  # another name for a file, not another value
                if is_clock(path) or is_chance(path) or is_service(path):
                    yield line, Construct.UDF, f"{name} calls {path}"
                elif not is_pure(path):
                    yield line, Construct.NOT_UNDERSTOOD, f"{name} calls {path}: a function of another module"

    def _list_user_functions(self) -> Iterator[tuple[str, ast.AST]]:
        for function in self.functions.values():
            marks = {part for mark in function.decorator_list for part in _list_names(mark)}
            if marks & USER_MARKS:
                yield function.name, function
        for call in self.calls:
            name = _get_method(call) or (call.func.id if isinstance(call.func, ast.Name) else "")
            arguments = (*call.args, *(keyword.value for keyword in call.keywords))
            for argument in arguments if self.names.get(name, name) in ROW_TAKERS else ():
                yield from self._find_functions(argument, 0)

    def _find_functions(self, argument: ast.expr, depth: int) -> Iterator[tuple[str, ast.AST]]:
        """Yield the functions of the file that an argument stands for: by name, method, partial or object."""
        match argument:
            case ast.Lambda():
                yield "lambda", argument
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in self.functions:
                yield name, self.functions[name]
            case ast.Name(id=name) if name in self.assigned and depth < DEPTH:
                yield from self._find_functions(self.assigned[name], depth + 1)
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                for method in self.classes[name].body:
                    if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                        yield f"{name}.{method.name}", method
            case ast.Call() if depth < DEPTH:
                for value in argument.args:
                    yield from self._find_functions(value, depth + 1)
            case _:
                return

    def _list_calls(self, function: ast.AST, visited: set[ast.AST]) -> Iterator[tuple[int, str]]:
        """Yield the line and the dotted path of each call of another module, through functions of the file."""
        if function in visited:
            return
        visited.add(function)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            own = _get_method(call) or (call.func.id if isinstance(call.func, ast.Name) else "")
            root = _find_root(call.func)
            is_own = isinstance(call.func, ast.Name) or root in {"self", "cls"} or root in self.assigned
            path = self._find_path(call.func, 0)
            if path:
                if not (_get_method(call) in GENERATORS and call.args):
                    yield call.lineno, path
            elif is_own and own in self.functions:
                yield from self._list_calls(self.functions[own], visited)

    def _find_path(self, node: ast.expr, depth: int) -> str:
        """Return the dotted path of what a call is of, as far as imports and assignments tell; else empty."""
        match node:
            case ast.Name(id=name) if name in self.functions or name in self.classes:
                return ""
            case ast.Name(id=name) if name in self.paths:
                return self.paths[name]
            case ast.Name(id=name) if name not in self.assigned:
                return f"builtins.{name}" if hasattr(builtins, name) else ""
            case ast.Attribute() if ast.unparse(node) not in self.assigned:
                path = self._find_path(node.value, depth + 1) if depth < DEPTH else ""
                return f"{path}.{node.attr}" if path else ""
            case ast.Name() | ast.Attribute():  # an object that a call of another module has made
                value = self.assigned[ast.unparse(node)]
                return self._find_path(value.func, depth + 1) if isinstance(value, ast.Call) and depth < DEPTH else ""
            case _:
                return ""


def _find_root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _get_method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _list_names(node: ast.AST) -> set[str]:
    parts = (part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute))
    return {part.id if isinstance(part, ast.Name) else part.attr for part in parts}


def _list_words(node: ast.AST) -> set[str]:
    """Return the texts and the names in a node."""
    texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return {text.rpartition(".")[2] for text in texts} | _list_names(node)


def _list_bound(tree: ast.Module) -> set[str]:
    """Return the names that a file binds by assignments, loops, `with` and parameters."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _list_statements(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
