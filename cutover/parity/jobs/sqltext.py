"""SQL inside a job: a statement becomes the DataFrame that it stands for, a text of an expression its column."""

import re
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.parity.jobs.trace import Trace
from cutover.parity.jobs.values import (
    Comparison,
    Frame,
    JobColumn,
    JobValue,
    Reader,
    Writer,
    alternatives,
    choose,
    derive,
)
from cutover.parity.sql import CLOCK

PARAMETER = re.compile(r"__param|\$\{|\{\{")
"""What another run replaces by another text: a part that is not known, a variable of a shell or of a template."""

WINDOWS = frozenset({"window", "session_window"})


def parse_column(text: str) -> JobColumn:
    """Return the column of an expression's text; one of which nothing is known if it is no SQL."""
    try:
        (statement,) = parse_statements(f"SELECT {text}")
    except (sqlglot.errors.SqlglotError, ValueError):
        return JobColumn(varies=True)
    return make_sql_column(statement.expressions[0]) if statement.expressions else JobColumn()


def read_condition(text: str) -> str:
    """Return the condition of a text as `normalize_condition` does; empty if it is no SQL."""
    try:
        (statement,) = parse_statements(f"SELECT 1 WHERE {text}")
    except (sqlglot.errors.SqlglotError, ValueError):
        return ""
    where = statement.args.get("where")
    return "" if where is None else normalize_condition(where)


def make_sql_column(node: exp.Expr) -> JobColumn:
    """Return names, alias and kind of a parsed expression."""
    alias = node.alias or None
    inner = node.this if isinstance(node, exp.Alias) else node
    window = next((part for part in inner.find_all(exp.Func) if _get_name(part) in WINDOWS), None)
    names = frozenset(column.name for column in (window or inner).find_all(exp.Column))
    is_plain = (
        isinstance(inner, exp.Column) if window is None else _is_named(next(iter(window.iter_expressions()), window))
    )
    return JobColumn(
        names=names,
        alias=alias,
        is_plain=is_plain,
        is_window=window is not None,
        comparisons=tuple(_list_comparisons(inner)),
        varies=is_moving(inner),
        functions=frozenset(_list_functions(inner)),
    )


def _list_functions(node: exp.Expr) -> Iterator[str]:
    """Yield the functions in an expression; `isNull`, `over` for a window of rows, and `+` for a sum of columns."""
    yield from (_get_name(part) for part in node.find_all(exp.Func))
    yield from ("isNull" for part in node.find_all(exp.Is) if isinstance(part.expression, exp.Null))
    yield from ("over" for _ in node.find_all(exp.Window))
    yield from ("+" for part in node.find_all(exp.Add, exp.Sub) if len(list(part.find_all(exp.Column))) > 1)


def _list_comparisons(condition: exp.Expr) -> Iterator[Comparison]:
    """Yield which columns a condition bounds by which others."""
    for node in condition.find_all(exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.Between):
        if isinstance(node, exp.Between):
            yield _list_names(node.args["low"]), _list_names(node.this)
            yield _list_names(node.this), _list_names(node.args["high"])
            continue
        left, right = _list_names(node.this), _list_names(node.expression)
        if isinstance(node, exp.LT | exp.LTE | exp.EQ):
            yield left, right
        if isinstance(node, exp.GT | exp.GTE | exp.EQ):
            yield right, left


def _list_names(node: exp.Expr) -> frozenset[str]:
    return frozenset(column.name for column in node.find_all(exp.Column))


def _is_named(argument: exp.Expr) -> bool:
    """Return whether the time of a window is a column as it is, or the time of a window before."""
    is_time = isinstance(argument, exp.Func) and _get_name(argument) == "window_time"
    return isinstance(argument, exp.Column) or is_time


