"""Check of Spark SQL by its syntax tree."""

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.errors import DefinitionError
from cutover.parity.rules import Construct, ParityFinding

CLOCK = frozenset(
    {"now", "current_timestamp", "current_date", "localtimestamp", "curdate", "unix_timestamp", "current_time"}
)
RANDOM = frozenset(
    {
        "rand",
        "randn",
        "random",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
    }
)
ORDER = frozenset(
    {
        "collect_list",
        "collect_set",
        "array_agg",
        "first",
        "first_value",
        "last",
        "last_value",
        "any_value",
        "listagg",
        "string_agg",
        "mode",
        "percentile_approx",
        "approx_percentile",
    }
)
"""Aggregates whose result may depend on the order of rows."""

MOMENTS = frozenset(
    {"stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp", "var_pop", "skewness", "kurtosis", "corr"}
    | {"covar_samp", "covar_pop"}
)
"""Aggregates that sum floating-point numbers whatever the type of their argument."""

ORDER_INSENSITIVE = frozenset({"sort_array", "array_sort", "size", "cardinality"})
"""Functions over a list whose result does not depend on its order."""

TIME_ZONE = frozenset(
    {"date_trunc", "trunc", "to_date", "date", "hour", "day", "dayofmonth", "date_format", "from_unixtime", "month"}
)
POSITION_COLUMNS = frozenset({"offset", "_offset"})
"""Columns that identify a record within its partition."""


def check_sql(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of statements on which stream and batch differ, in order.

    Args:
        text: One statement or several, in Spark's dialect.
        file: Name of the file in findings.

    Raises:
        DefinitionError: The text is not valid SQL.
    """
    try:
        statements = parse_statements(text)
    except sqlglot.errors.SqlglotError as error:
        msg = f"{file}: expected SQL of Spark, got: {str(error).splitlines()[0]}"
        raise DefinitionError(msg) from None
    lines = text.splitlines()
    findings = (
        ParityFinding(file=file, line=_find_line(node, lines, subject), construct=construct, subject=subject)
        for statement in statements
        for node, construct, subject in _list_findings(statement)
    )
    return tuple(sorted(set(findings)))


SQL_ONLY_FUNCTIONS = frozenset(
    {"int", "bigint", "smallint", "tinyint", "double", "float", "decimal", "string", "boolean", "binary", "timestamp"}
    | {"grouping_id", "grouping", "if", "named_struct", "ifnull", "cube", "rollup", "sentences", "java_method"}
)
"""SQL functions that Spark's Python API lacks."""


def list_unknown_functions(text: str) -> list[tuple[int, str]]:
    """Return the line and name of each function that is not built into Spark."""
    names: list[tuple[int, str]] = []
    lines = text.splitlines()
    for statement in parse_statements(text):
        for node in statement.find_all(exp.Anonymous):
            name = get_spark_function_name(node)
            if not is_spark_function(name):
                names.append((_find_line(node, lines, name), name))
    return names


def is_spark_function(name: str) -> bool:
    """Return whether a lower-case name is a built-in function of Spark's Python API or of its SQL."""
    from pyspark.sql import functions  # noqa: PLC0415 -- a statement without functions that sqlglot lacks needs no Spark

    return name in SQL_ONLY_FUNCTIONS or hasattr(functions, name) or name in CLOCK | RANDOM | ORDER | TIME_ZONE


NodeFinding = tuple[exp.Expr, Construct, str]


def _list_findings(statement: exp.Expr) -> Iterator[NodeFinding]:
    for node in statement.walk():
        if isinstance(node, exp.Func):
            yield from _list_function_findings(node)
        elif isinstance(node, exp.TableSample):
            yield node, Construct.RANDOM, "tablesample"
        elif isinstance(node, exp.Limit) and not _is_ordered(node.parent):
            yield node, Construct.LIMIT, "limit"
        elif isinstance(node, exp.Window):
            yield from _list_window_findings(node)


def get_spark_function_name(node: exp.Func) -> str:
    """Return Spark's lower-case name of a function, which sqlglot may parse under another name."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql(dialect="spark").partition("(")[0].strip().lower()


def _list_function_findings(node: exp.Func) -> Iterator[NodeFinding]:
    name = get_spark_function_name(node)
    if name in CLOCK and not (name == "unix_timestamp" and node.args.get("this") is not None):
        yield node, Construct.CLOCK, name
    elif name in RANDOM:
        yield node, Construct.RANDOM, name
    elif name in ORDER and not _is_sorted(node) and node.find_ancestor(exp.Window) is None:
        yield node, Construct.ORDER, name
    elif name in MOMENTS or (isinstance(node, exp.Sum | exp.Avg) and _is_float(node.this)):
        yield node, Construct.FLOAT_SUM, f"{name} of a double"
    elif type(node) is exp.Cast and node.is_type("date") and not isinstance(node.this, exp.Literal):
        yield node, Construct.TIME_ZONE, "date"  # `date(at)`; CAST(.. AS DATE) is parsed as another class
    elif name in TIME_ZONE:
        yield node, Construct.TIME_ZONE, name


def _is_sorted(node: exp.Expr) -> bool:
    """Return whether a list is sorted, or only counted, before its order can matter."""
    if isinstance(node.parent, exp.WithinGroup) or node.find(exp.Order) is not None:
        return True
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.Paren):
        parent = parent.parent
    return isinstance(parent, exp.Func) and get_spark_function_name(parent) in ORDER_INSENSITIVE


def _is_float(value: exp.Expr) -> bool:
    kinds = {exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT}
    return any(cast.to.this in kinds for cast in value.find_all(exp.Cast, exp.TryCast))


def _is_ordered(select: exp.Expr | None) -> bool:
    return select is not None and select.args.get("order") is not None


def _list_window_findings(node: exp.Window) -> Iterator[NodeFinding]:
    """Yield a row number or neighboring value whose ORDER BY may have ties."""
    ranking_functions = (exp.RowNumber, exp.FirstValue, exp.LastValue, exp.First, exp.Last, exp.Lag, exp.Lead)
    if not isinstance(node.this, ranking_functions):
        return
    order = node.args.get("order")
    columns = {column.name.lower() for column in order.find_all(exp.Column)} if order is not None else set()
    if not columns & POSITION_COLUMNS:
        yield node, Construct.TIES, get_spark_function_name(node.this)


def _find_line(node: exp.Expr, lines: list[str], subject: str) -> int:
    """Return the line of a node; if the parser recorded none, the first line that contains its name."""
    for part in (node, *node.find_all(exp.Func), *node.find_all(exp.Identifier)):
        if "line" in part.meta:
            return int(part.meta["line"])
    word = subject.split(maxsplit=1)[0]
    return next((number for number, line in enumerate(lines, 1) if word in line.lower()), 1)
