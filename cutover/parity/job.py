"""Check of a file of a job: of a Spark job in Python, or of a SQL script.

The statements of a job in Python are interpreted, and each query is checked by its own lineage; calls of functions are
checked where they are written. Of a script, the expressions, the time zone and the appends are checked; statements that
are not analyzed are listed.
"""

import ast
import builtins
import re
from collections.abc import Iterator

from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.errors import DefinitionError
from cutover.parity import rules
from cutover.parity.jobs.expressions import FUNCTION_MODULE_ALIASES
from cutover.parity.jobs.interpreter import Interpreter, TooLargeError
from cutover.parity.jobs.queries import list_query_findings
from cutover.parity.jobs.sqltext import follow_statements
from cutover.parity.jobs.trace import Finding, Trace, list_display_statements
from cutover.parity.rules import Construct, ParityFinding, is_clock, is_external_service, is_pure, is_random

MAX_LOOKUP_DEPTH = 6  # of assignments between a name and the function that it refers to
RANDOM_GENERATORS = frozenset({"Random", "RandomState", "default_rng", "Faker"})
"""Generators of random values; with a seed they are repeatable."""

UDF_DECORATORS = frozenset({"udf", "pandas_udf"})
ROW_FUNCTION_METHODS = (
    frozenset({"mapInPandas", "mapInArrow", "applyInPandas", "applyInArrow", "foreach", "register"})
    | {"applyInPandasWithState", "transformWithState", "transformWithStateInPandas", "registerFunction"}
    | UDF_DECORATORS
)
DOUBLE_TYPES = frozenset({"double", "float", "DoubleType", "FloatType"})