def follow_statements(trace: Trace, text: str, line: int) -> JobValue | None:
    """Return the DataFrame of the last statement that has one; views and insertions are noted.

    Raises:
        SqlglotError: It is no SQL of Spark.
    """
    result: JobValue | None = None
    for statement in parse_statements(text):
        trace.steps += not isinstance(statement, exp.Semicolon)
        if _is_no_statement(statement):
            trace.add_gap(line, f"{statement.sql(dialect='spark')[:60]}: no statement of SQL")
        if isinstance(statement, exp.Merge):
            source = _Selection(trace, line).follow_source(statement.args["using"]) if trace.sinks else None
            for sink in trace.sinks:
                sink.merges = True
                sink.merged += [] if source is None else [source]
            whens = [clause for clause in statement.find_all(exp.When) if clause.args.get("condition") is None]
            if any(_sums_up(clause) for when in whens for clause in when.find_all(exp.EQ)):
                trace.add_sum(line)
        elif isinstance(statement, exp.Update) and _adds_up(statement):
            trace.add_gap(line, "UPDATE by its own column: whether it runs again over the same rows")
        elif isinstance(statement, exp.Command) and not _is_silent(statement):
            trace.add_gap(line, f"statement {str(statement.this).upper()}")
        if isinstance(statement, exp.Use) and str(statement.args.get("kind") or "").upper() != "CATALOG":
            trace.database = _name_table(statement.this).lower()
        note_removal(trace, statement, line)
        for part in _list_insertions(statement):
            result = _follow_query(trace, part, line) or result
    return result


def _is_silent(statement: exp.Command) -> bool:
    """Return whether a statement computes no rows; a schema, a volume or a function is made of none."""
    name = statement.name.upper()
    return name in SILENT or (name == "CREATE" and "SELECT" not in statement.sql().upper())


def _sums_up(change: exp.EQ) -> bool:
    """Return whether a column is set to a sum of itself and another column."""
    sums = [clause for clause in change.expression.find_all(exp.Add, exp.Sub) if clause.find(exp.Column)]
    return any(
        _list_names(change.this) & _list_names(clause) and len(list(clause.find_all(exp.Column))) > 1 for clause in sums
    )


def _adds_up(update: exp.Update) -> bool:
    """Return whether UPDATE computes a column from itself: run again, it changes the rows again."""
    changes = [expression for expression in update.expressions if isinstance(expression, exp.EQ)]
    return any(_list_names(change.this) & _list_names(change.expression) for change in changes)


def _is_no_statement(statement: exp.Expr) -> bool:
    """Return whether a text is an expression, which any few words are, or an insertion of nothing."""
    if isinstance(statement, exp.Insert):
        return not (statement.expression or statement.args.get("source"))
    return isinstance(statement, exp.Condition | exp.Alias) and not isinstance(statement, exp.Query)


def _list_insertions(statement: exp.Expr) -> list[exp.Expr]:
    """Return the insertions of `FROM t INSERT INTO a SELECT .. INSERT INTO b SELECT ..`, each with its FROM."""
    if not isinstance(statement, exp.MultitableInserts):
        return [statement]
    parts = [part.copy() for part in statement.expressions]
    for part in parts:
        if isinstance(part.expression, exp.Select):
            part.expression.set("from_", exp.From(this=statement.args["source"].copy()))
    return parts


def _follow_query(trace: Trace, statement: exp.Expr, line: int) -> Frame | None:
    """Return the DataFrame of a statement with a query; the view or the insertion that it makes is noted."""
    query = statement if isinstance(statement, exp.Query) else statement.args.get("expression")
    table = statement.args.get("source") if isinstance(statement, exp.Insert) else None
    if isinstance(table, exp.Table):  # INSERT INTO t TABLE other
        query = exp.select("*").from_(table)
    if not isinstance(query, exp.Query):
        return None
    selection = _Selection(trace, line)
    if statement is not query:
        selection.share(statement)
    frame = selection.follow(query)
    name = statement.find(exp.Table)
    if isinstance(statement, exp.Create) and statement.kind == "VIEW" and name is not None:
        trace.assignment_log.assign(trace.views, name.name.lower(), frame)
    elif isinstance(statement, exp.Insert):
        _insert(trace, statement, frame, line)
    return frame


def _insert(trace: Trace, statement: exp.Insert, frame: Frame, line: int) -> None:
    """Note what INSERT INTO appends, or INSERT OVERWRITE replaces."""
    mode = "overwrite" if statement.args.get("overwrite") or statement.args.get("where") else "append"
    table = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    is_partial = bool(statement.args.get("where") or statement.find(exp.Partition))
    writer = Writer(frame, is_stream=False, line=line, mode=mode)
    trace.add_query(writer, line, _name_table(table), is_partial=is_partial)


def _name_table(table: exp.Expr) -> str:
    return ".".join(part.name for part in table.parts) if isinstance(table, exp.Table) else ""


