"""SQL texts in a job: a statement becomes a DataFrame, an expression a column."""

import re
from collections.abc import Callable, Iterator

import sqlglot
from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.parity.jobs.trace import Trace, get_sql_text, merge_columns, read_join_type
from cutover.parity.jobs.values import (
    Comparison,
    Frame,
    JobColumn,
    JobValue,
    Reader,
    Writer,
    derive_frame,
    list_alternatives,
    merge_alternatives,
)
from cutover.parity.rules import CLOCK

PARAMETER = re.compile(r"__param|\$\{|\{\{")
"""Text that differs between runs: an unknown part, or a variable of a shell or a template."""

PARAMETER_NAME = re.compile(r"\s*__param_\w*\s*")
"""Text of which nothing is known."""

WINDOWS = frozenset({"window", "session_window"})


def parse_column(text: str) -> JobColumn:
    """Parse the column of a SQL expression; if it is invalid, the column is unknown."""
    try:
        (statement,) = parse_statements(f"SELECT {text}")
    except (sqlglot.errors.SqlglotError, ValueError):
        return JobColumn(varies=True)
    return make_sql_column(statement.expressions[0]) if statement.expressions else JobColumn()


def read_column(trace: Trace, value: JobValue, line: int) -> JobColumn:
    """Read the column of a SQL expression, check it, and keep what all its alternatives contain."""
    texts = [get_sql_text(alternative) for alternative in list_alternatives(value)]
    for text in texts:
        trace.check_sql(text, line)
    columns = [
        JobColumn(varies=True) if text is None or PARAMETER_NAME.fullmatch(text) else parse_column(text)
        for text in texts
    ]
    return columns[0] if len(columns) == 1 else merge_columns(columns)


def read_condition(text: str) -> str:
    """Parse a condition and normalize it as `normalize_condition` does; empty if it is invalid."""
    try:
        (statement,) = parse_statements(f"SELECT 1 WHERE {text}")
    except (sqlglot.errors.SqlglotError, ValueError):
        return ""
    where_clause = statement.args.get("where")
    return "" if where_clause is None else normalize_condition(where_clause)


def make_sql_column(node: exp.Expr) -> JobColumn:
    """Make the column of a parsed expression."""
    alias = node.alias or None
    inner = node.this if isinstance(node, exp.Alias) else node
    window = next((part for part in inner.find_all(exp.Func) if _get_function_name(part) in WINDOWS), None)
    names = frozenset(column.name for column in (window or inner).find_all(exp.Column))
    is_plain = (
        isinstance(inner, exp.Column)
        if window is None
        else _is_plain_time(next(iter(window.iter_expressions()), window))
    )
    return JobColumn(
        names=names,
        alias=alias,
        is_plain=is_plain,
        is_window=window is not None,
        comparisons=tuple(_list_comparisons(inner)),
        varies=varies_between_runs(inner),
        functions=frozenset(_list_functions(inner)),
    )


def _list_functions(node: exp.Expr) -> Iterator[str]:
    """Yield the functions in an expression, with `isNull`, `over` for a row window and `+` for a sum of columns."""
    yield from (_get_function_name(part) for part in node.find_all(exp.Func))
    yield from ("isNull" for part in node.find_all(exp.Is) if isinstance(part.expression, exp.Null))
    yield from ("over" for _ in node.find_all(exp.Window))
    yield from ("+" for part in node.find_all(exp.Add, exp.Sub) if len(list(part.find_all(exp.Column))) > 1)


def _list_comparisons(condition: exp.Expr) -> Iterator[Comparison]:
    """Yield the columns that a condition bounds, with the columns that bound them."""
    for node in condition.find_all(exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.Between):
        if node.find_ancestor(exp.Or) is not None:
            continue  # it need not hold
        if isinstance(node, exp.Between):
            yield _list_column_names(node.args["low"]), _list_column_names(node.this)
            yield _list_column_names(node.this), _list_column_names(node.args["high"])
            continue
        left_names, right_names = _list_column_names(node.this), _list_column_names(node.expression)
        if isinstance(node, exp.LT | exp.LTE | exp.EQ):
            yield left_names, right_names
        if isinstance(node, exp.GT | exp.GTE | exp.EQ):
            yield right_names, left_names