class FunctionCalls:
    """Calls of a job, with the names under which it imports Spark functions."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        self.assigned_values, self.import_paths = dict[str, ast.expr](), dict[str, str]()
        self.function_modules, self.function_names, self.other_names = (
            set(FUNCTION_MODULE_ALIASES),
            dict[str, str](),
            set(self.functions),
        )
        for node in ast.walk(tree):
            self._read_import(node)
            if isinstance(node, ast.Assign):
                self.assigned_values.update({ast.unparse(target): node.value for target in node.targets})
        other_modules = {name for name, path in self.import_paths.items() if not path.startswith("pyspark.sql")}
        self.function_modules -= (
            _list_bound_names(tree) - set(self.import_paths)
        ) | other_modules  # `f` may be a file, `func` may come from SQLAlchemy
        self.other_names |= _list_bound_names(tree) - set(self.function_names)  # the interpreter follows their values
        self.statements = _list_statements(tree)

    def list_findings(self, trace: Trace) -> Iterator[Finding]:
        """Yield the findings, in no order; the interpreter knows the functions that a call refers to by a value."""
        shown = {part for statement in trace.display_statements for part in ast.walk(statement)}
        for call in (call for call in self.calls if call not in shown):
            for name in trace.function_calls.get(call) or {self.get_spark_name(call)}:
                yield from self._list_call_findings(call, name, has_time_zone=trace.has_time_zone)
        yield from self._list_user_function_findings(trace)

    def count_spark_calls(self) -> int:
        """Count the calls of Spark functions."""
        names = (self.get_spark_name(call) for call in self.calls if isinstance(call.func, ast.Attribute))
        return sum(bool(name) and rules.is_spark_function(name) for name in names)

    def get_spark_name(self, call: ast.Call) -> str:
        """Return the Spark name of the called function; empty if it is not a Spark function."""
        if isinstance(call.func, ast.Name):
            name = call.func.id
            return "" if name in self.other_names else self.function_names.get(name, name)
        if isinstance(call.func, ast.Attribute):
            return call.func.attr if ast.unparse(call.func.value) in self.function_modules else ""
        return ""

    def _read_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for name in node.names:
                root = name.name.partition(".")[0]
                self.import_paths[name.asname or root] = name.name if name.asname else root
                if name.name == "pyspark.sql.functions":
                    self.function_modules.add(name.asname or name.name)
                else:
                    self.other_names.add((name.asname or name.name).partition(".")[0])
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                self.import_paths[name.asname or name.name] = f"{node.module or '.'}.{name.name}"
                if node.module == "pyspark.sql.functions":
                    self.function_names[name.asname or name.name] = name.name
                elif node.module == "pyspark.sql" and name.name == "functions":
                    self.function_modules.add(name.asname or name.name)
                elif name.name != "*":
                    self.other_names.add(name.asname or name.name)

    def _list_call_findings(self, call: ast.Call, name: str, *, has_time_zone: bool) -> Iterator[Finding]:
        """Check a call of a Spark function: `F.rand()`, `rand()`."""
        if name in rules.CLOCK and not (name == "unix_timestamp" and call.args):
            yield call.lineno, Construct.CLOCK, name
        elif name in rules.RANDOM:
            yield call.lineno, Construct.RANDOM, name
        elif name in rules.ORDER and not self._is_sorted(call) and not self._has_total_order(call):
            yield call.lineno, Construct.ORDER, name
        elif name in rules.MOMENTS or (name in {"sum", "avg", "mean"} and _list_words(call) & DOUBLE_TYPES):
            yield call.lineno, Construct.FLOAT_SUM, f"{name} of a double"
        elif name in rules.TIME_ZONE and not has_time_zone:
            yield call.lineno, Construct.TIME_ZONE, name
        elif name in {"row_number", "lag", "lead"} and not self._list_order_words(call) & rules.POSITION_COLUMNS:
            yield call.lineno, Construct.TIES, name

    def _is_sorted(self, call: ast.Call) -> bool:
        return any(
            self.get_spark_name(parent) in rules.ORDER_INSENSITIVE and parent is not call and call in ast.walk(parent)
            for parent in self.calls
        )

    def _has_total_order(self, call: ast.Call) -> bool:
        """Return whether an aggregate is computed over a window whose order has no ties."""
        over = any(_get_method(parent) == "over" and call in ast.walk(parent.func) for parent in self.calls)
        return over and bool(self._list_order_words(call) & rules.POSITION_COLUMNS)

    def _list_order_words(self, call: ast.Call) -> set[str]:
        """List the words in the statement of a call, and in the assignments of the names in it."""
        enclosing_statements = [statement for statement in self.statements if call in ast.walk(statement)]
        statement = min(enclosing_statements, key=lambda node: len(list(ast.walk(node))), default=self.tree)
        words, names = _list_words(statement), {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        for other in self.statements:
            if isinstance(other, ast.Assign) and names & {
                target.id for target in other.targets if isinstance(target, ast.Name)
            }:
                words |= _list_words(other)
        return words

    def _list_user_function_findings(self, trace: Trace) -> Iterator[Finding]:
        """Yield user-defined functions that read the clock, chance or another system, or call unknown code."""
        values = [(name, node) for node, name in trace.user_functions.items()]
        for name, function in [*self._list_user_functions(), *values]:
            for line, path in self._list_calls(function, set()):
                if path.startswith("tempfile."):
                    continue  # a different file name does not change values
                if is_clock(path) or is_random(path) or is_external_service(path):
                    yield line, Construct.UDF, f"{name} calls {path}"
                elif not is_pure(path):
                    yield line, Construct.NOT_UNDERSTOOD, f"{name} calls {path}: a function of another module"

    def _list_user_functions(self) -> Iterator[tuple[str, ast.AST]]:
        for function in self.functions.values():
            decorator_names = {part for decorator in function.decorator_list for part in _list_names(decorator)}
            if decorator_names & UDF_DECORATORS:
                yield function.name, function
        for call in self.calls:
            name = _get_method(call) or (call.func.id if isinstance(call.func, ast.Name) else "")
            arguments = (*call.args, *(keyword.value for keyword in call.keywords))
            for argument in arguments if self.function_names.get(name, name) in ROW_FUNCTION_METHODS else ():
                yield from self._find_functions(argument, 0)

    def _find_functions(self, argument: ast.expr, depth: int) -> Iterator[tuple[str, ast.AST]]:
        """Yield the functions of the file that an argument refers to: by name, method, partial or object."""
        match argument:
            case ast.Lambda():
                yield "lambda", argument
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in self.functions:
                yield name, self.functions[name]
            case ast.Name(id=name) if name in self.assigned_values and depth < MAX_LOOKUP_DEPTH:
                yield from self._find_functions(self.assigned_values[name], depth + 1)
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                for method in self.classes[name].body:
                    if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                        yield f"{name}.{method.name}", method
            case ast.Call() if depth < MAX_LOOKUP_DEPTH:
                for value in argument.args:
                    yield from self._find_functions(value, depth + 1)
            case _:
                return

    def _list_calls(self, function: ast.AST, visited: set[ast.AST]) -> Iterator[tuple[int, str]]:
        """Yield the line and dotted path of each call into another module, made directly or through other functions."""
        if function in visited:
            return
        visited.add(function)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            function_name = _get_method(call) or (call.func.id if isinstance(call.func, ast.Name) else "")
            root = _find_root(call.func)
            is_own = isinstance(call.func, ast.Name) or root in {"self", "cls"} or root in self.assigned_values
            path = self._find_path(call.func, 0)
            if path:
                if not (_get_method(call) in RANDOM_GENERATORS and call.args):
                    yield call.lineno, path
            elif is_own and function_name in self.functions:
                yield from self._list_calls(self.functions[function_name], visited)

    def _find_path(self, node: ast.expr, depth: int) -> str:
        """Return the dotted path of a called expression by imports and assignments; empty if unknown."""
        match node:
            case ast.Name(id=name) if name in self.functions or name in self.classes:
                return ""
            case ast.Name(id=name) if name in self.import_paths:
                return self.import_paths[name]
            case ast.Name(id=name) if name not in self.assigned_values:
                return f"builtins.{name}" if hasattr(builtins, name) else ""
            case ast.Attribute() if ast.unparse(node) not in self.assigned_values:
                path = self._find_path(node.value, depth + 1) if depth < MAX_LOOKUP_DEPTH else ""
                return f"{path}.{node.attr}" if path else ""
            case ast.Name() | ast.Attribute():  # an object created by a call into another module
                value = self.assigned_values[ast.unparse(node)]
                return (
                    self._find_path(value.func, depth + 1)
                    if isinstance(value, ast.Call) and depth < MAX_LOOKUP_DEPTH
                    else ""
                )
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
    """List the last parts of the strings and names in a node."""
    texts = (
        constant.value
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    )
    return {text.rpartition(".")[2] for text in texts} | _list_names(node)


def _list_bound_names(tree: ast.Module) -> set[str]:
    """List the names that a file binds by assignments, loops, `with` and parameters."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _list_statements(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