def note_removal(trace: Trace, statement: exp.Expr, line: int) -> None:
    """Note what TRUNCATE, DELETE, DROP or CREATE OR REPLACE removes."""
    tables: list[exp.Expr] = []
    if isinstance(statement, exp.TruncateTable):
        tables = list(statement.expressions)
    elif isinstance(statement, exp.Delete):
        tables = [statement.this]
    elif isinstance(statement, exp.Drop) and statement.kind in {"TABLE", "SCHEMA", "DATABASE"}:
        tables = statement.args.get("tables") or [statement.this]
    elif isinstance(statement, exp.Create) and statement.kind == "TABLE" and not statement.args.get("exists"):
        tables = [statement.this.this if isinstance(statement.this, exp.Schema) else statement.this]
    dropped = statement.find(exp.DropPartition) if isinstance(statement, exp.Alter) else None
    if dropped is not None:
        tables = [statement.this]
    clause = statement.args.get("where") or statement.args.get("partition") or statement.find(exp.Partition)
    is_part = isinstance(clause, exp.Expr) and clause.this != exp.true()
    condition = normalize_condition(clause) if isinstance(clause, exp.Expr) and is_part else None
    for table in tables:
        trace.add_removal(_name_table(table), line, statement.sql(dialect="spark")[:60], condition)


def normalize_condition(condition: exp.Expr) -> str:
    """Return a condition as a text that equal conditions share."""
    inner = condition.this if isinstance(condition, exp.Where) else condition
    if isinstance(inner, exp.Partition):
        inner = exp.and_(*inner.expressions)
    return inner.sql(dialect="spark", normalize=True).lower()


def note_removals(trace: Trace, text: str, line: int) -> None:
    """Note what statements remove that the job hands to another engine, a database for example."""
    try:
        statements = parse_statements(text)
    except (sqlglot.errors.SqlglotError, ValueError):
        return
    for statement in statements:
        note_removal(trace, statement, line)


SILENT = frozenset(
    {"SET", "USE", "CACHE", "UNCACHE", "REFRESH", "ANALYZE", "OPTIMIZE", "VACUUM", "SHOW", "DESCRIBE", "EXPLAIN"}
    | {"MSCK", "ALTER", "GRANT", "REVOKE", "COMMENT", "RESET", "CLEAR", "TRUNCATE", "DROP", "DELETE"}
)
"""Statements that compute no rows."""


