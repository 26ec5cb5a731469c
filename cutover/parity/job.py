"""A Spark job in Python, looked at as a syntax tree: what it calls on streams, and with which options."""

import ast
from collections import Counter
from collections.abc import Iterator

from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.rules import Construct, ParityFinding

STATEFUL = frozenset({"groupBy", "groupby", "dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark"})
DEDUP = frozenset({"dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark", "distinct"})
IMPURE = frozenset({"random", "randint", "choice", "time", "now", "utcnow", "today", "uuid4", "uuid1", "get", "post"})
MARKS = frozenset({"txnAppId", "txnVersion", "merge", "whenMatchedUpdateAll", "whenMatchedUpdate"})


def check_job(source: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a job on which stream and batch cannot agree, by line.

    Only what stands in the file is seen: a helper of another module is not.

    Args:
        source: Of a Python file.
        file: As findings name it.

    Raises:
        DefinitionError: It is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        msg = f"{file}: expected Python, got: {error}"
        raise DefinitionError(msg) from None
    job = _Job(tree)
    found = {
        ParityFinding(file=file, line=line, construct=construct, what=what) for line, construct, what in job.find()
    }
    return tuple(sorted(found))


Found = tuple[int, Construct, str]


class _Job:
    """A job's calls and functions."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        self.is_stream = bool(names & {"readStream", "writeStream"})
        self.has_zone = any(_text(call, 0) == "spark.sql.session.timeZone" for call in self.calls)

    def find(self) -> Iterator[Found]:
        """Yield what is found, in no order."""
        for call in self.calls:
            yield from self._judge_function(call)
            yield from self._judge_sql(call)
            if self.is_stream:
                yield from self._judge_stream(call)
        if self.is_stream:
            yield from self._judge_queries()
        yield from self._judge_user_functions()

    def _judge_function(self, call: ast.Call) -> Iterator[Found]:
        """Look at a function of Spark's: `F.rand()`, `rand()`."""
        name = _name(call)
        is_function = not isinstance(call.func, ast.Attribute) or _is_module(call.func.value)
        if not is_function or name in self.functions:
            return
        if name in sql.CLOCK and not (name == "unix_timestamp" and call.args):
            yield call.lineno, Construct.CLOCK, name
        elif name in sql.RANDOM:
            yield call.lineno, Construct.RANDOM, name
        elif name in sql.ORDER and not self._is_sorted(call):
            yield call.lineno, Construct.ORDER, name
        elif name in sql.MOMENTS or (name in {"sum", "avg"} and "double" in _literals(call) | _literals_lower(call)):
            yield call.lineno, Construct.FLOAT_SUM, f"{name} of a double"
        elif name in sql.TIME_ZONE and not self.has_zone:
            yield call.lineno, Construct.TIME_ZONE, name
        elif name == "row_number" and not _literals(self._statement(call)) & sql.POSITION:
            yield call.lineno, Construct.TIES, name

    def _judge_sql(self, call: ast.Call) -> Iterator[Found]:
        """Look at SQL that is handed over as a text."""
        text = _text(call, 0)
        if _name(call) not in {"sql", "expr", "selectExpr"} or text is None:
            return
        texts = [text] if _name(call) != "selectExpr" else [t for n in range(len(call.args)) if (t := _text(call, n))]
        for one in texts:
            statement = one if _name(call) == "sql" else f"SELECT {one}"
            try:
                found = sql.check_sql(statement, "")
            except DefinitionError:
                continue
            for each in found:
                if each.construct is not Construct.TIME_ZONE or not self.has_zone:
                    yield call.lineno, each.construct, each.what

    def _judge_stream(self, call: ast.Call) -> Iterator[Found]:
        name, first, second = _name(call), _text(call, 0), _text(call, 1)
        if name == "withWatermark":
            yield call.lineno, Construct.WATERMARK, name
        elif name in DEDUP:
            yield call.lineno, Construct.DEDUP, name
        elif name == "outputMode" and first in {"update", "complete"} and not self._merges():
            yield call.lineno, Construct.OUTPUT_MODE, f"outputMode({first})"
        elif name == "option" and (first, str(second).lower()) == ("startingOffsets", "latest"):
            yield call.lineno, Construct.OFFSETS, "startingOffsets latest"
        elif name == "option" and first == "failOnDataLoss" and (second or _constant(call, 1)) in {"false", False}:
            yield call.lineno, Construct.DATA_LOSS, "failOnDataLoss false"
        elif name == "foreachBatch" and not self._has_marks(call):
            yield call.lineno, Construct.NOT_IDEMPOTENT, name

    def _judge_queries(self) -> Iterator[Found]:
        """Yield state in a row or without end, and queries without a checkpoint of their own."""
        names = [_name(call) for call in self.calls]
        for call in self.calls:
            if _name(call) in {"groupBy", "groupby"} and "withWatermark" not in names and _has_windows(call):
                yield call.lineno, Construct.UNBOUNDED, "windows without withWatermark"
        for statement in (node for node in ast.walk(self.tree) if isinstance(node, ast.Assign | ast.Expr | ast.Return)):
            chain = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and _name(node) in STATEFUL]
            if len(chain) > 1:
                yield statement.lineno, Construct.CHAINED, " after ".join(_name(node) for node in chain[:2])
        starts = [call for call in self.calls if _name(call) in {"start", "toTable"} and self._is_query(call)]
        places = [_checkpoint(call) for call in starts]
        for call, place in zip(starts, places, strict=True):
            if place is None:
                yield call.lineno, Construct.CHECKPOINT, "start without checkpointLocation"
            elif Counter(places)[place] > 1:
                yield call.lineno, Construct.CHECKPOINT, f"checkpointLocation {place} of several queries"

    def _judge_user_functions(self) -> Iterator[Found]:
        """Yield functions of users that ask the clock, chance or another system."""
        for function in self.functions.values():
            marks = {_last_name(mark.func if isinstance(mark, ast.Call) else mark) for mark in function.decorator_list}
            if not marks & {"udf", "pandas_udf"}:
                continue
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                if _name(call) in IMPURE and isinstance(call.func, ast.Attribute | ast.Name):
                    yield call.lineno, Construct.UDF, f"{function.name} calls {_name(call)}"

    def _statement(self, call: ast.Call) -> ast.AST:
        """Return the statement that a call stands in, with the windows that its names stand for."""
        inside = (node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and call in ast.walk(node))
        return min(inside, key=lambda node: len(list(ast.walk(node))), default=self.tree)

    def _is_sorted(self, call: ast.Call) -> bool:
        return any(_name(above) in sql.SORTS and call in ast.walk(above) and above is not call for above in self.calls)

    def _merges(self) -> bool:
        return any(_name(call) == "foreachBatch" and self._has_marks(call) for call in self.calls)

    def _has_marks(self, call: ast.Call) -> bool:
        """Return whether the function of a micro-batch marks or merges what it writes; an unknown one may."""
        name = call.args[0].id if call.args and isinstance(call.args[0], ast.Name) else None
        function = self.functions.get(str(name))
        if function is None:
            return name is not None
        words = {_name(node) for node in ast.walk(function) if isinstance(node, ast.Call)} | _literals(function)
        return bool(words & MARKS) or any("merge into" in word.lower() for word in words)

    def _is_query(self, call: ast.Call) -> bool:
        return any(isinstance(node, ast.Attribute) and node.attr == "writeStream" for node in ast.walk(call))