def _list_column_names(node: exp.Expr) -> frozenset[str]:
    return frozenset(column.name for column in node.find_all(exp.Column))


def _is_plain_time(argument: exp.Expr) -> bool:
    """Return whether the time of a window is an unchanged column, or the time of an earlier window."""
    is_time = isinstance(argument, exp.Func) and _get_function_name(argument) == "window_time"
    return isinstance(argument, exp.Column) or is_time


def follow_statements(trace: Trace, text: str, line: int) -> JobValue | None:
    """Return the DataFrame of the last statement that has one, and record views, inserts and removals.

    Raises:
        SqlglotError: The text is not valid Spark SQL.
    """
    result: JobValue | None = None
    for statement in parse_statements(text):
        trace.operation_count += not isinstance(statement, exp.Semicolon)
        if _is_not_a_statement(statement):
            trace.add_gap(line, f"{statement.sql(dialect='spark')[:60]}: not a SQL statement")
        if isinstance(statement, exp.Merge):
            _record_merge(trace, statement, line)
        elif isinstance(statement, exp.Update) and _updates_from_itself(statement):
            trace.add_gap(line, "UPDATE of a column from itself: whether it runs again over the same rows")
        elif isinstance(statement, exp.Command) and not _computes_no_rows(statement):
            trace.add_gap(line, f"statement {str(statement.this).upper()}")
        if isinstance(statement, exp.Use) and str(statement.args.get("kind") or "").upper() != "CATALOG":
            trace.current_database = _name_table(statement.this).lower()
        record_removal(trace, statement, line)
        for part in _list_insertions(statement):
            result = _translate_query(trace, part, line) or result
    return result


def _record_merge(trace: Trace, statement: exp.Merge, line: int) -> None:
    """Record the source rows of MERGE, and whether a repeated MERGE changes its target again."""
    source = _QueryTranslator(trace, line).translate_source(statement.args["using"]) if trace.active_sinks else None
    for sink in trace.active_sinks:
        sink.has_merge = True
        sink.merge_sources += [] if source is None else [source]
    unconditional_clauses = [clause for clause in statement.find_all(exp.When) if clause.args.get("condition") is None]
    if statement.args["on"].find(exp.Column) is None:
        trace.add_repeated_merge(line, "MERGE without a key")
    if any(_adds_to_itself(clause) for branch in unconditional_clauses for clause in branch.find_all(exp.EQ)):
        trace.add_repeated_merge(line, "MERGE that adds to a column")


def _computes_no_rows(statement: exp.Command) -> bool:
    """Return whether a statement computes no rows, such as one that creates a schema or a function."""
    name = statement.name.upper()
    return name in STATEMENTS_WITHOUT_ROWS or (name == "CREATE" and "SELECT" not in statement.sql().upper())


def _adds_to_itself(change: exp.EQ) -> bool:
    """Return whether an assignment adds another column to the column that it sets."""
    sums = [clause for clause in change.expression.find_all(exp.Add, exp.Sub) if clause.find(exp.Column)]
    return any(
        _list_column_names(change.this) & _list_column_names(clause) and len(list(clause.find_all(exp.Column))) > 1
        for clause in sums
    )


def _updates_from_itself(update: exp.Update) -> bool:
    """Return whether UPDATE computes a column from itself, so that a repeated run changes rows again."""
    changes = [expression for expression in update.expressions if isinstance(expression, exp.EQ)]
    return any(_list_column_names(change.this) & _list_column_names(change.expression) for change in changes)


def _is_not_a_statement(statement: exp.Expr) -> bool:
    """Return whether a text parses as a bare expression, as any few words do, or as an INSERT without rows."""
    if isinstance(statement, exp.Insert):
        return not (statement.expression or statement.args.get("source"))
    return isinstance(statement, exp.Condition | exp.Alias) and not isinstance(statement, exp.Query)


