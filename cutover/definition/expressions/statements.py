"""Statements of Spark SQL as syntax trees."""

from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.tokenizer_core import TokenType


def parse_statements(text: str) -> tuple[exp.Expr, ...]:
    """Return the statements of a text.

    Spark's `window(at, '1 hour')` is a function in every place; sqlglot takes it for the clause WINDOW behind a
    GROUP BY.

    Raises:
        SqlglotError: It is no SQL of Spark.
    """
    dialect = Spark()
    tokens = dialect.tokenize(text)
    for token, behind in pairwise(tokens):
        if token.token_type is TokenType.WINDOW and behind.token_type is TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    return tuple(item for item in dialect.parser().parse(tokens, text) if item is not None)