def _name(call: ast.Call) -> str:
    return _last_name(call.func)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _has_windows(call: ast.Call) -> bool:
    """Return whether rows are grouped by windows of time."""
    inside = (node for argument in call.args for node in ast.walk(argument))
    return any(isinstance(node, ast.Call) and _name(node) in {"window", "session_window"} for node in inside)


def _is_module(node: ast.AST) -> bool:
    """Return whether a name is the one that Spark's functions are imported under."""
    return isinstance(node, ast.Name) and node.id in {"F", "f", "functions", "fn", "sf", "func"}


def _constant(call: ast.Call, number: int) -> object:
    argument = call.args[number] if len(call.args) > number else None
    return argument.value if isinstance(argument, ast.Constant) else None


def _text(call: ast.Call, number: int) -> str | None:
    value = _constant(call, number)
    return value if isinstance(value, str) else None


def _literals(node: ast.AST) -> set[str]:
    return {str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def _literals_lower(node: ast.AST) -> set[str]:
    return {text.lower() for text in _literals(node)}


def _checkpoint(call: ast.Call) -> str | None:
    """Return what a query's checkpoint is called, if one is given: its text, else its expression."""
    for option in (node for node in ast.walk(call) if isinstance(node, ast.Call) and _name(node) == "option"):
        if _text(option, 0) == "checkpointLocation" and len(option.args) > 1:
            return ast.unparse(option.args[1])
    keywords = (word for node in ast.walk(call) if isinstance(node, ast.Call) for word in node.keywords)
    return next((ast.unparse(word.value) for word in keywords if word.arg == "checkpointLocation"), None)
