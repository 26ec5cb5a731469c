"""Why an expression is refused: what cannot replay, what does not merge, and what is simply not on the list."""

from sqlglot import exp

from cutover.definition.expressions.functions import FUNCTIONS
from cutover.definition.measures.kinds import MEASURE_NAMES
from cutover.definition.model.topic import TYPES

OPERATORS = (
    "+ - * / %  = <> < <= > >= <=>  AND OR NOT  IS [NOT] NULL|TRUE|FALSE  "
    "[NOT] IN (...)  [NOT] BETWEEN  [NOT] LIKE '...'  ||"
)
FORMS = "CASE  IF(c, a, b)  COALESCE  NVL  IFNULL  NULLIF  CAST(x AS type)  TRY_CAST  DATE '...'  TIMESTAMP '...'"
_CLOCK = """
    now current_timestamp current_date current_time localtimestamp current_timezone curdate unix_timestamp
    current_user session_user user current_database current_catalog current_schema
"""
CLOCK = frozenset(_CLOCK.split())
_RANDOM = """
    rand randn random uuid shuffle randstr uniform monotonically_increasing_id
"""
RANDOM = frozenset(_RANDOM.split())
_PLACE = """
    spark_partition_id input_file_name input_file_block_start input_file_block_length version
"""
PLACE = frozenset(_PLACE.split())
_AGGREGATES = """
    mean avg sum count min max first last first_value last_value any_value median mode percentile
    percentile_approx stddev  variance collect_list collect_set approx_count_distinct approx_percentile
    count_if bool_and bool_or every some skewness kurtosis
"""
AGGREGATES = frozenset(_AGGREGATES.split())


def format_whitelist() -> str:
    """List operators, forms, types and functions, a line each."""
    functions = "  ".join(function.usage for function in FUNCTIONS.values())
    return f"Operators: {OPERATORS}\nForms: {FORMS}\nTypes: {TYPES}\nFunctions: {functions}"


def function_name(node: exp.Expr) -> str:
    """Lower case, and of a function that sqlglot does not know as the text has it."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return (node.sql_name() if isinstance(node, exp.Func) else node.key).lower()


def reason(node: exp.Expr) -> str:
    """Return why a node that is not on the list is rejected: a specific sentence for the usual mistakes."""
    name = function_name(node)
    return _cannot_replay(node, name) or _does_not_merge(node, name) or _other(node, name)


def _cannot_replay(node: exp.Expr, name: str) -> str | None:
    if name in CLOCK or isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser)):
        return f"`{name}` depends on the moment it runs: it cannot replay. Use the event's own time."
    if name in RANDOM or isinstance(node, (exp.Rand, exp.Randn, exp.Uuid)):
        return f"`{name}` is random: it cannot replay, and both paths would differ."
    if name in PLACE:
        return f"`{name}` depends on where it runs: it cannot replay."
    if isinstance(node, (exp.Query, exp.Subquery, exp.Exists, exp.Any, exp.All)):
        return "a subquery reads another table, which changes: it cannot replay."
    return None


def _does_not_merge(node: exp.Expr, name: str) -> str | None:
    if isinstance(node, exp.Window):
        return "a window function looks at other rows: it does not merge. Use the pipeline's `window` and `measures`."
    if isinstance(node, exp.AggFunc) or name in AGGREGATES:
        return f"`{name}` aggregates: an expression sees one record. Measures merge: {MEASURE_NAMES}."
    return None


def _other(node: exp.Expr, name: str) -> str:
    if isinstance(node, (exp.Upper, exp.Lower)):
        return f"`{name}` differs between Spark and DuckDB beyond ASCII. Use translate(x, 'ABC...', 'abc...')."
    if isinstance(node, (exp.Alias, exp.Aliases)):
        return "an alias or two expressions side by side; expected one expression without a name."
    if isinstance(node, (exp.Parameter, exp.Placeholder)):
        return "a placeholder; expected a value."
    if isinstance(node, exp.Func):
        return f"function `{name}` is not on the list (or is a function of your own, which only one engine knows)."
    return f"`{node.sql(dialect='spark')}` ({node.key}) is not on the list."
