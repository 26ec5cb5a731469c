"""Parser of Spark SQL statements."""

from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.tokenizer_core import TokenType


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
