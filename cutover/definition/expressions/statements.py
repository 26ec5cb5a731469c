"""Parser of Spark SQL statements, and the reasons for rejecting an expression.

An expression is rejected if it cannot be replayed, does not merge, or is not on the whitelist.
"""

from difflib import get_close_matches
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.tokenizer_core import TokenType

from cutover.definition.expressions.functions import FUNCTIONS
from cutover.definition.measures.kinds import MEASURE_NAMES
from cutover.definition.model.topic import TYPES
from cutover.errors import DefinitionError

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
_LOCATION = """
    spark_partition_id input_file_name input_file_block_start input_file_block_length version
"""
LOCATION = frozenset(_LOCATION.split())
_AGGREGATES = """
    mean avg sum count min max first last first_value last_value any_value median mode percentile
    percentile_approx stddev  variance collect_list collect_set approx_count_distinct approx_percentile
    count_if bool_and bool_or every some skewness kurtosis
"""
AGGREGATES = frozenset(_AGGREGATES.split())


def parse_statements(text: str) -> tuple[exp.Expr, ...]:
    """Parse the statements of a text.

    Spark's `window(at, '1 hour')` is a function everywhere; after a GROUP BY, sqlglot would parse it as the clause
    WINDOW.

    Raises:
        SqlglotError: The text is not valid Spark SQL.
    """
    dialect = Spark()
    tokens = dialect.tokenize(text)
    for token, next_token in pairwise(tokens):
        if token.token_type is TokenType.WINDOW and next_token.token_type is TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    return tuple(item for item in dialect.parser().parse(tokens, text) if item is not None)


def format_whitelist() -> str:
    """Format the whitelist: operators, forms, types and functions, a line each."""
    functions = "  ".join(function.usage for function in FUNCTIONS.values())
    return f"Operators: {OPERATORS}\nForms: {FORMS}\nTypes: {TYPES}\nFunctions: {functions}"


def get_function_name(node: exp.Expr) -> str:
    """Return the lower-case name of a function; one that sqlglot does not know keeps its own name."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return (node.sql_name() if isinstance(node, exp.Func) else node.key).lower()


def explain_rejection(node: exp.Expr) -> str:
    """Explain why a node is rejected, with a specific sentence for common mistakes."""
    name = get_function_name(node)
    return _explain_no_replay(node, name) or _explain_no_merge(node, name) or _explain_unlisted(node, name)


def _explain_no_replay(node: exp.Expr, name: str) -> str | None:
    if name in CLOCK or isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser)):
        return f"`{name}` depends on the time of the run: it cannot be replayed. Use the event time."
    if name in RANDOM or isinstance(node, (exp.Rand, exp.Randn, exp.Uuid)):
        return f"`{name}` is random: it cannot be replayed, and both paths would differ."
    if name in LOCATION:
        return f"`{name}` depends on where it runs: it cannot be replayed."
    if isinstance(node, (exp.Query, exp.Subquery, exp.Exists, exp.Any, exp.All)):
        return "a subquery reads another table, which changes: it cannot be replayed."
    return None


def _explain_no_merge(node: exp.Expr, name: str) -> str | None:
    if isinstance(node, exp.Window):
        return "a window function reads other rows: it does not merge. Use the pipeline's `window` and `measures`."
    if isinstance(node, exp.AggFunc) or name in AGGREGATES:
        return f"`{name}` aggregates: an expression reads one record. Measures merge: {MEASURE_NAMES}."
    return None


def _explain_unlisted(node: exp.Expr, name: str) -> str:
    if isinstance(node, (exp.Upper, exp.Lower)):
        return f"`{name}` differs between Spark and DuckDB beyond ASCII. Use translate(x, 'ABC...', 'abc...')."
    if isinstance(node, (exp.Alias, exp.Aliases)):
        return "an alias or two expressions; expected one expression without a name."
    if isinstance(node, (exp.Parameter, exp.Placeholder)):
        return "a placeholder; expected a value."
    if isinstance(node, exp.Func):
        return f"function `{name}` is not on the list (or is a user-defined function, which only one engine knows)."
    return f"`{node.sql(dialect='spark')}` ({node.key}) is not on the list."


class UnknownColumnError(DefinitionError):
    """Column that does not exist; `name` is its name in the expression."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown column `{name}`")
        self.name = name


def format_unknown_column(of: str, name: str, known_names: list[str]) -> str:
    """Format the message about a column that does not exist, with the known name that is closest to it."""
    close = get_close_matches(name.lower(), known_names, n=1)
    hint = f"\nHint: did you mean `{close[0]}`?" if close else ""
    return f"{of}: unknown column `{name}`; expected one of {', '.join(known_names)}.{hint}"