def _list_insertions(statement: exp.Expr) -> list[exp.Expr]:
    """List the single inserts of `FROM t INSERT INTO a SELECT .. INSERT INTO b SELECT ..`, each with its FROM."""
    if not isinstance(statement, exp.MultitableInserts):
        return [statement]
    parts = [part.copy() for part in statement.expressions]
    for part in parts:
        if isinstance(part.expression, exp.Select):
            part.expression.set("from_", exp.From(this=statement.args["source"].copy()))
    return parts


def _translate_query(trace: Trace, statement: exp.Expr, line: int) -> Frame | None:
    """Return the DataFrame of a statement with a query, and record the view or the insert that it makes."""
    query = statement if isinstance(statement, exp.Query) else statement.args.get("expression")
    table = statement.args.get("source") if isinstance(statement, exp.Insert) else None
    if isinstance(table, exp.Table):  # INSERT INTO t TABLE other
        query = exp.select("*").from_(table)
    if not isinstance(query, exp.Query):
        return None
    translator = _QueryTranslator(trace, line)
    if statement is not query:
        translator.register_common_tables(statement)
    frame = translator.translate(query)
    name = statement.find(exp.Table)
    if isinstance(statement, exp.Create) and statement.kind == "VIEW" and name is not None:
        trace.assignment_log.assign(trace.views, name.name.lower(), frame)
    elif isinstance(statement, exp.Insert):
        _record_insert(trace, statement, frame, line)
    return frame


def _record_insert(trace: Trace, statement: exp.Insert, frame: Frame, line: int) -> None:
    """Record the write of INSERT INTO or INSERT OVERWRITE."""
    mode = "overwrite" if statement.args.get("overwrite") or statement.args.get("where") else "append"
    table = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    is_partial = bool(statement.args.get("where") or statement.find(exp.Partition))
    writer = Writer(frame, is_stream=False, line=line, mode=mode)
    trace.add_query(writer, line, _name_table(table), is_partial=is_partial)


def _name_table(table: exp.Expr) -> str:
    return ".".join(part.name for part in table.parts) if isinstance(table, exp.Table) else ""


def record_removal(trace: Trace, statement: exp.Expr, line: int) -> None:
    """Record the rows that TRUNCATE, DELETE, DROP or CREATE OR REPLACE removes."""
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
    removes_part = isinstance(clause, exp.Expr) and clause.this != exp.true()
    condition = normalize_condition(clause) if isinstance(clause, exp.Expr) and removes_part else None
    for table in tables:
        trace.add_removal(_name_table(table), line, statement.sql(dialect="spark")[:60], condition)


def normalize_condition(condition: exp.Expr) -> str:
    """Return a canonical text of a condition, equal for equal conditions."""
    inner = condition.this if isinstance(condition, exp.Where) else condition
    if isinstance(inner, exp.Partition):
        inner = exp.and_(*inner.expressions)
    return inner.sql(dialect="spark", normalize=True).lower()


def record_removals(trace: Trace, text: str, line: int) -> None:
    """Record the rows that statements sent to another engine, such as a database, remove."""
    try:
        statements = parse_statements(text)
    except (sqlglot.errors.SqlglotError, ValueError):
        return
    for statement in statements:
        record_removal(trace, statement, line)


STATEMENTS_WITHOUT_ROWS = frozenset(
    {"SET", "USE", "CACHE", "UNCACHE", "REFRESH", "ANALYZE", "OPTIMIZE", "VACUUM", "SHOW", "DESCRIBE", "EXPLAIN"}
    | {"MSCK", "ALTER", "GRANT", "REVOKE", "COMMENT", "RESET", "CLEAR", "TRUNCATE", "DROP", "DELETE"}
)
"""Statements that compute no rows."""