class _Selection:
    """A query of SQL, turned into the DataFrame that Spark makes of it."""

    def __init__(self, trace: Trace, line: int) -> None:
        self.trace, self.line = trace, line
        self.shared: dict[str, Frame] = {}

    def follow(self, query: exp.Expr) -> Frame:
        """Return the operations over DataFrames that a query stands for, unions and subqueries included."""
        self.share(query)
        if isinstance(query, exp.SetOperation):
            is_subtraction = isinstance(query, exp.Except | exp.Intersect)
            parents = (self.follow(query.this), self.follow(query.expression))
            subject = "except" if is_subtraction else "union"
            return self._keep(derive(parents, "step", self.line, what=subject, is_bounded=is_subtraction))
        if isinstance(query, exp.Subquery):
            return self.follow(query.this)
        return self._follow_select(query)

    def share(self, statement: exp.Expr) -> None:
        """Follow what WITH names, in front of a query or of INSERT."""
        clause = statement.args.get("with_") or statement.args.get("with")
        for shared in clause.expressions if clause is not None else ():
            self.shared[shared.alias.lower()] = self.follow(shared.this)

    def _follow_select(self, select: exp.Expr) -> Frame:
        origin = select.args.get("from_") or select.args.get("from")
        frame = self.follow_source(origin.this) if origin is not None else Frame(op="source", line=self.line)
        where = select.args.get("where")
        has_null = where is not None and any(
            isinstance(clause.expression, exp.Null) for clause in where.find_all(exp.Is)
        )
        for join in select.args.get("joins") or ():
            frame = self._follow_join(frame, join, is_anti=_is_anti(join) or (has_null and join.side == "LEFT"))
        if where is not None:
            column = make_sql_column(where.this)
            is_bounded = column.varies or _has_other_rows(where.this)
            subject = normalize_condition(where)
            frame = derive((frame,), "filter", self.line, what=subject, is_bounded=is_bounded)
        projection = tuple(make_sql_column(node) for node in select.expressions)
        group = select.args.get("group")
        if group is not None:
            keys = tuple(self._find_key(node, select, projection) for node in group.expressions)
            functions = frozenset(_get_name(node) for node in select.find_all(exp.AggFunc))
            frame = derive((frame,), "aggregate", self.line, what="GROUP BY", keys=keys, functions=functions)
            frame = self._keep(frame)
        elif select.args.get("distinct") is not None:
            frame = self._keep(derive((frame,), "dedup", self.line, what="DISTINCT"))
        return self._keep(derive((frame,), "step", self.line, what="SELECT", columns=projection))

    def _find_key(self, node: exp.Expr, select: exp.Expr, projection: tuple[JobColumn, ...]) -> JobColumn:
        """Return the column of a grouping: an expression, a number of a selected column, or the name of one."""
        if isinstance(node, exp.Literal) and node.this.isdigit() and 0 < int(node.this) <= len(projection):
            return projection[int(node.this) - 1]
        if isinstance(node, exp.Column):
            for column, expression in zip(projection, select.expressions, strict=True):
                if column.alias == node.name and isinstance(expression, exp.Alias):
                    return column
        return make_sql_column(node)

    def _follow_join(self, frame: Frame, join: exp.Join, *, is_anti: bool) -> Frame:
        right, condition = self.follow_source(join.this), join.args.get("on")
        comparisons = tuple(_list_comparisons(condition)) if condition is not None else ()
        using = frozenset(node.name for node in join.args.get("using") or ())
        if frame.is_stream is False or right.is_stream is False:
            return self._keep(derive((frame, right), "step", self.line, what="join", is_bounded=is_anti))
        keys = (JobColumn(names=using),) if using else ()
        return self._keep(derive((frame, right), "join", self.line, what="JOIN", comparisons=comparisons, keys=keys))

    def follow_source(self, node: exp.Expr) -> Frame:
        """Return the DataFrame of a table, a view or a subquery."""
        if isinstance(node, exp.Table) and node.name:
            view = self.shared.get(node.name.lower()) or self.trace.views.get(node.name.lower())
            if view is not None and node.db.lower() in {"", "global_temp"}:  # a qualified name is a table
                frames = [alternative for alternative in alternatives(view) if isinstance(alternative, Frame)]
                if frames:
                    return frames[0] if len(frames) == 1 else derive(tuple(frames), "step", self.line)
            reader = Reader(is_stream=False, line=self.line, format="table", is_complete="__param" not in node.sql())
            subject = ".".join(part.name for part in node.parts)
            return self._keep(Frame(op="source", line=self.line, what=subject, is_stream=False, source=reader))
        if isinstance(node, exp.Subquery | exp.Query):
            return self.follow(node)
        if isinstance(node, exp.Values) or (isinstance(node, exp.Table) and isinstance(node.this, exp.Func)):
            called = _get_name(node.this) if isinstance(node.this, exp.Func) else "values"
            if called in {"values", "range", "explode"}:
                return self._keep(Frame(op="literal", line=self.line, what=called, is_stream=False))
        self.trace.add_gap(self.line, f"source {node.sql(dialect='spark')[:60]}")
        return self._keep(Frame(op="unknown", line=self.line, what="source"))

    def _keep(self, frame: Frame) -> Frame:
        return self.trace.keep(frame)


def _is_anti(join: exp.Join) -> bool:
    return "ANTI" in f"{join.side} {join.kind}".upper()


def is_moving(condition: exp.Expr) -> bool:
    """Return whether a condition has a parameter, or asks the clock: another run selects other rows."""
    return (
        PARAMETER.search(condition.sql(dialect="spark")) is not None
        or condition.find(exp.Parameter, exp.Placeholder) is not None
        or any(_get_name(function) in CLOCK for function in condition.find_all(exp.Func))
    )


def is_moving_query(text: str) -> bool:
    """Return whether a query selects other rows in the next run: by a parameter, the clock, or rows of a table."""
    if PARAMETER.search(text) is not None:
        return True
    try:
        (statement,) = parse_statements(text.strip().removeprefix("(").rpartition(")")[0] if text[:1] == "(" else text)
    except (sqlglot.errors.SqlglotError, ValueError):
        return True  # no SQL of Spark: it may select what is new
    return any(is_moving(clause) or _has_other_rows(clause.this) for clause in statement.find_all(exp.Where))


def _has_other_rows(condition: exp.Expr) -> bool:
    """Return whether a condition asks other tables: it need not hold for the same rows again."""
    return condition.find(exp.Select, exp.Exists) is not None


def _get_name(node: exp.Func) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql(dialect="spark").partition("(")[0].strip().lower()


def find_view(trace: Trace, name: str) -> JobValue | None:
    """Return the DataFrame that was registered under a name."""
    view = trace.views.get(name.lower())
    return None if view is None else choose([view])