CELL_MAGIC = re.compile(r"#\s*MAGIC\s+%(\w+)")
SKIPPED_CELLS = frozenset({"md", "pip", "conda", "python"})
"""Magic commands of notebook cells that compute no rows, or whose cell is Python."""


def list_foreign_cells(source: str) -> list[tuple[int, str]]:
    """Return the line and the magic command of each notebook cell in another language or file."""
    cells = [(line, CELL_MAGIC.match(text)) for line, text in enumerate(source.splitlines(), 1)]
    return [(line, cell[1]) for line, cell in cells if cell is not None and cell[1] not in SKIPPED_CELLS]


def check_job(source: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a job on which stream and batch differ, by line.

    Code that cannot be analyzed is reported as `not-understood`: functions of other modules that take a DataFrame,
    options and SQL that another file builds, RDDs, functions with user-managed state.

    Args:
        source: Text of a Python file.
        file: Name of the file in findings.

    Raises:
        DefinitionError: The source is not valid Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        msg = f"{file}: expected Python, got: {error}"
        raise DefinitionError(msg) from None
    trace = Trace(display_statements=list_display_statements(tree))
    for line, command in list_foreign_cells(source):
        trace.add_gap(line, f"%{command}: a cell that is not Python")
    try:
        Interpreter(trace).follow_module(tree)
    except (TooLargeError, RecursionError) as error:
        line = error.line if isinstance(error, TooLargeError) else 1
        trace.add_gap(line, "the rest of the file: it has more paths than are analyzed")
    functions = FunctionCalls(tree)
    sql_findings = {item for item in trace.sql_findings if not (trace.has_time_zone and item[1] is Construct.TIME_ZONE)}
    sql_findings |= {
        (line, Construct.NOT_UNDERSTOOD, f"{name}: a SQL function that is not built into Spark")
        for line, name in trace.sql_functions
        if name not in trace.registered_functions
    }
    findings = {
        *trace.findings,
        *sql_findings,
        *list_query_findings(trace),
        *functions.list_findings(trace),
    }
    if trace.operation_count == 0 and not findings and functions.count_spark_calls() == 0:
        line, name = min((call for call in trace.external_calls if not is_pure(call[1])), default=(1, ""))
        message = f"{name} is not analyzed, and nothing" if name else "nothing"
        subject = f"the whole file: {message} in it reads, changes or writes a DataFrame"
        findings.add((line, Construct.NOT_UNDERSTOOD, subject))
    return tuple(
        sorted(
            ParityFinding(file=file, line=line, construct=construct, subject=subject)
            for line, construct, subject in findings
        )
    )


TIME_ZONE_SETTING = "spark.sql.session.timezone"


def check_script(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a SQL file on which stream and batch differ, in order.

    Raises:
        DefinitionError: The text is not valid Spark SQL.
    """
    findings = {*rules.check_sql(text, file)}
    trace, lines = Trace(), text.splitlines()
    has_time_zone = False
    for statement in parse_statements(text):
        description = statement.sql(dialect="spark")
        has_time_zone = (
            has_time_zone
            or (isinstance(statement, exp.Set) and TIME_ZONE_SETTING in description.lower())
            or "SET TIME ZONE" in description.upper()
        )
        follow_statements(trace, description, _find_line(statement, lines))
    job_findings = {*trace.findings, *list_query_findings(trace)}
    job_findings |= {
        (line, Construct.NOT_UNDERSTOOD, f"{name}: a function that is not built into Spark")
        for line, name in rules.list_unknown_functions(text)
    }
    if not trace.operation_count and not job_findings and not findings:
        job_findings.add((1, Construct.NOT_UNDERSTOOD, "the whole file: it has no statement"))
    findings |= {
        ParityFinding(file=file, line=line, construct=construct, subject=subject)
        for line, construct, subject in job_findings
    }
    if has_time_zone:
        findings = {finding for finding in findings if finding.construct is not Construct.TIME_ZONE}
    return tuple(sorted(findings))


def _find_line(statement: exp.Expr, lines: list[str]) -> int:
    """Return the line of the first name in a statement."""
    lines_of_nodes = [int(node.meta["line"]) for node in statement.walk() if "line" in node.meta]
    return min(lines_of_nodes, default=1) if lines else 1