class _QueryTranslator:
    """Translator of SQL queries into the DataFrames that Spark makes of them."""

    def __init__(self, trace: Trace, line: int) -> None:
        self.trace, self.line = trace, line
        self.common_tables: dict[str, Frame] = {}

    def translate(self, query: exp.Expr) -> Frame:
        """Translate a query, with its unions and subqueries, into operations over DataFrames."""
        self.register_common_tables(query)
        if isinstance(query, exp.SetOperation):
            parents = (self.translate(query.this), self.translate(query.expression))
            fields: dict[str, object] = {
                "subject": query.key,
                "how": "semi" if isinstance(query, exp.Intersect) else "",
            }
            fields["selects_new_rows"] = isinstance(query, exp.Except)
            return self._add_frame(derive_frame(parents, "step", self.line, **fields))
        if isinstance(query, exp.Subquery):
            return self.translate(query.this)
        return self._translate_select(query)

    def register_common_tables(self, statement: exp.Expr) -> None:
        """Translate the common table expressions of a query or an INSERT."""
        clause = statement.args.get("with_") or statement.args.get("with")
        for common_table in clause.expressions if clause is not None else ():
            self.common_tables[common_table.alias.lower()] = self.translate(common_table.this)

    def _translate_select(self, select: exp.Expr) -> Frame:
        from_clause = select.args.get("from_") or select.args.get("from")
        frame = (
            self.translate_source(from_clause.this) if from_clause is not None else Frame(op="source", line=self.line)
        )
        where_clause = select.args.get("where")
        tests_null = where_clause is not None and any(
            isinstance(clause.expression, exp.Null) for clause in where_clause.find_all(exp.Is)
        )
        for join in select.args.get("joins") or ():
            frame = self._translate_join(frame, join, is_anti=_is_anti(join) or (tests_null and join.side == "LEFT"))
        if where_clause is not None:
            column = make_sql_column(where_clause.this)
            selects_new_rows = _selects_new_rows(where_clause)
            subject = normalize_condition(where_clause)
            fields = {"subject": subject, "selects_new_rows": selects_new_rows, "keys": (column,)}
            frame = derive_frame((frame,), "filter", self.line, **fields)
        projection = tuple(make_sql_column(node) for node in select.expressions)
        group = select.args.get("group")
        if group is not None:
            keys = tuple(self._find_key(node, select, projection) for node in group.expressions)
            functions = frozenset(_get_function_name(node) for node in select.find_all(exp.AggFunc))
            frame = derive_frame((frame,), "aggregate", self.line, subject="GROUP BY", keys=keys, functions=functions)
            frame = self._add_frame(frame)
        elif select.args.get("distinct") is not None:
            frame = self._add_frame(derive_frame((frame,), "dedup", self.line, subject="DISTINCT"))
        return self._add_frame(derive_frame((frame,), "step", self.line, subject="SELECT", columns=projection))

    def _find_key(self, node: exp.Expr, select: exp.Expr, projection: tuple[JobColumn, ...]) -> JobColumn:
        """Find the column of a grouping: an expression, or the position or alias of a selected column."""
        if isinstance(node, exp.Literal) and node.this.isdigit() and 0 < int(node.this) <= len(projection):
            return projection[int(node.this) - 1]
        if isinstance(node, exp.Column):
            for column, expression in zip(projection, select.expressions, strict=True):
                if column.alias == node.name and isinstance(expression, exp.Alias):
                    return column
        return make_sql_column(node)

    def _translate_join(self, frame: Frame, join: exp.Join, *, is_anti: bool) -> Frame:
        right, condition = self.translate_source(join.this), join.args.get("on")
        comparisons = tuple(_list_comparisons(condition)) if condition is not None else ()
        using = frozenset(node.name for node in join.args.get("using") or ())
        how = read_join_type(f"{join.side}{join.kind}" or "inner")
        if frame.is_stream is False or right.is_stream is False:
            is_moving = how in {"inner", "semi"} and condition is not None and varies_between_runs(condition)
            fields = {"subject": "join", "how": how, "selects_new_rows": is_anti or is_moving}
            return self._add_frame(derive_frame((frame, right), "step", self.line, **fields))
        keys = (JobColumn(names=using),) if using else ()
        fields = {"subject": "JOIN", "how": how, "comparisons": comparisons, "keys": keys}
        return self._add_frame(derive_frame((frame, right), "join", self.line, **fields))

    def translate_source(self, node: exp.Expr) -> Frame:
        """Translate a table, a view or a subquery."""
        if isinstance(node, exp.Table) and node.name:
            view = self.common_tables.get(node.name.lower()) or self.trace.views.get(node.name.lower())
            if view is not None and node.db.lower() in {"", "global_temp"}:  # a qualified name is a table, not a view
                frames = [alternative for alternative in list_alternatives(view) if isinstance(alternative, Frame)]
                if frames:
                    return frames[0] if len(frames) == 1 else derive_frame(tuple(frames), "step", self.line)
            reader = Reader(is_stream=False, line=self.line, format="table", is_complete="__param" not in node.sql())
            subject = ".".join(part.name for part in node.parts)
            return self._add_frame(Frame(op="source", line=self.line, subject=subject, is_stream=False, source=reader))
        if isinstance(node, exp.Subquery | exp.Query):
            return self.translate(node)
        if isinstance(node, exp.Values) or (isinstance(node, exp.Table) and isinstance(node.this, exp.Func)):
            function_name = _get_function_name(node.this) if isinstance(node.this, exp.Func) else "values"
            if function_name in {"values", "range", "explode"}:
                return self._add_frame(Frame(op="literal", line=self.line, subject=function_name, is_stream=False))
        self.trace.add_gap(self.line, f"source {node.sql(dialect='spark')[:60]}")
        return self._add_frame(Frame(op="unknown", line=self.line, subject="source"))

    def _add_frame(self, frame: Frame) -> Frame:
        return self.trace.add_frame(frame)


def _is_anti(join: exp.Join) -> bool:
    return "ANTI" in f"{join.side} {join.kind}".upper()


def varies_between_runs(condition: exp.Expr) -> bool:
    """Return whether a condition has a parameter or reads the clock, so that another run selects other rows."""
    return _is_moving(condition, _has_moving_value)


def _is_moving(condition: exp.Expr, test: Callable[[exp.Expr], bool]) -> bool:
    """Return whether a test holds for one part of a conjunction, or for all parts of a disjunction."""
    if isinstance(condition, exp.Where | exp.Paren):
        return _is_moving(condition.this, test)
    if isinstance(condition, exp.Or | exp.And):
        parts = (_is_moving(part, test) for part in (condition.this, condition.expression))
        return all(parts) if isinstance(condition, exp.Or) else any(parts)
    return test(condition)


def _selects_new_rows(condition: exp.Expr) -> bool:
    """Return whether a condition has a value that moves, or reads other tables, and may select other rows next."""
    return _is_moving(condition, lambda part: _has_moving_value(part) or _reads_other_tables(part))


def _has_moving_value(condition: exp.Expr) -> bool:
    return (
        PARAMETER.search(condition.sql(dialect="spark")) is not None
        or condition.find(exp.Parameter, exp.Placeholder) is not None
        or any(_get_function_name(function) in CLOCK for function in condition.find_all(exp.Func))
    )


def query_varies_between_runs(text: str) -> bool:
    """Return whether a query selects other rows in the next run, by a parameter, the clock or another table."""
    if PARAMETER.search(text) is not None:
        return True
    try:
        (statement,) = parse_statements(text.strip().removeprefix("(").rpartition(")")[0] if text[:1] == "(" else text)
    except (sqlglot.errors.SqlglotError, ValueError):
        return True  # not Spark SQL: it may select only new rows
    return any(_selects_new_rows(clause) for clause in statement.find_all(exp.Where))


def _reads_other_tables(condition: exp.Expr) -> bool:
    """Return whether a condition reads other tables, so that it may select other rows in the next run."""
    queries = list(condition.find_all(exp.Select, exp.Exists))
    return bool(queries) and not all(_is_minimum(query) for query in queries)


def _is_minimum(query: exp.Expr) -> bool:
    """Return whether a subquery is the minimum of a whole table, which new rows do not move."""
    is_minimum = all(isinstance(column.unalias(), exp.Min) for column in query.expressions)
    return isinstance(query, exp.Select) and is_minimum and query.args.get("where") is None


def _get_function_name(node: exp.Func) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql(dialect="spark").partition("(")[0].strip().lower()


def find_view(trace: Trace, name: str) -> JobValue | None:
    """Find the DataFrame registered as a view."""
    view = trace.views.get(name.lower())
    return None if view is None else merge_alternatives([view])
